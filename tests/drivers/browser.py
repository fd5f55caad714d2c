"""A headless Chromium, driven over WebDriver (W3C) by Debian's chromedriver; nothing is downloaded."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
from pathlib import Path
from typing import Any, Final, Self

import httpx

from tests.drivers.ports import free_port
from tests.waiting import UNHURRIED_S, wait_until

ELEMENT: Final = "element-6066-11e4-a52e-4f735466cecf"
"""Names a reference to an element in JSON (WebDriver, section 12.4)."""
_FLAGS: Final = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps",
    "--no-default-browser-check", "--no-proxy-server", "--lang=en-US",
)  # fmt: skip
KEYS: Final = {
    "Tab": "\ue004", "Enter": "\ue007", "Escape": "\ue00c", "Shift": "\ue008", "Space": " ",
    "End": "\ue010", "Home": "\ue011", "ArrowLeft": "\ue012", "ArrowRight": "\ue014",
}  # fmt: skip


class Browser:
    """One browser with one tab and an empty profile.

    Args:
        directory: for its profile and log.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._session = ""
        port = free_port()
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=UNHURRIED_S, trust_env=False)
        self._command = ["chromedriver", f"--port={port}", f"--log-path={directory / 'chromedriver.log'}"]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        # A group of its own: if chromedriver has to be killed, its browser goes with it.
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0
        )
        wait_until(self._answers, "chromedriver answers")
        options = {
            "args": [*_FLAGS, f"--user-data-dir={self._directory / 'profile'}"],
        }
        logs = {"goog:loggingPrefs": {"browser": "ALL"}}
        unhurried = {"timeouts": {"script": int(1000 * UNHURRIED_S), "pageLoad": int(1000 * UNHURRIED_S)}}
        capabilities = {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options, **logs, **unhurried}}
        self._session = self._ask("POST", "/session", {"capabilities": capabilities})["sessionId"]
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        if self._session:
            self._ask("DELETE", f"/session/{self._session}")
        self._client.close()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(UNHURRIED_S)

    def open(self, url: str) -> None:
        """Open an address; returns when the document and its scripts are loaded."""
        self._post("url", {"url": url})

    def run(self, script: str, *arguments: object) -> Any:
        """Run JavaScript as the body of a function; return what it returns."""
        return self._post("execute/sync", {"script": script, "args": arguments})

    def press(self, *keys: str) -> None:
        """Press keys together, by their names in `KEYS`, or type one text."""
        values = [KEYS.get(key, key) for key in keys]
        presses = [{"type": "keyDown", "value": value} for value in values]
        releases = [{"type": "keyUp", "value": value} for value in reversed(values)]
        source = {"type": "key", "id": "keyboard", "actions": presses + releases}
        self._post("actions", {"actions": [source]})

    def type(self, text: str) -> None:
        """Type a text into what has the focus."""
        for character in text:
            self.press(character)

    def elements(self, selector: str) -> list[str]:
        """Return references to what a CSS selector matches."""
        found = self._post("elements", {"using": "css selector", "value": selector})
        return [each[ELEMENT] for each in found]

    def label(self, element: str) -> str:
        """Return the accessible name of an element, as a screen reader gets it."""
        return str(self._get(f"element/{element}/computedlabel"))

    def role(self, element: str) -> str:
        """Return its role."""
        return str(self._get(f"element/{element}/computedrole"))

    def look(self, *, width: int, height: int, dark: bool = False, still: bool = False) -> None:
        """Set the size of the window in CSS pixels, and what the reader prefers."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._devtools("Emulation.setDeviceMetricsOverride", metrics)
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"},
        ]
        self._devtools("Emulation.setEmulatedMedia", {"features": features})

    def screenshot(self, path: Path) -> None:
        """Save what is seen as PNG."""
        path.write_bytes(base64.b64decode(self._get("screenshot")))

    def errors(self) -> list[str]:
        """Return the errors of the page's scripts and policy since the last call; not those of the network."""
        entries = self._post("se/log", {"type": "browser"})
        return [
            each["message"]
            for each in entries
            if each["level"] in ("SEVERE", "WARNING") and each["source"] != "network"
        ]

    def wait_for(self, condition: str, what: str) -> None:
        """Wait until a JavaScript expression is true; fail with `what` and the page's text."""
        try:
            wait_until(lambda: bool(self.run(f"return Boolean({condition})")), what)
        except AssertionError as error:
            raise AssertionError(f"{error}; the page says:\n{self.run('return document.body.innerText')}") from error

    def _answers(self) -> bool:
        try:
            return bool(self._ask("GET", "/status")["ready"])
        except httpx.TransportError:
            return False

    def _devtools(self, command: str, parameters: dict[str, Any]) -> None:
        self._post("goog/cdp/execute", {"cmd": command, "params": parameters})

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        return self._ask("POST", f"/session/{self._session}/{path}", body)

    def _get(self, path: str) -> Any:
        return self._ask("GET", f"/session/{self._session}/{path}")

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        response = self._client.request(method, path, content=None if body is None else json.dumps(body))
        value = response.json()["value"]
        assert response.status_code == 200, f"{method} {path}: {value}"
        return value

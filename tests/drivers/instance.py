"""One instance as an operator runs it: `leaderboard serve` in a process of its own, asked over HTTP."""

from __future__ import annotations

import re
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import httpx

from tests.drivers.command import command, environment
from tests.drivers.ports import free_port
from tests.waiting import UNHURRIED_S, wait_until

_STREAM_STATE = re.compile(r"stream: [a-z ]+ ▸ ([a-z ]+)")

# One for all: making one takes 20 ms of CPU, which whoever waits would take from what is waited for.
_CLIENT = httpx.Client(timeout=10, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))


def ask(address: str, path: str, **headers: str) -> httpx.Response:
    """Ask who listens at an address for a path, over a new connection."""
    return _CLIENT.get(f"http://{address}{path}", headers=headers)


class Instance:
    """A `leaderboard serve` process.

    Args:
        directory: where it keeps its state and its log.
        bootstrap_servers: Kafka.
        settings: further settings, without their prefix; a checkpoint of its own unless one is given.
    """

    arguments: Sequence[str] = ()
    """What `serve` takes."""

    def __init__(self, directory: Path, bootstrap_servers: str, **settings: object) -> None:
        self.directory = directory
        self.port = int(str(settings.get("PORT") or free_port()))
        self.address = f"127.0.0.1:{self.port}"
        self.url = f"http://{self.address}"
        self.log_path = directory / "instance.log"
        self._settings = {
            "BOOTSTRAP_SERVERS": bootstrap_servers,
            "HOST": "127.0.0.1",
            "PORT": self.port,
            "ADVERTISED": self.address,
            "STATE_DIR": directory / "state",
            "CHECKPOINT_INTERVAL_S": 5,
            "TABLES_REFRESH_S": 1,
            **settings,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process; it has been started."""
        assert self._process is not None
        return self._process

    def start(self) -> Self:
        """Start the process; returns when it answers over HTTP."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        with self.log_path.open("ab") as log:
            # A session of its own, as a service has: Linux shares out the cores among sessions.
            self._process = subprocess.Popen(
                command("serve", *self.arguments),
                env=environment(**self._settings),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(self.answers, f"{self.address} answers, see {self.log_path}")
        return self

    def answers(self) -> bool:
        """Return whether the process answers over HTTP; one that has ended fails the test."""
        assert self.process.poll() is None, f"it ended with {self.process.returncode}:\n{self.log()}"
        try:
            return self.get("/health/live").status_code == 200
        except httpx.TransportError:
            return False

    def get(self, path: str, **headers: str) -> httpx.Response:
        """Ask for a path, over a new connection."""
        return ask(self.address, path, **headers)

    def boards(self, limit: int = 3) -> Any:
        """Return the body of `GET /leaderboard`, or the status when it is not 200."""
        answer = self.get(f"/leaderboard?limit={limit}")
        return answer.json() if answer.status_code == 200 else answer.status_code

    def rows(self, store: str) -> Any:
        """Return the rows of a store in the whole cluster, or the status when it is not 200."""
        answer = self.get(f"/stores/{store}/keys")
        return answer.json() if answer.status_code == 200 else answer.status_code

    def log(self) -> str:
        """Return what this process has logged since it was started last."""
        with self.log_path.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def wait_for_log(self, text: str, deadline_s: float = UNHURRIED_S, times: int = 1) -> None:
        """Wait until the process has logged a text."""
        wait_until(
            lambda: self.process.poll() is None and self.log().count(text) >= times,
            f"{text!r} in {self.log_path}",
            deadline_s=deadline_s,
        )

    def wait_for_real_time(self) -> None:
        """Wait until the stream runs in real time now, as the last that the process has said of it tells."""
        wait_until(
            lambda: self.process.poll() is None and _STREAM_STATE.findall(self.log())[-1:] == ["running"],
            f"the stream runs in real time, see {self.log_path}",
        )

    def wait_for_boards(self, expected: Any, limit: int = 3) -> None:
        """Wait until `GET /leaderboard` is what is expected; fail with the first difference."""
        try:
            wait_until(lambda: self.boards(limit) == expected, "the boards are as expected")
        except AssertionError:
            assert self.boards(limit) == expected, self.log()[-3000:]

    def wait_for_rows(self, store: str, expected: Any) -> None:
        """Wait until the rows of a store are what is expected; fail with the first difference."""
        try:
            wait_until(lambda: self.rows(store) == expected, "the rows are as expected")
        except AssertionError:
            assert self.rows(store) == expected, self.log()[-3000:]

    def terminate(self, deadline_s: float = UNHURRIED_S) -> int:
        """Send SIGTERM and wait for the end; return the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(deadline_s)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.process.kill()
        self.process.wait()

    def lose_state(self) -> None:
        """Take the stores away, at once: a JVM that has yet to see that its parent is gone still writes there."""
        lost = tempfile.mkdtemp(prefix="lost-", dir=self.directory)
        (self.directory / "state").rename(lost)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

"""A process that is asked over HTTP, from its start to its end."""

from __future__ import annotations

import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import httpx

from tests.waiting import UNHURRIED_S, wait_until

# One for all: making one takes 20 ms of CPU, which whoever waits would take from what is waited for.
_CLIENT = httpx.Client(timeout=60, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))


def ask(address: str, path: str, **headers: str) -> httpx.Response:
    """Ask who listens at an address for a path, over a new connection."""
    return _CLIENT.get(f"http://{address}{path}", headers=headers)


class ServedProcess(ABC):
    """The process, which may be started again and again.

    Args:
        directory: where it keeps its state and its log.
        port: where it listens.
        log: the name of its log.
    """

    def __init__(self, directory: Path, port: int, log: str) -> None:
        self.directory = directory
        self.port = port
        self.address = f"127.0.0.1:{port}"
        self.url = f"http://{self.address}"
        self.log_path = directory / log
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @abstractmethod
    def command(self) -> Sequence[str | Path]:
        """Return what runs it."""

    @abstractmethod
    def environment(self) -> Mapping[str, str]:
        """Return what it finds in its environment."""

    @abstractmethod
    def is_up(self) -> bool:
        """Ask it whether it has started; raises httpx's errors while nobody listens."""

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
                self.command(), env=self.environment(), stdout=log, stderr=log, start_new_session=True
            )
        wait_until(self.answers, f"{self.address} answers, see {self.log_path}")
        return self

    def answers(self) -> bool:
        """Return whether the process answers over HTTP; one that has ended fails the test."""
        assert self.process.poll() is None, f"it ended with {self.process.returncode}:\n{self.log()}"
        try:
            return self.is_up()
        except httpx.TransportError:
            return False

    def get(self, path: str, **headers: str) -> httpx.Response:
        """Ask for a path, over a new connection."""
        return ask(self.address, path, **headers)

    def json_of(self, path: str) -> Any:
        """Return what the answer for a path says, or its status when it is not 200."""
        answer = self.get(path)
        return answer.json() if answer.status_code == 200 else answer.status_code

    def log(self) -> str:
        """Return what this process has logged since it was started last."""
        with self.log_path.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def terminate(self, deadline_s: float = UNHURRIED_S) -> int:
        """Send SIGTERM and wait for the end; return the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(deadline_s)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.process.kill()
        self.process.wait()

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

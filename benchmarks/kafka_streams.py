"""The leaderboard as a Kafka Streams application, built by Maven from `benchmarks/peer`, as a process that is asked."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any, Final, Self

import httpx

from app.java.installed import find_java
from tests.drivers.ports import free_port
from tests.waiting import UNHURRIED_S, wait_until

_PROJECT: Final = Path(__file__).parent / "peer"
_JAR: Final = _PROJECT / "target" / "peer.jar"
_ENDED_BY_SIGTERM: Final = 128 + signal.SIGTERM
"""The exit status of a JVM that has done what it does at its end."""

# One for all, as that of the service's instances.
_CLIENT = httpx.Client(timeout=10, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))


def build() -> None:
    """Build the application; what is up to date is left as it is.

    Raises:
        CalledProcessError: Maven has said why it cannot.
    """
    subprocess.run(["mvn", "-q", "-B", "-Dstyle.color=never", "-f", str(_PROJECT), "package"], check=True)


class KafkaStreamsApplication:
    """A process of the application, with the same names as `tests.drivers.instance.Instance` has.

    Args:
        directory: where it keeps its state and its log.
        bootstrap_servers: Kafka.
    """

    def __init__(self, directory: Path, bootstrap_servers: str) -> None:
        self.directory = directory
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        self.url = f"http://{self.address}"
        self.log_path = directory / "application.log"
        self._settings = {
            "BOOTSTRAP_SERVERS": bootstrap_servers,
            "PORT": str(port),
            "STATE_DIR": str(directory / "state"),
            "APPLICATION_ID": "kafka-streams-leaderboard",
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process; it has been started."""
        assert self._process is not None
        return self._process

    def start(self) -> Self:
        """Start the process, with the JVM's defaults; returns when it answers over HTTP."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            # A session of its own, as a service has: Linux shares out the cores among sessions.
            self._process = subprocess.Popen(
                [find_java().executable, "-jar", _JAR],
                env=os.environ | self._settings,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(self._answers, f"{self.address} answers, see {self.log_path}")
        return self

    def boards(self) -> Any:
        """Return the body of `GET /leaderboard`, or the status when it is not 200."""
        answer = _CLIENT.get(f"{self.url}/leaderboard")
        return answer.json() if answer.status_code == 200 else answer.status_code

    def terminate(self) -> int:
        """Send SIGTERM and wait for the end; return 0 when it has ended in order."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(UNHURRIED_S)
        return 0 if status == _ENDED_BY_SIGTERM else status

    def _answers(self) -> bool:
        assert self.process.poll() is None, f"it ended with {self.process.returncode}:\n{self.log_path.read_text()}"
        try:
            self.boards()
        except httpx.TransportError:
            return False
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

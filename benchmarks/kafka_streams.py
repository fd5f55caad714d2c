"""The leaderboard as a Kafka Streams application, built by Maven from `benchmarks/peer`, as a process that is asked."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from app.java.installed import find_java
from tests.drivers.ports import free_port
from tests.drivers.served_process import ServedProcess
from tests.waiting import UNHURRIED_S

_PROJECT: Final = Path(__file__).parent / "peer"
_JAR: Final = _PROJECT / "target" / "peer.jar"
_ENDED_BY_SIGTERM: Final = 128 + signal.SIGTERM
"""The exit status of a JVM that has done what it does at its end."""


def build() -> None:
    """Build the application; what is up to date is left as it is.

    Raises:
        CalledProcessError: Maven has said why it cannot.
    """
    subprocess.run(["mvn", "-q", "-B", "-Dstyle.color=never", "-f", str(_PROJECT), "package"], check=True)


class KafkaStreamsApplication(ServedProcess):
    """A process of the application, with the JVM's defaults and the same names as the service's instances have.

    Args:
        directory: where it keeps its state and its log.
        bootstrap_servers: Kafka.
    """

    def __init__(self, directory: Path, bootstrap_servers: str) -> None:
        super().__init__(directory, free_port(), "application.log")
        self._settings = {
            "BOOTSTRAP_SERVERS": bootstrap_servers,
            "PORT": str(self.port),
            "STATE_DIR": str(directory / "state"),
            "APPLICATION_ID": "kafka-streams-leaderboard",
        }

    def command(self) -> Sequence[str | Path]:
        """Return the JVM with the application."""
        return [find_java().executable, "-jar", _JAR]

    def environment(self) -> Mapping[str, str]:
        """Return that of this process, with the settings."""
        return os.environ | self._settings

    def is_up(self) -> bool:
        """Ask it for its boards: whatever it says, it is there."""
        self.boards()
        return True

    def boards(self) -> Any:
        """Return the body of `GET /leaderboard`, or the status when it is not 200."""
        return self.json_of("/leaderboard")

    def terminate(self, deadline_s: float = UNHURRIED_S) -> int:
        """Send SIGTERM and wait for the end; return 0 when it has ended in order."""
        status = super().terminate(deadline_s)
        return 0 if status == _ENDED_BY_SIGTERM else status

    def __enter__(self) -> Self:
        return self

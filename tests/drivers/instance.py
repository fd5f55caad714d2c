"""One instance as an operator runs it: `leaderboard serve` in a process of its own, asked over HTTP."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.drivers.command import command, environment
from tests.drivers.ports import free_port
from tests.drivers.served_process import ServedProcess
from tests.waiting import UNHURRIED_S, wait_until

_STREAM_STATE = re.compile(r"(stream[^:\n]*): [a-z ]+ ▸ ([a-z ]+)")
"""Of a store's stream, which is named where there are several."""


class Instance(ServedProcess):
    """A `leaderboard serve` process.

    Args:
        directory: where it keeps its state and its log.
        bootstrap_servers: Kafka.
        settings: further settings, without their prefix; a checkpoint of its own unless one is given.

    Attributes:
        advertised: where other instances reach it.
    """

    arguments: Sequence[str] = ()
    """What `serve` takes."""

    def __init__(self, directory: Path, bootstrap_servers: str, **settings: object) -> None:
        super().__init__(directory, int(str(settings.get("PORT") or free_port())), "instance.log")
        self.advertised = str(settings.get("ADVERTISED") or self.address)
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

    def command(self) -> Sequence[str]:
        """Return `leaderboard serve`, as it is installed here."""
        return command("serve", *self.arguments)

    def environment(self) -> Mapping[str, str]:
        """Return the settings."""
        return environment(**self._settings)

    def is_up(self) -> bool:
        """Ask it whether it lives."""
        return self.get("/health/live").status_code == 200

    def boards(self, limit: int = 3) -> Any:
        """Return the body of `GET /leaderboard`, or the status when it is not 200."""
        return self.json_of(f"/leaderboard?limit={limit}")

    def rows(self, store: str) -> Any:
        """Return the rows of a store in the whole cluster, or the status when it is not 200."""
        return self.json_of(f"/stores/{store}/keys")

    def wait_for_log(self, text: str, deadline_s: float = UNHURRIED_S, times: int = 1) -> None:
        """Wait until the process has logged a text."""
        wait_until(
            lambda: self.process.poll() is None and self.log().count(text) >= times,
            f"{text!r} in {self.log_path}",
            deadline_s=deadline_s,
        )

    @property
    def is_in_real_time(self) -> bool:
        """Whether every store's stream runs in real time now, as the last that the process has said of it tells."""
        return self.process.poll() is None and {*dict(_STREAM_STATE.findall(self.log())).values()} == {"running"}

    def wait_for_real_time(self) -> None:
        """Wait until every store's stream runs in real time now."""
        wait_until(lambda: self.is_in_real_time, f"the stream runs in real time, see {self.log_path}")

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

    def lose_state(self) -> None:
        """Take the stores away, at once: a JVM that has yet to see that its parent is gone still writes there."""
        lost = tempfile.mkdtemp(prefix="lost-", dir=self.directory)
        (self.directory / "state").rename(lost)

    def __enter__(self) -> Self:
        return self.start()

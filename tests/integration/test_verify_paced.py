"""`leaderboard verify` of topologies whose rows come when they do not change any more: what it proves, and what not."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.java.broker import Broker
from app.load import load, sample_files
from app.topologies import load_application
from tests.drivers.command import run_command
from tests.drivers.counted import Counted
from tests.drivers.instance import Instance
from tests.drivers.known_answers import ANSWERS
from tests.waiting import UNHURRIED_S, wait_until
from topology.sessions import SESSIONS


@pytest.mark.system
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sessions", "4 rows of sessions-store compared with 9 records of logs"),
        (
            "paid-orders",
            "3 rows of paid-orders-store compared with 10 records of orders-topic and payments-topic",
        ),
    ],
)
def test_what_is_served_is_what_the_topics_say(tmp_path: Path, name: str, said: str) -> None:
    application = load_application(name, depth=10)
    ((store, rows),) = ANSWERS[name].items()
    with Broker(tmp_path / "kafka") as broker:
        asyncio.run(
            load(broker.connection, application.topology, sample_files(application.topology, application.samples))
        )
        instance = Instance(tmp_path / "instance", broker.bootstrap_servers, TOPOLOGY=name)
        with instance:
            wait_until(lambda: _said(instance.rows(store)) == _said(rows), "all is served", UNHURRIED_S)
            given = {"BOOTSTRAP_SERVERS": broker.bootstrap_servers, "PORT": instance.port}
            done = run_command("verify", "--topology", name, **given)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == f"{said} (0 of them unusable): equal\n"


def _said(rows: object) -> list[str]:
    return sorted(map(str, rows)) if isinstance(rows, list) else []


class Browsing:
    """What browsers do, a while ago, and the sessions that an instance serves of it."""

    def __init__(self, broker: Broker, directory: Path) -> None:
        self.instance = Instance(directory / "instance", broker.bootstrap_servers, TOPOLOGY="sessions")
        self._world = Counted(broker.connection, SESSIONS)
        self._given = {"BOOTSTRAP_SERVERS": broker.bootstrap_servers, "PORT": self.instance.port}
        self._begin_ms = int(time.time() * 1000) - 600_000

    def act(self, browser: str, after_s: int) -> None:
        """Have a browser do something, so many seconds after the begin."""
        at_ms = self._begin_ms + after_s * 1000
        self._world.send(json.dumps({"browserHash": browser}), partition=0, at_ms=at_ms)

    def until_served(self, *browsers: str) -> None:
        """Wait until sessions of these browsers are served, and no others."""
        wait_until(lambda: self._served() == [*browsers], f"sessions of {browsers} are served", UNHURRIED_S)

    def verified(self) -> list[str]:
        """Return the lines of `leaderboard verify`, which finds no difference."""
        done = run_command("verify", "--topology", "sessions", "--within", "0", **self._given)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    def _served(self) -> list[str]:
        rows = self.instance.rows("sessions-store")
        return sorted(row["browserHash"] for row in rows) if isinstance(rows, list) else []


@pytest.fixture
def browsing(tmp_path: Path) -> Iterator[Browsing]:
    with Broker(tmp_path / "kafka") as broker:
        yield Browsing(broker, tmp_path)


@pytest.mark.system
def test_what_came_too_late_cannot_be_proved_and_is_no_difference(browsing: Browsing) -> None:
    with browsing.instance as instance:
        instance.wait_for_real_time()
        browsing.act("b1", 0)
        browsing.act("clock", 120)
        browsing.until_served("b1")
        # One more of that session, and one of a session of its own.
        browsing.act("b1", 5)
        browsing.act("b2", 0)
        browsing.act("clock", 300)
        browsing.until_served("b1", "clock")
        said = browsing.verified()
    assert said == [
        "3 rows of sessions-store compared with 5 records of logs (0 of them unusable): equal",
        "note: 2 rows of sessions-store cannot be proved: records that came too late may be what is missing",
    ]
    with browsing.instance as instance:
        # What came too late before it started is known yet.
        instance.wait_for_real_time()
        assert browsing.verified() == said


@pytest.mark.system
def test_a_session_in_two_rows_is_equal_where_no_record_is_missing(browsing: Browsing) -> None:
    with browsing.instance as instance:
        instance.wait_for_real_time()
        browsing.act("b1", 0)
        browsing.act("clock", 45)
        browsing.until_served("b1")
        # In the gap of that session, and not too late: its own would end at 55 s, and grace is 10 s.
        browsing.act("b1", 25)
        browsing.act("clock", 300)
        browsing.until_served("b1", "b1", "clock")
        said = browsing.verified()
    assert said == ["2 rows of sessions-store compared with 4 records of logs (0 of them unusable): equal"]

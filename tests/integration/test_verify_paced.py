"""`leaderboard verify` of topologies whose rows come when they do not change any more: what it proves, and what not."""

from __future__ import annotations

import asyncio
import json
import time
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


@pytest.mark.system
def test_what_came_too_late_cannot_be_proved_and_is_no_difference(tmp_path: Path) -> None:
    begin_ms = int(time.time() * 1000) - 600_000
    with Broker(tmp_path / "kafka") as broker:
        world = Counted(broker.connection, SESSIONS)

        def act(browser: str, after_s: int) -> None:
            world.send(json.dumps({"browserHash": browser}), partition=0, at_ms=begin_ms + after_s * 1000)

        instance = Instance(tmp_path / "instance", broker.bootstrap_servers, TOPOLOGY="sessions")
        given = {"BOOTSTRAP_SERVERS": broker.bootstrap_servers, "PORT": instance.port}

        def verified() -> list[str]:
            done = run_command("verify", "--topology", "sessions", "--within", "0", **given)
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout.splitlines()

        with instance:
            instance.wait_for_real_time()
            act("b1", 0)
            act("clock", 120)
            wait_until(lambda: _browsers(instance) == ["b1"], "its session is served", UNHURRIED_S)
            # One more of that session, and one of a session of its own.
            act("b1", 5)
            act("b2", 0)
            act("clock", 300)
            wait_until(lambda: _browsers(instance) == ["b1", "clock"], "the next is served", UNHURRIED_S)
            said = verified()
        assert said == [
            "3 rows of sessions-store compared with 5 records of logs (0 of them unusable): equal",
            "note: 2 rows of sessions-store cannot be proved: records that came too late may be what is missing",
        ]
        with instance:
            # What came too late before it started is known yet.
            instance.wait_for_real_time()
            assert verified() == said


@pytest.mark.system
def test_a_session_in_two_rows_is_equal_where_no_record_is_missing(tmp_path: Path) -> None:
    begin_ms = int(time.time() * 1000) - 600_000
    with Broker(tmp_path / "kafka") as broker:
        world = Counted(broker.connection, SESSIONS)

        def act(browser: str, after_s: int) -> None:
            world.send(json.dumps({"browserHash": browser}), partition=0, at_ms=begin_ms + after_s * 1000)

        instance = Instance(tmp_path / "instance", broker.bootstrap_servers, TOPOLOGY="sessions")
        with instance:
            instance.wait_for_real_time()
            act("b1", 0)
            act("clock", 45)
            wait_until(lambda: _browsers(instance) == ["b1"], "its session is served", UNHURRIED_S)
            # In the gap of that session, and not too late: its own would end at 55 s, and grace is 10 s.
            act("b1", 25)
            act("clock", 300)
            wait_until(lambda: _browsers(instance) == ["b1", "b1", "clock"], "the next are served", UNHURRIED_S)
            given = {"BOOTSTRAP_SERVERS": broker.bootstrap_servers, "PORT": instance.port}
            done = run_command("verify", "--topology", "sessions", "--within", "0", **given)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "2 rows of sessions-store compared with 4 records of logs (0 of them unusable): equal\n"


def _browsers(instance: Instance) -> list[str]:
    rows = instance.rows("sessions-store")
    return sorted(row["browserHash"] for row in rows) if isinstance(rows, list) else []

"""`leaderboard verify` of topologies whose rows come when they do not change any more: it agrees with an instance."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.java.broker import Broker
from app.load import load, sample_files
from app.topologies import load_application
from tests.drivers.command import run_command
from tests.drivers.instance import Instance
from tests.drivers.known_answers import ANSWERS
from tests.waiting import UNHURRIED_S, wait_until


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

"""`leaderboard verify` of any topology, beside a real instance: it agrees, and sees what is wrong or gone."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from app.java.broker import Broker
from app.verification.verify import DIFFERENT
from runtime.kafka.topics import create_missing, outputs_of
from tests.drivers.command import run_command
from tests.drivers.faults_topics import Topics
from tests.drivers.instance import Instance
from tests.drivers.producer import Inputs
from tests.drivers.raw_records import RawRecord, send_raw
from tests.waiting import UNHURRIED_S, wait_until
from topology.word_count import WORD_COUNT

pytestmark = pytest.mark.system

COUNTS = {"again": 1, "hello": 2, "kafka": 3, "streams": 1, "summit": 1, "world": 1}


@dataclass
class World:
    """A broker and an instance."""

    broker: Broker
    instance: Instance
    inputs: Inputs

    def counts(self) -> dict[str, int]:
        """Return what is served."""
        rows = self.instance.rows("counts-store")
        return {row["word"]: row["count"] for row in rows} if isinstance(rows, list) else {}

    def verify(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command in a process of its own."""
        given = {"BOOTSTRAP_SERVERS": self.broker.bootstrap_servers, "PORT": self.instance.port}
        return run_command("verify", "--topology", "word-count", *arguments, **given)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One instance for the module; the tests run in their order, each adds to what is there."""
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        Topics(broker.bootstrap_servers).create("lines", message_timestamp_after_max_ms=str(2**63 - 1))
        asyncio.run(create_missing(broker.connection, outputs_of(WORD_COUNT)))
        inputs = Inputs(broker.connection)
        lines = [b"hello world", b"hello kafka streams", b"kafka summit kafka", b"\xff", None]
        inputs.send("lines", [(b"key", line) for line in lines])
        # Spark cannot read the first of these: what lies around it is read apart.
        now_ms = int(time.time() * 1000)
        send_raw(broker.connection, "lines", 1, [RawRecord(b"never", now_ms * 1_000_000), RawRecord(b"again", now_ms)])
        instance = Instance(tmp_path_factory.mktemp("instance"), broker.bootstrap_servers, TOPOLOGY="word-count")
        world = World(broker, instance, inputs)
        with instance:
            wait_until(lambda: world.counts() == COUNTS, lambda: f"all is counted: {world.counts()}", UNHURRIED_S)
            yield world


def test_what_is_served_is_what_the_topic_says(world: World) -> None:
    done = world.verify()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "6 rows of counts-store compared with 7 records of lines (3 of them unusable): equal\n"


def test_records_that_are_gone_are_told_and_no_difference(world: World) -> None:
    world.inputs.truncate("lines", 4)
    world.inputs.send("lines", [(b"key", b"hello new")])
    wait_until(lambda: world.counts().get("new") == 1, "the last line is counted")
    done = world.verify("--format", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["equal"]
    assert found["stores"] == {"counts-store": {"rows": 7, "unproved": 6}}
    assert (found["records"], found["unusable"]) == (1, 0)
    assert sum(found["lost_before"].values()) == 7


def test_a_count_that_is_gone_differs_all_the_same(world: World) -> None:
    world.inputs.send("counts", [(b"new", None)])
    wait_until(lambda: "new" not in world.counts(), "the row is not served")
    done = world.verify("--within", "0")
    assert done.returncode == DIFFERENT, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == [
        f'http://localhost:{world.instance.port}: counts-store "new" is not served',
        '    expected  {"word":"new","count":1}',
        "    served    -",
    ]
    assert "compared with 1 record of lines (0 of them unusable): 1 difference" in lines[-2]

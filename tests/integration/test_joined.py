"""Two streams joined on a real broker and real Spark: each two that belong together are found, whatever fails."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from app.java.broker import Broker
from tests.drivers.counted import Counted, merged
from tests.drivers.faults_topics import Topics
from tests.drivers.paced_topologies import Told, paid, paid_of
from tests.drivers.raw_records import RawRecord, send_raw
from tests.drivers.stream_process import StreamProcess, running
from tests.drivers.topic_reader import read_topic
from tests.waiting import wait_until


class Scene:
    """The topics, what was sent, and what is published."""

    def __init__(self, broker: Broker, name: str) -> None:
        topics = Topics(broker.bootstrap_servers)
        for source in paid(name).sources:
            topics.create(source.topic, source.partitions, message_timestamp_after_max_ms=str(2**63 - 1))
        self.world = Counted(broker.connection, paid(name))
        self.store = self.world.topology.stores[0]
        self.begin_ms = int(time.time() * 1000) - 3_600_000
        self.orders: list[Told] = []
        self.payments: list[Told] = []

    def order(self, *said: tuple[str, float, str], partition: int = 0) -> None:
        """Send orders: which, how many seconds after the beginning, and of what."""
        self.orders += self._send(self.world.topology.sources[0].topic, "item", said, partition)

    def pay(self, *said: tuple[str, float, str]) -> None:
        """Send payments: of which order, how many seconds after the beginning, and how."""
        self.payments += self._send(self.world.topology.sources[1].topic, "method", said, 0)

    def send_wrong(self, number: int, value: bytes, timestamp: int | None = None) -> None:
        """Send a record that cannot be used, or even read by its time."""
        at_ms = self.begin_ms if timestamp is None else timestamp
        send_raw(self.world.kafka, self.world.topology.sources[number].topic, 0, [RawRecord(value, at_ms)])

    def rows(self) -> dict[str, tuple[str, str, str]]:
        """Return what a copy holds that has read the topic."""
        held = merged(self.store, self.world.records())
        each = {key: result.values for key, result in held.items()}
        return {key: (row["item"].value, row["method"].value, row["first"]) for key, row in each.items()}

    def expected(self) -> dict[str, tuple[str, str, str]]:
        return paid_of(self.orders, self.payments)

    def until_exact(self) -> None:
        """Wait until what belongs together is published, and nothing else."""
        wait_until(
            lambda: self.rows() == self.expected(), lambda: f"exact: {self.rows()}, to be {self.expected()}",
            every_s=0.2,
        )  # fmt: skip

    def letters(self, number: int) -> list[bytes]:
        """Return the dead letters of a source."""
        topic = self.world.topology.sources[number].invalid_topic
        return [each.value for each in read_topic(self.world.kafka, topic)]

    def _send(self, topic: str, name: str, said: tuple[tuple[str, float, str], ...], partition: int) -> list[Told]:
        sent = [Told(on, self.begin_ms + round(after_s * 1000), what) for on, after_s, what in said]
        records = [RawRecord(json.dumps({"order": on, name: what}).encode(), at_ms) for on, at_ms, what in sent]
        send_raw(self.world.kafka, topic, partition, records)
        return sent


@pytest.mark.system
def test_what_belongs_together_is_found_live_and_after_a_restart_and_when_the_checkpoint_is_lost(
    broker: Broker, tmp_path: Path
) -> None:
    scene = Scene(broker, "joined")
    checkpoint = tmp_path / "checkpoint"
    stream = StreamProcess(
        "tests.drivers.paced_topologies:paid", "joined", broker.bootstrap_servers, tmp_path / "own", checkpoint
    )
    # The edges, the payment first as well, a stream and a partition that are far ahead, and one order twice.
    scene.order(("edge", 0, "pen"), ("over", 0, "pen"), ("early", 300, "cup"), ("open", 50, "hat"), partition=0)
    scene.order(("ahead", 2000, "car"), ("twice", 10, "ink"), ("twice", 20, "mug"), partition=1)
    scene.pay(("edge", 300, "card"), ("over", 300.001, "card"), ("early", 0, "cash"), ("twice", 30, "card"))
    scene.send_wrong(0, b'{"order": "no item"}')
    scene.send_wrong(1, b'{"order": "", "method": "cash"}')
    with running(stream):
        stream.until_running()
        assert scene.rows() == scene.expected()
        assert scene.rows().keys() == {"edge", "early", "twice"}
        stream.until(lambda status: (status["events"], status["invalid"]) == (13, 2), "each record is counted once")
        # The state goes on, and what comes later joins what came before.
        scene.pay(("open", 250, "cash"))
        scene.pay(("ahead", 2100, "card"), ("twice", 40, "bank"))
        scene.until_exact()
        stream.until(lambda status: sum(status["dead_letters"].values()) == 2, "the dead letters are written")
        assert [len(scene.letters(number)) for number in (0, 1)] == [1, 1]
        scene.order(("next", 2110, "box"), ("none", 2111, "bag"))
        stream.until(lambda status: status["events"] == 18, "all is read")
        stream.kill()
    scene.pay(("next", 2120, "cash"))
    with running(stream):
        stream.until_running()
        scene.until_exact()
        # A record that Spark cannot read is passed over, on this checkpoint.
        scene.send_wrong(0, b"never", time.time_ns())
        scene.order(("later", 2130, "oil"))
        scene.pay(("later", 2140, "card"))
        scene.until_exact()
        stream.until_running()
        assert stream.status["generation"] == 1
        stream.kill()
    before = scene.rows()
    shutil.rmtree(checkpoint)
    with running(stream):
        stream.until_running()
        assert stream.status["generation"] == 2
        assert scene.rows() == before == scene.expected()
        scene.pay(("none", 2150, "bank"))
        scene.until_exact()
        stream.stop()

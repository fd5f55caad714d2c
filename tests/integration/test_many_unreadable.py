"""Two producers, one of which stamps its records wrong: every other record cannot be read, and the counts are exact."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest
from aiokafka import TopicPartition

from app.java.broker import Broker
from runtime.kafka import unreadable
from runtime.kafka.offsets import OffsetRange, Ranges
from runtime.kafka.unreadable import read_piece
from runtime.records import FURTHEST_MS, TIMESTAMP_REASON
from tests.drivers.counted import Counted
from tests.drivers.raw_records import RawRecord, send_raw
from tests.drivers.stream_process import StreamProcess, running
from tests.drivers.topic_reader import read_topic
from tests.drivers.word_topologies import word_count, words_in
from tests.waiting import wait_until

NS = 1_795_622_429_884_000_000
TIMES = 100


class Scene:
    """Word count on a topic that takes any time, with some lines before it begins."""

    def __init__(self, broker: Broker, name: str, directory: Path) -> None:
        self.world = Counted(broker.connection, word_count(name))
        self.world.topics.configure(self.world.source, message_timestamp_after_max_ms=str(2**63 - 1))
        self.world.send("hello before", partition=0)
        self._name, self._broker, self._directory = name, broker, directory
        self._letters: Counter[bytes] = Counter()

    def stream(self, topology: str = "word_count") -> StreamProcess:
        """Return word count in a process, not started; always on the same checkpoint."""
        return StreamProcess(
            f"tests.drivers.word_topologies:{topology}", self._name, self._broker.bootstrap_servers,
            self._directory / "own", self._directory / "checkpoint",
        )  # fmt: skip

    def send_mixed(self) -> None:
        """Send lines between records that cannot be read, on two partitions of three, and others beside them."""
        world = self.world
        for partition in (0, 1):
            world.send_between(f"hello hello p{partition}", NS, partition, TIMES)
            odd = [RawRecord(b"\xff", FURTHEST_MS), RawRecord(None, -FURTHEST_MS), RawRecord(b"never", NS)]
            send_raw(world.kafka, world.source, partition, odd)
        world.send("after", "after", "hello other", partition=1)
        world.send("hello third", partition=2)
        self._letters += Counter({b"not UTF-8": 2, b"no value": 2, TIMESTAMP_REASON.encode(): 2 * TIMES + 2})

    def until_exact(self) -> None:
        """Wait until all is counted, and each record that does not count is one dead letter."""
        self.world.until_counted(words_in)
        wait_until(lambda: self._found().total() >= self._letters.total(), lambda: f"letters: {self._found()}")
        assert self._found() == self._letters
        places = Counter((of["partition"], of["offset"]) for of in self._headers())
        assert set(places.values()) == {1}

    @property
    def generations(self) -> set[int]:
        """The generations whose results are published."""
        return {int(dict(record.headers)["generation"]) for record in self.world.records()}

    def _found(self) -> Counter[bytes]:
        return Counter(of["reason"] for of in self._headers())

    def _headers(self) -> list[dict[str, bytes]]:
        return [dict(each.headers) for each in read_topic(self.world.kafka, self.world.topology.events.invalid_topic)]


@pytest.mark.faults
def test_every_other_record_holds_the_rest_up_for_less_than_a_minute(broker: Broker, tmp_path: Path) -> None:
    scene = Scene(broker, "alternating", tmp_path)
    scene.send_mixed()
    with running(scene.stream("word_count_in_small_pieces")) as stream:
        scene.until_exact()
        stream.until_running()
        began_s = time.monotonic()
        scene.send_mixed()
        scene.until_exact()
        assert time.monotonic() - began_s < 60
        stream.until_running()
        scene.world.send("hello live")
        scene.until_exact()
        # What the batch in real time has read is reported when it has been read again.
        lines = len(scene.world.lines)
        stream.kill_jvm()
        scene.world.send("hello again", partition=0)
        scene.until_exact()
        stream.until(lambda status: status["events"] >= lines, "the batches of files tell what they have read")
        stream.stop()
    assert scene.generations == {1}


def test_pieces_hold_each_readable_record_once(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    world = Counted(broker.connection, word_count("pieces"))
    world.topics.configure(world.source, message_timestamp_after_max_ms=str(2**63 - 1))
    for partition in (0, 1, 0, 1, 1):
        world.send_between("x" * 1000, NS, partition, 5)
    world.send("behind", partition=0)
    every = {0: OffsetRange(1, 20), 1: OffsetRange(0, 29), 2: OffsetRange(0, 0)}
    left: Ranges = {TopicPartition(world.source, partition): of for partition, of in every.items()}
    monkeypatch.setattr(unreadable, "_BYTES_AT_ONCE", 2_000)
    found, pieces = Counter[tuple[int, int]](), 0
    while left := {at: of for at, of in left.items() if of.begin < of.end}:
        piece = asyncio.run(read_piece(broker.connection, left))
        for each in piece.records:
            at = TopicPartition(each.topic, each.partition)
            assert left[at].begin <= each.offset < piece.ends[at]
        found.update((each.partition, each.offset) for each in piece.records)
        left = {at: OffsetRange(piece.ends[at], of.end) for at, of in left.items()}
        pieces += 1
    expected = [(0, offset) for offset in range(1, 20, 2)] + [(1, offset) for offset in range(1, 29, 2)]
    assert found == Counter(expected)
    assert pieces > 1


@pytest.mark.faults
@pytest.mark.parametrize("at", ["before", "after"])
def test_a_process_that_dies_while_the_query_reads_files_loses_nothing(broker: Broker, tmp_path: Path, at: str) -> None:
    scene = Scene(broker, f"killed-{at}-files", tmp_path)
    scene.send_mixed()
    with running(scene.stream(f"word_count_killed_{at}_files")) as stream:
        wait_until(lambda: not stream.alive, lambda: f"it was killed: {stream.log}", 120)
    with running(scene.stream()) as stream:
        scene.until_exact()
        stream.until_running()
        scene.send_mixed()
        scene.until_exact()
        assert "a new generation begins: the offsets of batch" in stream.log
        stream.stop()

"""Lines of text on a broker, what was counted of them, and what has to be counted: shares no code with what counts."""

from __future__ import annotations

import asyncio
import json
import random
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.structs import TopicPartition

from runtime.declaration import Store, Topology
from runtime.errors import InvalidRecord
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.ids import topic_ids
from runtime.kafka.offsets import topic_offsets
from runtime.kafka.topics import create_missing, inputs_of, outputs_of
from runtime.results import Result, merge, outlives, parse
from runtime.windows import STREAM_TIME_KEY, stream_time_of
from tests.drivers.faults_topics import Topics
from tests.drivers.raw_records import RawRecord, send_raw
from tests.drivers.topic_reader import read_topic
from tests.waiting import wait_until

Weigh = Callable[[str], Counter[str]]
"""What a line adds to the count of each key."""


class Line(NamedTuple):
    """A line that the broker has."""

    topic_id: str
    partition: int
    offset: int
    text: str


class Counted:
    """The topics of a topology, and the lines that were sent.

    Args:
        kafka: how to connect.
        topology: reads lines of text; its topics are created.

    Attributes:
        lines: those that have to be counted.
    """

    def __init__(self, kafka: KafkaConnection, topology: Topology) -> None:
        self.kafka = kafka
        self.topology = topology
        self.topics = Topics(kafka.bootstrap_servers)
        self.lines: list[Line] = []
        self._foreign: list[tuple[bytes, bytes | None]] = []
        asyncio.run(create_missing(kafka, [*inputs_of(topology), *outputs_of(topology)]))

    @property
    def source(self) -> str:
        """The name of the source; of several, of the first."""
        return self.topology.events.topic

    @property
    def source_id(self) -> str:
        """The id of the source as it is now."""
        return self._id_of(self.source)

    def _id_of(self, topic: str) -> str:
        return asyncio.run(topic_ids(self.kafka, [topic]))[topic].topic_id

    # What goes in

    def send(
        self, *texts: str, partition: int | None = None, topic: str | None = None, at_ms: int | None = None
    ) -> list[Line]:
        """Send lines, and return them as the broker has them.

        Args:
            texts: of the lines.
            partition: where to; without one each goes to the next.
            topic: of several sources another one than the first.
            at_ms: when they are of, in milliseconds from 1970; now by default.
        """
        topic = topic or self.source
        partitions = self.topics.partitions(topic)
        places = [position % partitions if partition is None else partition for position in range(len(texts))]
        placed = [(text.encode(), place) for text, place in zip(texts, places, strict=True)]
        offsets = asyncio.run(self._send(placed, topic, at_ms))
        topic_id = self._id_of(topic)
        sent = [Line(topic_id, place, offset, text) for text, place, offset in zip(texts, places, offsets, strict=True)]
        self.lines += sent
        return sent

    def send_unusable(self, *values: bytes | None, partition: int = 0, topic: str | None = None) -> None:
        """Send records that are no lines; see `send`."""
        asyncio.run(self._send([(value, partition) for value in values], topic or self.source))

    def send_between(self, text: str, timestamp: int, partition: int, times: int) -> None:
        """Send a line so many times, each behind a record with another time that is no line."""
        wrong, right = RawRecord(b"never", timestamp), RawRecord(text.encode(), int(time.time() * 1000))
        end = asyncio.run(topic_offsets(self.kafka, self.source, partition + 1)).end[partition]
        send_raw(self.kafka, self.source, partition, [wrong, right] * times)
        topic_id = self.source_id
        self.lines += [Line(topic_id, partition, end + 2 * number + 1, text) for number in range(times)]

    def take(self, *, unread: Iterable[Line] = (), but_last: int = 0) -> None:
        """Delete the records that the source holds, as retention would.

        Args:
            unread: lines that nobody has read, and that do not count any more if they are deleted.
            but_last: how many records each partition keeps.
        """
        ends = asyncio.run(self._take(self.topics.partitions(self.source), but_last))
        lost = {line for line in unread if line.offset < ends[line.partition]}
        self.lines = [line for line in self.lines if line not in lost]

    def begin_anew(self) -> None:
        """Delete the source, and create it anew."""
        self.topics.delete(self.source)
        asyncio.run(create_missing(self.kafka, inputs_of(self.topology)))

    def publish(self, store: Store, records: Iterable[tuple[str, bytes | None, Mapping[str, Any]]]) -> None:
        """Write records to the topic of a store, as somebody else has left them: key, value and headers."""
        listed = [
            (key.encode(), value, [(name, json.dumps(said).encode()) for name, said in headers.items()])
            for key, value, headers in records
        ]
        self._foreign += [(key, value) for key, value, _ in listed]
        asyncio.run(self._publish(store.topic, listed))

    async def _publish(self, topic: str, records: Iterable[tuple[bytes, bytes | None, Any]]) -> None:
        async with AIOKafkaProducer(**self.kafka.for_aiokafka(), enable_idempotence=True) as producer:
            sent = [await producer.send(topic, value, key=key, headers=said) for key, value, said in records]
            await asyncio.gather(*sent)

    async def _send(
        self, records: Iterable[tuple[bytes | None, int]], topic: str, at_ms: int | None = None
    ) -> list[int]:
        async with AIOKafkaProducer(**self.kafka.for_aiokafka(), enable_idempotence=True) as producer:
            # A key, since aiokafka refuses a record that has neither.
            sent = [
                await producer.send(topic, value, key=b"k", partition=at, timestamp_ms=at_ms) for value, at in records
            ]
            return [record.offset for record in await asyncio.gather(*sent)]

    async def _take(self, partitions: int, but_last: int) -> dict[int, int]:
        end = (await topic_offsets(self.kafka, self.source, partitions)).end
        ends = {partition: max(0, offset - but_last) for partition, offset in end.items()}
        admin = AIOKafkaAdminClient(**self.kafka.for_aiokafka())
        await admin.start()
        try:
            deleted = {TopicPartition(self.source, at): RecordsToDelete(offset) for at, offset in ends.items()}
            await admin.delete_records(deleted)
        finally:
            await admin.close()
        return ends

    # What has to come out

    def expected(self, weigh: Weigh) -> Counter[str]:
        """Return what has to be counted of all lines."""
        counts: Counter[str] = Counter()
        for line in self.lines:
            counts.update(weigh(line.text))
        return counts

    def records(self, store: Store | None = None) -> list[Any]:
        """Return the records on a store's topic; by default of the first."""
        return read_topic(self.kafka, (store or self.topology.stores[0]).topic)

    def told_ms(self, store: Store | None = None) -> int:
        """Return how far the events of a store with windows have come, as its topic tells; 0 where it does not.

        In milliseconds from 1970.
        """
        version = (store or self.topology.stores[0]).version
        told = [stream_time_of(each.headers, version) for each in self.records(store) if each.key == STREAM_TIME_KEY]
        return max((each for each in told if each is not None), default=0)

    def counts(self, store: Store | None = None) -> Counter[str]:
        """Return the counts that a copy has which reads the topic from its beginning."""
        of = store or self.topology.stores[0]
        return Counter({key: result.values["count"] for key, result in merged(of, self.records(of)).items()})

    def until_counted(self, weigh: Weigh, store: Store | None = None) -> None:
        """Wait until every line is counted; then check every record of the topic, and copies that read in any order."""
        of = store or self.topology.stores[0]
        wait_until(
            lambda: self.counts(of) == self.expected(weigh),
            lambda: f"{of.name} is exact: {self.difference(weigh, of)}",
            every_s=0.2,
        )
        self.check(weigh, of)

    def difference(self, weigh: Weigh, store: Store) -> dict[str, tuple[int, int]]:
        """Return the keys whose counts are not as they have to be: found and expected."""
        found, expected = self.counts(store), self.expected(weigh)
        return {key: (found[key], expected[key]) for key in found | expected if found[key] != expected[key]}

    def check(self, weigh: Weigh, store: Store | None = None) -> None:
        """Check that each record counts exactly what its headers say, and that copies that read in any order agree."""
        of = store or self.topology.stores[0]
        records = self.records(of)
        check_each((each for each in records if (each.key, each.value) not in self._foreign), self.lines, weigh)
        expected = self.expected(weigh)
        for seed in range(3):
            shuffled = random.Random(seed).sample(records, len(records))
            found = {key: result.values["count"] for key, result in merged(of, shuffled).items()}
            assert found == expected, f"read in order {seed}"


def merged(store: Store, records: Iterable[Any]) -> dict[str, Result]:
    """Return what a copy keeps that reads records in this order."""
    held: dict[str, Result] = {}
    for record in records:
        key = record.key.decode()
        if record.value is None:
            if key in held and not outlives(held[key].made, record.headers):
                del held[key]
        else:
            with suppress(InvalidRecord):
                held[key] = merge(store.record, held.get(key), parse(store.record, record.value, record.headers))
    return held


def check_each(records: Iterable[Any], lines: Iterable[Line], weigh: Weigh) -> None:
    """Check that each record counts every line up to its offsets, and no other."""
    of_key: dict[tuple[str, str, int], list[tuple[int, int]]] = defaultdict(list)
    for line in sorted(lines):
        for key, times in weigh(line.text).items():
            of_key[key, line.topic_id, line.partition].append((line.offset, times))
    for record in records:
        if record.value is None:
            continue
        headers = {name: json.loads(value) for name, value in record.headers}
        key, count, events = record.key.decode(), 0, 0
        for topic_id, offsets in headers["offsets"].items():
            for partition, offset in offsets.items():
                there = of_key[key, topic_id, int(partition)]
                upto = bisect_right(there, (offset, 1 << 60))
                assert upto, (key, headers)
                assert there[upto - 1][0] == offset, (key, headers, "no line with the key is there")
                count += sum(times for _, times in there[:upto])
                events += upto
        assert json.loads(record.value) == {"count": count}, (key, record.value, headers)
        assert headers["events"] == events, (key, headers)

"""Records that Spark's Kafka source cannot read, whatever is in them: one of them ends every query that meets it.

Spark keeps a time as 64 bits of microseconds. The source turns a record's milliseconds into that before any expression
sees the record, so a timestamp in nanoseconds, which Kafka may take, is an error there; and a bounded read changes the
calendar of each, which takes some thousand years of room. A record is read whole, several times over: one that is large
enough takes the heap, and a few kilobytes may be compressed from that.

Kafka's clients in Python read them all the same. Here they are found, after a query has failed.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from aiokafka import TopicPartition
from aiokafka.structs import ConsumerRecord

from runtime.errors import BrokerUnavailable
from runtime.kafka.clients import reading
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.errors import kafka_errors
from runtime.kafka.offsets import OffsetRange, Ranges
from runtime.records import FURTHEST_MS, LARGEST_BYTES, TIMESTAMP_REASON, TOO_LARGE

Record: TypeAlias = "ConsumerRecord[bytes, bytes]"

_POLL_MS: Final = 200
_FETCH_BYTES: Final = 2 << 20
_REQUEST_TIMEOUT_MS: Final = 10_000

_RECORDS_AT_ONCE: Final = 100_000
_BYTES_AT_ONCE: Final = 32 << 20
"""Of records that Spark is given by way of Python: they are held here, and in the heap of its driver."""

_FEW: Final = 8
_NEAR_OFFSETS: Final = 100_000
"""A batch takes Spark a second and more, however little it reads; so many records are read here in about as long."""

_SIGNS: Final = ("ArithmeticException", "OutOfMemoryError", "Job aborted due to stage failure")
"""What a query ends with when it has met one. In real time all its tasks end, and any of them may tell first."""


@dataclass(frozen=True, slots=True)
class Run:
    """Unreadable records of one partition that are passed at once.

    Attributes:
        first: the offset of the first.
        past: the offset of the next record that can be read, or where the look ended.
        reason: why the first cannot be read.
        count: how many there are.
        mixed: whether there are readable ones between them.
    """

    first: int
    past: int
    reason: str
    count: int = 1
    mixed: bool = False


def may_be_of_a_record(failure: str) -> bool:
    """Return whether a query may have failed on a record that cannot be read, by what it says."""
    return any(sign in failure for sign in _SIGNS)


def why_unreadable(timestamp_ms: int, key: bytes | None, value: bytes | None) -> str | None:
    """Return why Spark cannot be given a record, None when it can."""
    if abs(timestamp_ms) > FURTHEST_MS:
        return TIMESTAMP_REASON
    if len(value or b"") > LARGEST_BYTES or len(key or b"") > LARGEST_BYTES:
        return TOO_LARGE
    return None


def reason_of(record: Record) -> str | None:
    """Return why Spark cannot be given a record of Kafka's; see `why_unreadable`."""
    return why_unreadable(record.timestamp, record.key, record.value)


async def find_runs(
    kafka: KafkaConnection, ranges: Ranges, check_stop: Callable[[], None] = lambda: None
) -> dict[TopicPartition, list[Run]]:
    """Return the unreadable records of some partitions, in the order of their offsets; none of those without any.

    Args:
        kafka: how to connect.
        ranges: where to look. Some 400,000 records are looked at in a second.
        check_stop: called now and then; it raises when everything should end.

    Raises:
        BrokerUnavailable: Kafka cannot be reached or did not answer in time.
    """
    looks = {at: _Look(every) for at, every in ranges.items()}
    async for at, records in read_ranges(kafka, ranges, check_stop):
        looks[at].take(records)
    return {at: runs for at, look in looks.items() if (runs := look.runs())}


class _Look:
    """What a look at one partition has found so far."""

    def __init__(self, every: OffsetRange) -> None:
        self._end = every.end
        self._done: list[Run] = []
        self._open: Run | None = None

    def take(self, records: list[Record]) -> None:
        for record in records:
            reason = reason_of(record)
            if reason is not None:
                self._add(record.offset, reason)
            elif self._open is not None:
                self._close(record.offset)

    def runs(self) -> list[Run]:
        self._close(self._end)
        return self._done

    def _add(self, offset: int, reason: str) -> None:
        run = self._open
        self._open = Run(offset, offset, reason) if run is None else Run(run.first, offset, run.reason, run.count + 1)

    def _close(self, past: int) -> None:
        if (run := self._open) is not None:
            self._done.append(Run(run.first, past, run.reason, run.count))
            self._open = None


async def read_ranges(
    kafka: KafkaConnection, ranges: Ranges, check_stop: Callable[[], None] = lambda: None
) -> AsyncGenerator[tuple[TopicPartition, list[Record]], None]:
    """Yield the committed records of some partitions, a list at a time; see `find_runs`."""
    left = {at: every.end for at, every in ranges.items() if every.begin < every.end}
    if not left:
        return
    moved_at_s = time.monotonic()
    reader = reading(kafka, request_timeout_ms=_REQUEST_TIMEOUT_MS, max_partition_fetch_bytes=_FETCH_BYTES)
    async with reader as consumer, kafka_errors(kafka):
        consumer.assign(list(left))
        for at in left:
            consumer.seek(at, ranges[at].begin)
        before = dict.fromkeys(left, -1)
        while left:
            check_stop()
            found = await consumer.getmany(*left, timeout_ms=_POLL_MS)
            for at, records in found.items():
                yield at, [record for record in records if record.offset < left[at]]
            # By positions: the end of a transaction has an offset, and is no record.
            now = {at: await consumer.position(at) for at in left}
            left = {at: end for at, end in left.items() if now[at] < end}
            if now != before:
                before, moved_at_s = now, time.monotonic()
            elif time.monotonic() - moved_at_s > _REQUEST_TIMEOUT_MS / 1000:
                where = ", ".join(f"{at.topic}/{at.partition} from offset {now[at]}" for at in left)
                raise BrokerUnavailable(f"these cannot be read on: {where}")


@dataclass(frozen=True, slots=True)
class Piece:
    """What was read of some partitions.

    Attributes:
        records: those that Spark can be given.
        ends: up to where each partition was read.
    """

    records: list[Record]
    ends: dict[TopicPartition, int]


async def read_piece(kafka: KafkaConnection, ranges: Ranges, check_stop: Callable[[], None] = lambda: None) -> Piece:
    """Return the first records of some partitions, as many as are taken at once; arguments as for `find_runs`."""
    records: list[Record] = []
    ends, size = {at: every.begin for at, every in ranges.items()}, 0
    async with aclosing(read_ranges(kafka, ranges, check_stop)) as lists:
        async for at, found in lists:
            readable = [record for record in found if reason_of(record) is None]
            records += readable
            size += sum(len(record.key or b"") + len(record.value or b"") for record in readable)
            ends[at] = found[-1].offset + 1 if found else ends[at]
            if len(records) >= _RECORDS_AT_ONCE or size >= _BYTES_AT_ONCE:
                return Piece(records, ends)
    return Piece(records, {at: every.end for at, every in ranges.items()})


def spans_of(runs: Mapping[TopicPartition, list[Run]]) -> dict[TopicPartition, OffsetRange]:
    """Return everything from the first unreadable record of a partition to behind the last."""
    return {at: OffsetRange(found[0].first, found[-1].past) for at, found in runs.items()}


def fewer(runs: list[Run]) -> list[Run]:
    """Return the runs of a partition; of many, those that are near to each other as one."""
    return runs if len(runs) <= _FEW else joined(runs, _NEAR_OFFSETS)


def joined(runs: list[Run], near: int) -> list[Run]:
    """Return the runs of a partition, with those as one that have no more than so many offsets between them."""
    found = runs[:1]
    for run in runs[1:]:
        last = found[-1]
        if run.first - last.past <= near:
            found[-1] = Run(last.first, run.past, last.reason, last.count + run.count, mixed=True)
        else:
            found.append(run)
    return found


class Step(NamedTuple):
    """One stretch of topics that can be read, and what is to be passed over behind it.

    Attributes:
        ends: up to where each partition is read.
        past: where it is read on from.
        mixed: what lies between these two and holds readable records as well, by partition.
    """

    ends: dict[TopicPartition, int]
    past: dict[TopicPartition, int]
    mixed: dict[TopicPartition, OffsetRange]


def steps(ranges: Ranges, runs: Mapping[TopicPartition, list[Run]]) -> Iterator[Step]:
    """Yield how to get through some partitions, so that no step reads an unreadable record and each other one is read.

    Args:
        ranges: where to begin and end, by partition.
        runs: the unreadable records, as `find_runs` returns them, or some as one.
    """
    for number in range(max(map(len, runs.values()), default=0)):
        ends, past, mixed = {}, {}, {}
        for at, every in ranges.items():
            found = runs.get(at, [])
            run = found[number] if number < len(found) else None
            # One whose unreadable records are passed is left where it is, behind the last of them.
            stay = found[-1].past if found else every.end
            ends[at] = run.first if run is not None else stay
            past[at] = run.past if run is not None else stay
            if run is not None and run.mixed:
                mixed[at] = OffsetRange(run.first, run.past)
        yield Step(ends, past, mixed)

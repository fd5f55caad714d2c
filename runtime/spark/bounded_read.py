"""Bounded reads of a topic by Spark, past records that it cannot read.

Such a read is tried as it is. When it fails on a record, everything from the first unreadable record of a partition to
the last is read in Python, and Spark has what lies around that: two ranges a partition, however many such records
there are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from typing import Final, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame

from runtime.errors import QueryFailed
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.ids import topic_ids
from runtime.kafka.offsets import OffsetRange, Ranges, partition_offsets
from runtime.kafka.unreadable import Record, find_runs, may_be_of_a_record, read_ranges, reason_of, spans_of
from runtime.records import TIMESTAMP_REASON, TOO_LARGE
from runtime.spark.beside_value import in_spark
from runtime.spark.session import TASKS_BESIDE, Spark

logger = logging.getLogger(__name__)

T = TypeVar("T")

_COLUMNS: Final = ("key", "value", "headers", "partition", "offset")
_HEADERS: Final = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}.items()))


@dataclass(frozen=True, slots=True)
class Apart:
    """What Spark must not read of some ranges of topics.

    Attributes:
        spans: from the first unreadable record to behind the last, by partition.
        records: all that lie there.
    """

    spans: Ranges
    records: list[Record]

    @property
    def readable(self) -> list[Record]:
        """Those that Spark can be given."""
        return [record for record in self.records if reason_of(record) is None]

    @property
    def of_fit_size(self) -> list[Record]:
        """Those whose key and value Spark can be given."""
        return [record for record in self.records if reason_of(record) != TOO_LARGE]

    @property
    def reasons(self) -> dict[int, str]:
        """Why Spark cannot be given the others, by offset; of one partition."""
        return {record.offset: reason for record in self.records if (reason := reason_of(record)) is not None}


def past_unreadable(read: Callable[[], T], read_past: Callable[[], T | None]) -> T:
    """Return what a read returns, or what another one does when Spark fails on a record.

    Args:
        read: reads as it is.
        read_past: reads past what is unreadable, or returns None when there is nothing of that kind.

    Raises:
        QueryFailed: of the first read, when it has failed on something else.
    """
    try:
        return read()
    except QueryFailed as error:
        if not may_be_of_a_record(str(error)) or (found := read_past()) is None:
            raise
        return found


def read_apart(kafka: KafkaConnection, ranges: Ranges) -> Apart | None:
    """Return what Spark must not read, None when it can read everything. Also where an event loop runs.

    Raises:
        BrokerUnavailable: Kafka cannot be reached or did not answer in time.
    """
    with ThreadPoolExecutor(1) as beside:
        return beside.submit(asyncio.run, _read_apart(kafka, ranges)).result()


async def _read_apart(kafka: KafkaConnection, ranges: Ranges) -> Apart | None:
    spans = spans_of(await find_runs(kafka, ranges))
    if not spans:
        return None
    records: list[Record] = []
    async for _, found in read_ranges(kafka, spans):
        records.extend(found)
    return Apart(spans, records)


def around(ranges: Ranges, spans: Ranges) -> list[Ranges]:
    """Return what lies before and behind the spans, as ranges that one read each takes; empty ones are left out."""
    before = {
        at: OffsetRange(every.begin, spans[at].begin if at in spans else every.end) for at, every in ranges.items()
    }
    behind = {at: OffsetRange(span.end, ranges[at].end) for at, span in spans.items()}
    return [
        found
        for part in (before, behind)
        if (found := {at: every for at, every in part.items() if every.begin < every.end})
    ]


def read_around(spark: Spark, ranges: Ranges, spans: Ranges) -> list[DataFrame]:
    """Return what lies around the spans, as Spark's Kafka source gives it."""
    return [spark.records(part) for part in around(ranges, spans)]


def in_memory(spark: Spark, records: Iterable[Record]) -> DataFrame:
    """Return records that were read in Python, in the columns of Spark's Kafka source.

    Args:
        spark: the session.
        records: a timestamp that Spark cannot hold becomes null.
    """
    rows = list(records)
    table = pa.table(
        {
            "key": pa.array([each.key for each in rows], pa.binary()),
            "value": pa.array([each.value for each in rows], pa.binary()),
            "topic": pa.array([each.topic for each in rows], pa.string()),
            "partition": pa.array([each.partition for each in rows], pa.int32()),
            "offset": pa.array([each.offset for each in rows], pa.int64()),
            "timestamp": pa.array(map(_microseconds, rows), pa.timestamp("us", "UTC")),
            "headers": pa.array([list(map(_header, each.headers)) for each in rows], _HEADERS),
        }
    )
    return spark.session.createDataFrame(table)


def with_published(spark: Spark, topic: str, use: Callable[[DataFrame], T]) -> T:
    """Return what a use of all that a result topic holds returns; it is tried twice if Spark fails on a record.

    Args:
        spark: the session.
        topic: which one.
        use: takes `key binary, value binary, headers, partition int, offset bigint`, and raises QueryFailed.
    """

    def use_past_unreadable() -> list[T] | None:
        ranges = _whole(spark.settings.kafka, topic)
        if (apart := read_apart(spark.settings.kafka, ranges)) is None:
            return None
        logger.warning("%s holds records that Spark cannot read: they are read apart", topic)
        # The stores take a result whatever its record's time is.
        parts = [in_memory(spark, apart.of_fit_size), *read_around(spark, ranges, apart.spans)]
        return [use(reduce(DataFrame.union, [part.select(*_COLUMNS) for part in parts]).coalesce(TASKS_BESIDE))]

    # What a use returns may be None.
    (used,) = past_unreadable(lambda: [use(spark.published(topic))], use_past_unreadable)
    return used


def _whole(kafka: KafkaConnection, topic: str) -> Ranges:
    """Return all that a topic holds now."""

    async def ask() -> Ranges:
        described = await topic_ids(kafka, [topic])
        return (await partition_offsets(kafka, {topic: described[topic].partitions})).ranges([topic])

    return asyncio.run(ask())


def _header(header: tuple[str, bytes]) -> dict[str, str | bytes]:
    name, value = header
    return {"key": name, "value": value}


def _microseconds(record: Record) -> int | None:
    return None if reason_of(record) == TIMESTAMP_REASON else in_spark(record.timestamp) * 1000

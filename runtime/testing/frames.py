"""A store on plain DataFrames: records and tables in, result records out; no broker, no stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from runtime import results
from runtime.declaration import Store, Topology
from runtime.results import Result
from runtime.spark.plan_check import check_rows
from runtime.spark.results import Consumed, Results, SourceTopic, as_consumed, latest, published
from runtime.spark.rows import events_of, rows_of

EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""When records are from that do not say."""
EPOCH_MS: Final = int(EPOCH.timestamp() * 1000)
TOPIC_ID: Final = "the-id-of-the-source"


class Record(NamedTuple):
    """A record of a source.

    Attributes:
        value: its value.
        partition: where it lies.
        offset: see `partition`.
        at_ms: its timestamp, in milliseconds from `EPOCH`.
        key: its key.
        topic: where it lies; None of a source that is one topic.
    """

    value: bytes | None
    partition: int
    offset: int
    at_ms: int
    key: bytes | None = None
    topic: str | None = None


Records = Iterable[Record | tuple[bytes | None, int, int, int]]
ResultRecord = Consumed
AnyResult = tuple[bytes, bytes | None, Sequence[tuple[str, bytes | None]]]
"""A result record, or what else a producer may have written there."""

_RECORDS_SCHEMA = pa.schema(
    {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
    }
)
_HEADERS = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
_PUBLISHED_SCHEMA = pa.schema({"key": pa.binary(), "value": pa.binary(), "headers": _HEADERS})


def records_frame(session: SparkSession, records: Records) -> DataFrame:
    """Return records with the columns of Spark's Kafka source that a source is read from."""
    rows = [
        (each.key, each.value, each.topic, each.partition, each.offset, EPOCH + timedelta(milliseconds=each.at_ms))
        for each in (Record(*record) for record in records)
    ]
    return frame(session, rows, _RECORDS_SCHEMA)


def published_frame(session: SparkSession, records: Sequence[AnyResult]) -> DataFrame:
    """Return records of a result topic as Spark's Kafka source gives them; without headers they have none at all."""
    rows = [
        (key, value, [{"key": name, "value": text} for name, text in headers] or None)
        for key, value, headers in records
    ]
    return frame(session, rows, _PUBLISHED_SCHEMA)


def frame(session: SparkSession, rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> DataFrame:
    """Return rows as a frame. From Arrow: rows of Python objects would start a Python process for each frame."""
    columns: list[Sequence[Any]] = [*zip(*rows, strict=True)] or [() for _ in schema]
    arrays = [pa.array(column, of.type) for column, of in zip(columns, schema, strict=True)]
    return session.createDataFrame(pa.Table.from_arrays(arrays, schema=schema))


def as_they_are(events: DataFrame) -> DataFrame:
    """Leave out no event."""
    return events


@dataclass
class StoreOnFrames:
    """Runs one store of a topology over what it is given, as a stream would.

    Attributes:
        session: Spark.
        topology: has the store.
        generation: the number that results carry.
        topic_id: of the source; of several each has its name in front of it.
        partitions: of each source.
        joined: the tables that `rows` is given, by parameter.
        seed: the parts that the generation begins with.
        narrow: leaves out events that change nothing.
        stream_ms: the stream time that the generation began with.
        has_older: whether the seed counts events of topics that the sources were before.
        as_of_ms: the clock by which it is told which records are of the future; by default that of the machine.
        name: of the store; by default the first.
    """

    session: SparkSession
    topology: Topology
    generation: int = 1
    topic_id: str = TOPIC_ID
    partitions: int = 2
    joined: Mapping[str, DataFrame] = field(default_factory=dict)
    seed: DataFrame | None = None
    narrow: Callable[[DataFrame], DataFrame] = as_they_are
    stream_ms: int | None = None
    has_older: bool = False
    as_of_ms: int | None = None
    name: str | None = None

    @property
    def store(self) -> Store:
        """The store."""
        return self.topology.stores[0] if self.name is None else self.topology.store(self.name)

    @property
    def made(self) -> Results:
        """How its results are made."""
        topics = self.topology.source_topics
        ids = [self.topic_id] if len(topics) == 1 else [f"{topic}-{self.topic_id}" for topic in topics]
        sources = [SourceTopic(topic, of_topic, self.partitions) for topic, of_topic in zip(topics, ids, strict=True)]
        return Results(
            self.store, sources, self.generation, self.store.partitions, self.stream_ms, has_older=self.has_older
        )

    def parts(self, records: Records) -> DataFrame:
        """Return the parts of results that source records are, whatever the seed has of them."""
        return self.made.parts(self._rows(records))

    def query(self, records: Records) -> DataFrame:
        """Return the result records of source records, the seed merged into them."""
        if self.seed is None:
            return self.made.of_parts(self.parts(records))
        rows = self._rows(records)
        parts = self.made.parts(self.made.uncovered(rows, self.seed))
        if self.store.final:
            return self.made.of_parts(parts)
        # One query reads both, one after the other, into one state: they have to be of the same columns.
        assert [(each.name, each.dataType) for each in parts.schema] == [
            (each.name, each.dataType) for each in self.seed.schema
        ]
        return self.made.of_parts(self.seed.union(parts))

    def results(self, records: Records) -> dict[Any, Result]:
        """Return what a store takes of the result records of source records."""
        return {
            self.store.row_key.parse(key.decode()): results.parse(self.store.record, value, headers)
            for key, value, headers in self.records(records)
        }

    def records(self, records: Records) -> list[ResultRecord]:
        """Return the result records of source records; of sessions also those that have not ended."""
        return [as_consumed(row) for row in self.query(records).collect()]

    def _rows(self, records: Records) -> DataFrame:
        events = events_of(self.topology, records_frame(self.session, records), as_of_ms=self.as_of_ms)
        rows = rows_of(self.topology, self.store, self.narrow(events), self.joined)
        if self.store.rows is not None:
            check_rows(self.store, rows)
        return self.made.alive(self.made.in_windows(rows))

    def published(self, records: Sequence[AnyResult]) -> DataFrame:
        """Return the results that a result topic with these records holds."""
        return published(self.store, published_frame(self.session, records))

    def seed_of(self, records: Sequence[AnyResult]) -> DataFrame:
        """Return the parts that a generation begins with when these records are published; notes `has_older`."""
        results = latest(self.store, self.published(records))
        self.has_older = self.made.counts_older(results)
        return self.made.seed(results)

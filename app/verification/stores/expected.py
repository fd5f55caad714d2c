"""The rows as they have to be: a plain Spark batch over all that the topics hold, and what is shown of its results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal
from functools import reduce
from typing import Any, Final, NamedTuple

import pyarrow as pa
from aiokafka import TopicPartition
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from app.verification.inputs import Inputs
from app.verification.stores.comparison import Sessions
from runtime.copies.local_tables import LocalTables
from runtime.declaration import Store, Topology
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.ids import topic_ids
from runtime.kafka.offsets import Ranges, partition_offsets
from runtime.kafka.unreadable import read_ranges
from runtime.keys import KeyValue
from runtime.records import OF_THE_FUTURE
from runtime.results import Headers
from runtime.serving.in_memory import GivenRecord, InMemory
from runtime.spark.bounded_read import in_memory, past_unreadable, read_apart, read_around
from runtime.spark.plan_check import check_declared
from runtime.spark.results import Consumed, Results, SourceTopic, as_consumed, written
from runtime.spark.rows import events_of, rows_of, unusable
from runtime.spark.session import Spark, translated
from runtime.stream.tables import tables_in_memory
from runtime.windows import Session

_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")


class SourceRecord(NamedTuple):
    """A record of a source, by where it lies."""

    topic: str
    partition: int
    offset: int


_SOURCE_RECORDS: Final = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
"""The same, as Arrow has it."""


class ExpectedStores(NamedTuple):
    """The rows as they have to be.

    Attributes:
        rows: by store, ascending by key.
        stream_ms: the stream time of stores with windows, by store, where there are events.
        sessions: all that the records make, of each store with sessions; those that have not ended as well.
        records: of the sources that were read.
        unusable: how many of them cannot be used.
        lost: the first offset that is there of each partition of a source whose first records are gone; of several
            sources the partition has the name of its topic before it.
    """

    rows: dict[str, list[Any]]
    stream_ms: dict[str, int]
    sessions: dict[str, Sessions]
    records: int
    unusable: int
    lost: dict[str, int]


class _Events(NamedTuple):
    """The records of the sources.

    Attributes:
        records: those that Spark can be given.
        unreadable: how many others there are.
    """

    records: DataFrame
    unreadable: int


class StoresExpectation:
    """Reads the topics and computes the rows, all of it at each look.

    Args:
        spark: a session of this process alone.
        topology: what is computed.
    """

    def __init__(self, spark: Spark, topology: Topology) -> None:
        self._spark = spark
        self._kafka = spark.settings.kafka
        self._topology = topology
        self._inputs = Inputs(self._kafka, topology.inputs)
        # Of stores with sessions: the stream time of the last look, and all sessions.
        self._ended_ms: dict[str, int | None] = {}
        self._sessions: dict[str, Sessions] = {}

    def rows(self) -> ExpectedStores:
        """Return the rows of what the topics hold now.

        Raises:
            BrokerUnavailable: Kafka cannot be reached or did not answer in time.
            TopicMissing: an input does not exist.
            QueryFailed: Spark could not read it.
            NotComparable: a topic was created anew since the last call.
        """
        offsets = self._inputs.offsets()
        tables = [table.topic for table in self._topology.tables]
        shown = InMemory(self._topology, 1, {topic: self._inputs.described[topic].partitions for topic in tables})
        for topic in tables:
            asyncio.run(self._read_table(shown, offsets.ranges([topic])))
        ranges = offsets.ranges(self._topology.source_topics)
        future = self._of_the_future()
        records, found = past_unreadable(
            lambda: self._compute(shown, _Events(self._spark.records(ranges).select(*_COLUMNS), 0), future),
            lambda: self._compute_past_unreadable(shown, ranges, future),
        )
        stream_ms = {
            store.name: ms for store in self._topology.stores if (ms := self._let_go(shown, store)) is not None
        }
        rows = {store.name: _rows(shown, store) for store in self._topology.stores}
        # After they were read: Spark passes over what goes meanwhile.
        begin = self._inputs.begins(self._topology.source_topics)
        lost = {self._place(at): first for at, first in sorted(begin.items()) if first}
        return ExpectedStores(rows, stream_ms, dict(self._sessions), records, found, lost)

    def _place(self, at: TopicPartition) -> str:
        return str(at.partition) if len(self._topology.sources) == 1 else f"{at.topic} {at.partition}"

    async def _read_table(self, shown: InMemory, ranges: Ranges) -> None:
        async for at, records in read_ranges(self._kafka, ranges):
            given = [GivenRecord(each.offset, each.key, each.value, each.timestamp) for each in records]
            shown.read_table(at.topic, at.partition, given)

    def _of_the_future(self) -> set[SourceRecord]:
        """Return which records of the sources were of the future when the stream read them; none without event time.

        By the clock of now they are of the past, and would make windows and move stream time.
        """
        topology = self._topology
        if topology.join is None and not topology.has_windows:
            return set()
        return asyncio.run(_read_of_the_future(self._kafka, [source.invalid_topic for source in topology.sources]))

    def _compute_past_unreadable(
        self, shown: InMemory, ranges: Ranges, future: set[SourceRecord]
    ) -> tuple[int, int] | None:
        """Compute where Spark cannot read every record; None when it is not for that."""
        apart = read_apart(self._kafka, ranges)
        if apart is None:
            return None
        parts = [in_memory(self._spark, apart.readable), *read_around(self._spark, ranges, apart.spans)]
        records = reduce(DataFrame.union, [part.select(*_COLUMNS) for part in parts])
        return self._compute(shown, _Events(records, len(apart.records) - len(apart.readable)), future)

    def _compute(self, shown: InMemory, source: _Events, future: set[SourceRecord]) -> tuple[int, int]:
        """Compute the results of every store; return how many records there are, and how many cannot be used."""
        first, *_ = self._topology.stores
        with translated():
            for store in self._topology.stores:
                check_declared(self._spark.session, self._topology, store)
            records = self._without(source.records, future)
            for store in self._topology.stores:
                results = self._results(store, records, LocalTables(shown.copies)).toLocalIterator()
                made: Iterable[Consumed] = map(as_consumed, results)
                if isinstance(store.window, Session):
                    made = list(made)
                    self._sessions[store.name] = sessions_of(store, made)
                ended, self._ended_ms[store.name] = written(store, made)
                given = [GivenRecord(0, key, value, headers=headers) for key, value, headers in ended]
                shown.read_results(store.name, given)
            count = source.records.count()
            left_out = count - records.count() if future else 0
            cannot = unusable(self._topology, first, records).count() + left_out
            return count + source.unreadable, cannot + source.unreadable

    def _without(self, records: DataFrame, those: set[SourceRecord]) -> DataFrame:
        """Return records without some of them."""
        if not those:
            return records
        table = pa.Table.from_pylist([each._asdict() for each in those], _SOURCE_RECORDS)
        left_out = self._spark.session.createDataFrame(table)
        return records.join(F.broadcast(left_out), list(SourceRecord._fields), "left_anti")

    def _let_go(self, shown: InMemory, store: Store) -> int | None:
        """Have the windows go that are kept no longer; return the stream time by which that is, None without any."""
        stream_ms = self._ended_ms[store.name]
        if stream_ms is None and store.window is not None:
            stream_ms = shown.copies.freshness[store.name].newest_ms
        if stream_ms is not None:
            shown.let_go(store.name, stream_ms)
        return stream_ms

    def _results(self, store: Store, records: DataFrame, tables: LocalTables) -> DataFrame:
        """Return the result records of a store, as its stream makes them, in one generation."""
        topics = self._topology.source_topics
        sources = [SourceTopic(topic, *self._inputs.described[topic]) for topic in topics]
        results = Results(store, sources, generation=1)
        joined = tables_in_memory(self._spark.session, self._topology, store, tables)
        events = events_of(self._topology, records)
        rows = results.in_windows(rows_of(self._topology, store, events, joined))
        return results.of_parts(results.parts(rows))


def sessions_of(store: Store, made: Iterable[Consumed]) -> Sessions:
    """Return the sessions that results are of, ended or not.

    Args:
        store: has sessions.
        made: its results.
    """
    assert store.window is not None
    found: dict[KeyValue, list[tuple[int, int]]] = {}
    for text, value, _ in made:
        key, start_ms = store.row_key.parse(text.decode())
        found.setdefault(key, []).append((start_ms, store.window.end_ms(start_ms, store.record.parse(value))))
    return found


def of_the_future(letters: Iterable[Headers]) -> set[SourceRecord]:
    """Return which records were dead letters for their time alone, by the headers of dead letters.

    No other reason depends on the clock: what cannot be used for one of those is judged again here.
    """
    found: set[SourceRecord] = set()
    for headers in letters:
        said = dict(headers)
        if said.get("reason") == OF_THE_FUTURE.encode():
            # Anybody may write to the topic.
            with suppress(KeyError, ValueError):
                found.add(SourceRecord(said["topic"].decode(), int(said["partition"]), int(said["offset"])))
    return found


async def _read_of_the_future(kafka: KafkaConnection, topics: list[str]) -> set[SourceRecord]:
    """Return the same of all dead letters that topics hold; none of a topic that does not exist."""
    described = await topic_ids(kafka, topics)
    if not described:
        return set()
    offsets = await partition_offsets(kafka, {topic: each.partitions for topic, each in described.items()})
    found: set[SourceRecord] = set()
    async for _, records in read_ranges(kafka, offsets.ranges(described)):
        found |= of_the_future(record.headers for record in records)
    return found


def _rows(shown: InMemory, store: Store) -> list[Any]:
    every = shown.rows(store.name, None if store.limits is None else store.limits.most)
    return [json.loads(body, parse_float=Decimal) for _, body in every]

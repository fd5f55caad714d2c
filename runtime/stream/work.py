"""One generation of one store at work: the queries, the tables that they join, and jobs beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Final, TypeVar

from aiokafka import TopicPartition
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from runtime.declaration import Store, Table, Topology
from runtime.errors import GenerationOutdated
from runtime.kafka.ids import TopicDescription
from runtime.kafka.inspected import Judged
from runtime.kafka.offsets import OffsetRange, Ranges
from runtime.kafka.unreadable import Record
from runtime.spark import bounded_read
from runtime.spark.bounded_read import past_unreadable, read_apart, read_around, with_published
from runtime.spark.offset_log import OffsetLog
from runtime.spark.query import LATE, ROWS, StreamQuery, events_observed
from runtime.spark.results import (
    Results,
    SourceTopic,
    deletes_of_earlier,
    has_key,
    in_query,
    last_of_each,
    later_than,
    latest,
    published,
    texts_of_generation,
    told_stream_ms,
)
from runtime.spark.rows import events_of, rows_of, unusable
from runtime.spark.session import TASKS_BESIDE, Spark, read_parquet, stream_parquet, translated
from runtime.stream.generations import Generation, Generations
from runtime.stream.tables import TableSource, tables_in_memory
from runtime.windows import Session

T = TypeVar("T")

_CATCH_UP: Final = {"availableNow": True}
_APART: Final = "apart"
_LINGER_MS: Final = 2
"""Where an event makes several results at once: they go together."""
_LINGER_IN_BULK_MS: Final = 50
"""Where a batch ends by itself: Spark has all of its results sent before it commits."""


@dataclass(frozen=True, slots=True)
class Work:
    """A generation with what its queries need.

    Attributes:
        topology: what is run.
        store: whose results they are.
        spark: the session.
        generations: those of the store.
        generation: what is worked on.
        sources: where events come from.
        tables: the global tables.
        begin: where a query without a checkpoint begins with the sources; None for their beginnings.
    """

    topology: Topology
    store: Store
    spark: Spark
    generations: Generations
    generation: Generation
    sources: Sequence[SourceTopic]
    tables: TableSource
    begin: Mapping[TopicPartition, int] | None = None

    @property
    def results(self) -> Results:
        """How results of this generation are made."""
        generation = self.generation
        return Results(
            self.store,
            self.sources,
            generation.number,
            partitions=generation.origin.result_partitions,
            stream_ms=generation.stream_ms,
            has_older=generation.has_older,
        )

    @property
    def topic_ids(self) -> dict[str, str]:
        """The ids of the sources' topics, by their names."""
        return {source.topic: source.topic_id for source in self.sources}

    # Queries

    def catch_up(self, joined: Mapping[str, DataFrame], narrow: Callable[[DataFrame], DataFrame]) -> StreamQuery:
        """Start working off what waits in the source, in micro-batches.

        Args:
            joined: the tables that `rows` is given.
            narrow: leaves out events that change nothing.
        """
        return self._bounded(self._events(), joined, narrow, _CATCH_UP)

    def planned(self, joined: Mapping[str, DataFrame], narrow: Callable[[DataFrame], DataFrame]) -> DataFrame:
        """Return the results of a query in real time; arguments as for `catch_up`. To plan them takes half a second."""
        with translated():
            parts = self._parts(self._events(catching_up=False), joined, narrow, None, self._late_ms)
            return self.results.of_parts(parts, each=True)

    def real_time(self, results: DataFrame, interval_s: int) -> StreamQuery:
        """Start in real time, with batches of so many seconds.

        Args:
            results: as `planned` returns them.
            interval_s: length of a batch.
        """
        with translated():
            return self._start(results, {"realTime": f"{interval_s} seconds"})

    def at_pace(
        self, joined: Mapping[str, DataFrame], narrow: Callable[[DataFrame], DataFrame], every_s: int
    ) -> StreamQuery:
        """Start micro-batches, at most one in each so many seconds; arguments as for `catch_up`."""
        return self._bounded(
            self._events(), joined, narrow, {"processingTime": f"{every_s} seconds"}, late_ms=self._late_ms
        )

    def planned_batch(self, joined: Mapping[str, DataFrame], narrow: Callable[[DataFrame], DataFrame]) -> StreamQuery:
        """Start the one batch that the log of offsets has planned; arguments as for `catch_up`."""
        return self._bounded(self._events(), joined, narrow, {"once": True})

    def write_apart(self, records: Iterable[Record]) -> None:
        """Write records of the source as files, for `batch_apart`."""
        with translated():
            frame = bounded_read.in_memory(self.spark, records).drop("headers")
            write(frame, self._apart_uri)

    def batch_apart(self, joined: Mapping[str, DataFrame], narrow: Callable[[DataFrame], DataFrame]) -> StreamQuery:
        """Start the one batch of what `write_apart` has written, in place of the source; as for `catch_up`."""
        with translated():
            records = stream_parquet(self.spark.session, self._apart_uri)
        return self._bounded(records, joined, narrow, _CATCH_UP)

    def delete_apart(self) -> None:
        """Delete what `write_apart` has written."""
        self.generations.directory.delete(f"{self.generation.name}/{_APART}")

    @property
    def _apart_uri(self) -> str:
        return self.generations.directory.child(f"{self.generation.name}/{_APART}")

    @property
    def log(self) -> OffsetLog:
        """The log of offsets in the query's checkpoint."""
        return OffsetLog(self.generations.directory, self.generation.query)

    def _events(self, *, catching_up: bool = True) -> DataFrame:
        with translated():
            return self.spark.events(
                list(self.topic_ids),
                catching_up=catching_up,
                per_batch=self.store.records_per_batch,
                begin=self.begin,
            )

    def _bounded(
        self,
        records: DataFrame,
        joined: Mapping[str, DataFrame],
        narrow: Callable[[DataFrame], DataFrame],
        trigger: Mapping[str, Any],
        late_ms: int | None = None,
    ) -> StreamQuery:
        with translated():
            seed = None if self.generations.seed_is_passed(self.generation) else self.read_seed()
            parts = self._parts(records, joined, narrow, seed, late_ms)
            return self._start(self.results.of_parts(parts), trigger)

    def _parts(
        self,
        records: DataFrame,
        joined: Mapping[str, DataFrame],
        narrow: Callable[[DataFrame], DataFrame],
        seed: DataFrame | None,
        late_ms: int | None,
    ) -> DataFrame:
        events = events_of(self.topology, records, seen=_counted, late_ms=late_ms)
        rows = rows_of(self.topology, self.store, narrow(events), joined)
        if not self.store.joined and not self.store.of_join:
            rows = rows.observe(ROWS, F.count_if(~has_key(self.store)).alias("without_key"))
        rows = self.results.in_windows(rows, late_ms)
        # What is read again before the seed is passed was counted when it came.
        if seed is None and (let_go := self.results.let_go) is not None:
            rows = rows.observe(LATE, F.count_if(let_go).alias("late"))
        rows = self.results.alive(rows)
        return self.results.parts(rows if seed is None else self.results.uncovered(rows, seed))

    @property
    def _late_ms(self) -> int | None:
        """How far behind stream time a window has to end that may change, once what waited has been read.

        In milliseconds; of streams that are joined how far behind a record may be.

        While a backlog is read, a partition that is ahead does not make the rows of the others late.
        """
        if self.topology.join is not None:
            return self.topology.join.late_ms
        return None if self.store.window is None else self.store.window.late_ms

    def _start(self, results: DataFrame, trigger: Mapping[str, Any]) -> StreamQuery:
        checkpoint = self.generations.directory.child(self.generation.query)
        name = f"{self.topology.name}-{self.store.query_name}"
        linger_ms = _LINGER_IN_BULK_MS if trigger == _CATCH_UP else _LINGER_MS if self.store.in_bursts else 0
        # What does not change is written when that is certain.
        mode = "append" if self.store.final else "update"
        query = self.spark.start_query(
            name,
            results,
            self.store.topic if self.store.beside is None else None,
            checkpoint,
            mode=mode,
            trigger=trigger,
            linger_ms=linger_ms,
        )
        return StreamQuery(query)

    def plan_end_of_sessions(self, newest_ms: int | None) -> bool:
        """Plan the batch that writes the sessions which have ended, and return whether there is one to be done.

        Args:
            newest_ms: the newest event that was read, in milliseconds from 1970; None where none was.
        """
        if not isinstance(self.store.window, Session):
            return False
        return self.log.plan_bound(0 if newest_ms is None else newest_ms - self.store.window.late_ms)

    # What the generation begins with

    def with_published(self, use: Callable[[DataFrame], T]) -> T:
        """Return what a use of the results that are published returns; they come as `runtime.spark.results.published`.

        Args:
            use: reads them; it is tried again if Spark fails on a record.
        """
        return self._with_results(published, use)

    def with_last(self, use: Callable[[DataFrame], T], of_keys_with: Column | None = None) -> T:
        """Return what a use of the last results that are published returns, of each key one: see `with_published`.

        They hold all that the query has written, since what it had read again after a failure is written before real
        time; but not what another query had written before it.

        Args:
            use: see `with_published`.
            of_keys_with: of those keys alone that have, or had, a result record of which this is true; of few.
        """
        # The first reads of all topics are jobs of their own, at the same time.
        tasks = max(1, TASKS_BESIDE // len(self.store.made))

        def read(store: Store, records: DataFrame) -> DataFrame:
            if of_keys_with is not None:
                found = records.where(of_keys_with).select("key").distinct().coalesce(tasks).collect()
                records = records.where(F.col("key").isin([row.key for row in found]))
            return published(store, last_of_each(records, tasks))

        return self._with_results(read, use)

    def with_own(self, use: Callable[[DataFrame], T]) -> T:
        """Return what a use of the results of this generation returns; they come as `texts_of_generation` has them.

        Args:
            use: see `with_published`.
        """
        number = self.generation.number
        return self._with_results(lambda store, records: texts_of_generation(store, records, number), use)

    def delete_earlier_versions(self) -> None:
        """Delete what is left of earlier versions of the store, its results included. No query of it runs."""

        def delete_of(store: Store, records: DataFrame) -> None:
            with translated():
                self.spark.write(deletes_of_earlier(store, records), store.topic)

        def delete() -> None:
            for store in self.store.made:
                with_published(self.spark, store.topic, partial(delete_of, store))

        self.generations.delete_earlier_versions(delete)

    def check_newest(self, newest: int) -> None:
        """Raise GenerationOutdated when stores ignore what this generation publishes.

        Args:
            newest: the newest generation that has results.
        """
        if newest > self.generation.number:
            raise GenerationOutdated(f"results of generation {newest} are published, it is {self.generation.number}")

    def look_for_newer(self) -> None:
        """Look through what is published; what says that it is of no later generation is not read.

        Raises:
            GenerationOutdated: see `check_newest`.
        """
        number = self.generation.number
        newest = self._with_results(lambda store, records: published(store, later_than(records, number)), newest_of)
        self.check_newest(newest)

    def _with_results(self, read: Callable[[Store, DataFrame], DataFrame], use: Callable[[DataFrame], T]) -> T:
        """Return what a use of results returns, of all topics that the query writes to.

        Args:
            read: returns the results among the records on the topic of a store.
            use: takes them, with the keys that they have in the query.
        """
        made = self.store.made

        def with_others(found: list[DataFrame]) -> T:
            if len(found) == len(made):
                with translated():
                    return use(reduce(DataFrame.unionByName, found).coalesce(TASKS_BESIDE))
            store = made[len(found)]

            def with_records(records: DataFrame) -> T:
                with translated():
                    results = in_query(self.store, store, read(store, records))
                return with_others([*found, results])

            return with_published(self.spark, store.topic, with_records)

        return with_others([])

    def told_stream_ms(self) -> int | None:
        """Return the stream time that is told on the result topic; None where none is."""

        def told(records: DataFrame) -> int | None:
            with translated():
                return told_stream_ms(self.store, records)

        return with_published(self.spark, self.store.topic, told)

    def seed_of(self, results: DataFrame) -> DataFrame:
        """Return the parts that published results are, as any store has them."""
        return self.results.seed(
            latest(self.store, results.repartition(TASKS_BESIDE, *(key.name for key in self.store.key.columns)))
        )

    def write_seed(self, parts: DataFrame) -> None:
        """Write what the generation begins with."""
        with translated():
            write(parts, self.generations.directory.child(self.generation.seed))

    def read_seed(self) -> DataFrame:
        """Return what the generation began with."""
        path = self.generations.directory.child(self.generation.seed)
        return self.spark.session.read.option("__globPaths__", value=False).parquet(path)

    def start_with_seed(self) -> StreamQuery:
        """Start reading the seed into the state; that publishes it as results of this generation."""
        with translated():
            parts = stream_parquet(self.spark.session, self.generations.directory.child(self.generation.seed))
            return self._start(self.results.of_parts(parts), _CATCH_UP)

    def begin_at(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Have the query go on with the source at these offsets, once the seed is in the state."""
        self.log.begin_at(offsets)

    # Tables that rows joins

    def tables_in_memory(self) -> dict[str, DataFrame]:
        """Return the tables as they are now, for a query that does not wait until they are written."""
        return tables_in_memory(self.spark.session, self.topology, self.store, self.tables)

    def write_tables(self, name: str) -> None:
        """Write the tables as they are now.

        Args:
            name: of the snapshot; no other instance may have one of this name.
        """
        with translated():
            for parameter, frame in self.tables_in_memory().items():
                write(frame, self.snapshot_uri(name, parameter))

    def tables_on_disk(self, name: str) -> dict[str, DataFrame]:
        """Return the tables of a snapshot, as a query in real time takes them: as files."""
        session = self.spark.session
        return {
            parameter: read_parquet(session, _schema(self.store, table), self.snapshot_uri(name, parameter))
            for parameter, table in self.topology.joined(self.store).items()
        }

    def snapshot_uri(self, name: str, part: str) -> str:
        """Return where a part of a snapshot is."""
        return self.generations.directory.child(f"{self.generation.name}/{name}/{part}")

    # Beside a running query

    def find_unusable(self, looked_at: Judged) -> dict[int, str]:
        """Return the unusable events of a range, offset to reason."""
        ranges = {TopicPartition(looked_at.topic, looked_at.partition): OffsetRange(looked_at.begin, looked_at.end)}
        as_of_ms = looked_at.as_of_ms
        if looked_at.unreadable and (found := self._find_past_unreadable(ranges, as_of_ms)) is not None:
            return found
        return past_unreadable(
            lambda: self._reasons(self.spark.records(ranges), as_of_ms),
            lambda: self._find_past_unreadable(ranges, as_of_ms),
        )

    def _find_past_unreadable(self, ranges: Ranges, as_of_ms: int | None) -> dict[int, str] | None:
        apart = read_apart(self.spark.settings.kafka, ranges)
        if apart is None:
            return None
        parts = read_around(self.spark, ranges, apart.spans)
        if apart.readable:
            parts.append(bounded_read.in_memory(self.spark, apart.readable))
        return apart.reasons | {
            offset: reason for part in parts for offset, reason in self._reasons(part, as_of_ms).items()
        }

    def _reasons(self, read: DataFrame, as_of_ms: int | None) -> dict[int, str]:
        """Return the unusable ones of some records of one partition, offset to reason."""
        with translated():
            found = unusable(self.topology, self.store, read, as_of_ms).toArrow()
        return dict(zip(found["offset"].to_pylist(), found["reason"].to_pylist(), strict=True))


def sources_of(topology: Topology, topics: Mapping[str, TopicDescription]) -> list[SourceTopic]:
    """Return where events come from, as these topics are now."""
    return [SourceTopic(source.topic, *topics[source.topic]) for source in topology.sources]


def newest_of(results: DataFrame) -> int:
    """Return the newest generation of results, by reading them; 0 without any."""
    newest = results.agg(F.max("made.generation")).first()
    return (newest and newest[0]) or 0


def _counted(judged: DataFrame, number: int) -> DataFrame:
    """Have the records of a source counted, and those of them that cannot be used."""
    counts = F.count(F.lit(1)).alias("total"), F.count("reason").alias("invalid")
    return judged.observe(events_observed(number), *counts)


def write(frame: DataFrame, uri: str) -> None:
    """Write a frame as Parquet, in one file."""
    frame.coalesce(1).write.mode("overwrite").parquet(uri)


def _schema(store: Store, table: Table) -> str:
    return ", ".join(f"`{name}` {of_type.spark}" for name, of_type in store.given(table).items())

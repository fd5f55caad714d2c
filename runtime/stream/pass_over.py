"""How a stream gets past events that cannot be read, on the checkpoint that it has.

Spark's source reads every record between two offsets. So the batch that comes next is planned to end before the first
unreadable record of each partition, and when that batch is done, the log of offsets is made to go on behind them. Then
all is as if these records had never been; each is a dead letter. A process that dies on the way leaves a checkpoint
that fails on the same records once more, and they are looked for again.

A producer that stamps its records wrong beside one that does not leaves thousands of stretches, and a batch for each
would take hours. So where there are many, all that lies between is read in Python, and the readable records are written
as files, which one batch reads in place of the topic. A process that dies meanwhile leaves a log of offsets that is no
topic's: then another generation begins, with what is published.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from aiokafka import TopicPartition
from pyspark.sql import DataFrame

from runtime.errors import QueryFailed
from runtime.kafka.inspected import Judged
from runtime.kafka.offsets import OffsetRange, PartitionOffsets, Ranges
from runtime.kafka.unreadable import Piece, Run, fewer, find_runs, read_piece, steps
from runtime.spark.offset_log import OffsetLog
from runtime.spark.query import BatchReport, StreamQuery, running
from runtime.stream.work import Work

logger = logging.getLogger(__name__)

_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class PassOver:
    """Passes over the unreadable events that the next batch of a generation would read.

    Attributes:
        work: the generation; no query of it runs.
        joined: the tables that `rows` is given.
        narrow: leaves out events that change nothing.
        check_stop: called while something takes long; it raises when everything should end.
        count: takes the reports of the batches.
        note: takes the offsets that no query will read, before anything behind them is read.
    """

    work: Work
    joined: Mapping[str, DataFrame]
    narrow: Callable[[DataFrame], DataFrame]
    check_stop: Callable[[], None]
    count: Callable[[BatchReport], None]
    note: Callable[[list[Judged]], None]

    def pass_over(self, offsets: PartitionOffsets) -> bool:
        """Do so, and return whether there were any.

        Args:
            offsets: of the sources now.

        Raises:
            Retry: Kafka does not answer, or a batch fails.
            CheckpointUnusable: the log of offsets is not what is expected.
        """
        log = self.work.log
        ranges = _ahead(log, offsets)
        found = asyncio.run(find_runs(self.work.spark.settings.kafka, ranges, self.check_stop))
        if not found:
            return False
        runs = {at: fewer(of_partition) for at, of_partition in found.items()}
        _say(runs)
        self.note(list(_passed(self.work.topic_ids, runs)))
        self._have_a_plan(log)
        for step in steps(ranges, runs):
            log.plan(step.ends)
            self._work_off(self.work.planned_batch(self.joined, self.narrow))
            self._read_apart(log, step.mixed, offsets)
            log.move(step.past)
        return True

    def _read_apart(self, log: OffsetLog, ranges: Ranges, offsets: PartitionOffsets) -> None:
        """Have the query read the readable records of ranges that hold unreadable ones, a piece at a time."""
        kafka, left = self.work.spark.settings.kafka, ranges
        while left := {at: every for at, every in left.items() if every.begin < every.end}:
            piece = asyncio.run(read_piece(kafka, left, self.check_stop))
            self._batch_apart(log, piece, offsets)
            left = {at: OffsetRange(piece.ends[at], every.end) for at, every in left.items()}

    def _batch_apart(self, log: OffsetLog, piece: Piece, offsets: PartitionOffsets) -> None:
        self.work.write_apart(piece.records)
        with log.reading_files(piece.ends) as last:
            reports = self._reports(self.work.batch_apart(self.joined, self.narrow))
        self.work.delete_apart()
        ends = {**last.ends, **piece.ends}
        behind = sum(offsets.end.values()) - sum(ends.values())
        for report in reports:
            # It knows the files alone.
            self.count(report._replace(begin=last.ends, positions=ends, behind=max(0, behind)))

    def _have_a_plan(self, log: OffsetLog) -> None:
        """Have Spark plan a first batch, which is where the others take their settings from: it fails."""
        if log.planned() is None and log.done() is None:
            with suppress(QueryFailed):
                self._work_off(self.work.catch_up(self.joined, self.narrow))

    def _work_off(self, query: StreamQuery) -> None:
        for report in self._reports(query):
            self.count(report)

    def _reports(self, query: StreamQuery) -> list[BatchReport]:
        """Return the reports of a query when it has ended."""
        with running(query):
            while not query.ended():
                self.check_stop()
            return query.reports()


def _ahead(log: OffsetLog, offsets: PartitionOffsets) -> dict[TopicPartition, OffsetRange]:
    """Return what the next batch reads: what is planned, or else all that is there."""
    done, planned = log.done(), log.planned()
    begins = {} if done is None else done.ends
    ends = offsets.end if planned is None else planned.ends
    return {
        # Retention may have taken records that an old offset names.
        at: OffsetRange(max(begins.get(at, 0), begin), ends.get(at, begin))
        for at, begin in offsets.begin.items()
    }


def _passed(topic_ids: Mapping[str, str], runs: Mapping[TopicPartition, list[Run]]) -> Iterator[Judged]:
    for (topic, partition), found in runs.items():
        for each in found:
            yield Judged(topic, topic_ids[topic], partition, each.first, each.past, unusable=True, unreadable=True)


def _say(runs: Mapping[TopicPartition, list[Run]]) -> None:
    every = [(at, each) for at, found in runs.items() for each in found]
    named = "; ".join(f"partition={at.partition} offset={each.first}: {each.reason}" for at, each in every[:_NAMED])
    logger.warning(
        "the stream passes over %d records of %s that cannot be read: %s%s",
        sum(each.count for _, each in every),
        " and ".join(sorted({at.topic for at in runs})),
        named,
        "; …" if len(every) > _NAMED else "",
    )

"""A running query of Spark, as the stream thread sees it: whether it has ended, and what its batches did."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, Final, NamedTuple

from aiokafka import TopicPartition
from pyspark.sql.streaming.query import StreamingQuery

from runtime.errors import QueryFailed
from runtime.kafka.inspected import Judged
from runtime.kafka.offsets import by_partition
from runtime.spark.session import translated

EVENTS: Final = "events"
ROWS: Final = "rows"
LATE: Final = "late"
"""What is observed of a batch: of the events of each source that is read by itself, `total` and `invalid`; of the rows
`without_key`, and how many are `late` for windows that were let go before the generation began."""

_ADDED: Final = "addBatch"
"""What took time in a batch that was run."""

POLL_S: Final = 0.1
"""How long a look at the query waits for its end."""


def events_observed(number: int) -> str:
    """Return the name under which the events of a source are observed that is read by itself; they count from 0."""
    return f"{EVENTS}-{number}" if number else EVENTS


class BatchReport(NamedTuple):
    """What one finished batch did, or where one begins that waits.

    Attributes:
        batch: its number.
        rows: records that it read.
        events: records of the source among them, each counted once.
        invalid: those that could not be used: the records of no event, and rows without a key.
        behind: records that waited in the source when it ended.
        begin: the first offset that it read, by partition of the sources; of those that it read before.
        positions: where the next batch begins, by partition of the sources.
        duration_s: how long it took, in seconds.
        began_ms: what its clock says, in milliseconds from 1970; None where that is not known.
        watermark_ms: Spark's event-time bound in it, in milliseconds from 1970; None without one.
        newest_ms: when the newest event in it was, in milliseconds from 1970; None where Spark looks at no times.
        late: rows that came for windows which this bound had passed, now or before the generation, and so were left
            out.
        state_rows: how many rows Spark's state has after it.
        was_run: whether it has ended; else it waits for events, and only says where it begins.
    """

    batch: int
    rows: int
    events: int
    invalid: int
    behind: int
    begin: Mapping[TopicPartition, int]
    positions: Mapping[TopicPartition, int]
    duration_s: float
    began_ms: int | None = None
    watermark_ms: int | None = None
    newest_ms: int | None = None
    late: int = 0
    state_rows: int = 0
    was_run: bool = True

    @classmethod
    def of(cls, progress: Mapping[str, Any]) -> BatchReport:
        """Return the report that Spark's progress event, as JSON, is."""
        states, times = progress.get("stateOperators", ()), progress.get("eventTime", {})
        # A batch without data has no observed metrics.
        observed = progress.get("observedMetrics", {})
        # Each source that is joined is read by itself, and so all of its records are.
        sources = [seen for name, seen in observed.items() if name.startswith(EVENTS)]
        positions = _offsets(progress, "endOffset")
        return cls(
            batch=progress["batchId"],
            rows=progress["numInputRows"] // max(1, len(sources)),
            events=sum(seen.get("total", 0) for seen in sources),
            invalid=sum(seen.get("invalid", 0) for seen in sources) + observed.get(ROWS, {}).get("without_key", 0),
            # Spark does not always say the latest.
            behind=max(0, sum(_offsets(progress, "latestOffset").values()) - sum(positions.values())),
            begin=_offsets(progress, "startOffset"),
            positions=positions,
            duration_s=progress["batchDuration"] / 1000,
            began_ms=_milliseconds(progress.get("timestamp")),
            watermark_ms=_milliseconds(times.get("watermark")),
            newest_ms=_milliseconds(times.get("max")),
            late=observed.get(LATE, {}).get("late", 0)
            + sum(each.get("numRowsDroppedByWatermark", 0) for each in states),
            state_rows=sum(each.get("numRowsTotal", 0) for each in states),
            was_run=_ADDED in progress["durationMs"],
        )

    def judged(self, topic_ids: Mapping[str, str]) -> Iterator[Judged]:
        """Yield the ranges of events that it has looked at.

        Args:
            topic_ids: of the sources, by their names.
        """
        for at, end in self.positions.items():
            # A partition that no batch has read before is read from its first record on.
            begin = self.begin.get(at, 0)
            topic_id, unusable = topic_ids[at.topic], self.invalid > 0
            yield Judged(at.topic, topic_id, at.partition, begin, end, unusable, as_of_ms=self.began_ms)


class StreamQuery:
    """One started query.

    Args:
        query: as Spark returned it.
    """

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._reported = -1
        self._seen: tuple[int, str] | None = None

    def ended(self) -> bool:
        """Wait `POLL_S`, or until the query ends; return whether it has.

        Raises:
            QueryFailed: it ended by a failure.
        """
        with translated():
            return bool(self._query.awaitTermination(POLL_S))  # type: ignore[arg-type]

    def reports(self) -> list[BatchReport]:
        """Return the reports of the batches that have been committed since the last call, in order."""
        with translated():
            last = self._query.lastProgress
            if last is None or (last.batchId, last.timestamp) == self._seen:
                return []
            recent = [json.loads(progress.json) for progress in self._query.recentProgress]
        is_first = self._seen is None
        self._seen = last.batchId, last.timestamp
        new = [each for each in recent if self._reported < each["batchId"] <= last.batchId]
        was_run = [each for each in new if _ADDED in each["durationMs"]]
        self._reported = max((each["batchId"] for each in was_run), default=self._reported)
        # While nothing comes Spark reports the next batch, again and again. The first time says where the query begins.
        return [BatchReport.of(each) for each in (new if is_first else was_run)]

    def stop(self) -> None:
        """End the query, if it has not ended."""
        with translated():
            self._query.stop()


@contextmanager
def running(query: StreamQuery) -> Iterator[StreamQuery]:
    """Stop the query at the end, whatever the reason."""
    try:
        yield query
    finally:
        # When it has failed or its JVM is gone, that is the error which counts.
        with suppress(QueryFailed):
            query.stop()


def _milliseconds(text: str | None) -> int | None:
    """Return a time of a progress event, ISO 8601, in milliseconds from 1970."""
    return None if text is None else round(datetime.fromisoformat(text).timestamp() * 1000)


def _offsets(progress: Mapping[str, Any], which: str) -> dict[TopicPartition, int]:
    """Return a progress event's offsets of one kind, by partition of the sources; none of files."""
    offsets = progress["sources"][0][which] or {}
    return by_partition({topic: each for topic, each in offsets.items() if isinstance(each, dict)})

"""A running query of Spark, as the stream thread sees it: whether it has ended, and what its batches did."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pyspark.sql.streaming.query import StreamingQuery

from topology.spark import translated
from topology.topics import SCORE_EVENTS

POLL_S: Final = 0.1
"""How long a look at the query waits for its end."""


class BatchReport(NamedTuple):
    """What one finished batch did.

    Attributes:
        rows: records that it read.
        events: score events that it parsed.
        invalid: those that could not be used.
        behind: records that waited in the source when it ended.
    """

    rows: int
    events: int
    invalid: int
    behind: int

    @classmethod
    def of(cls, progress: Mapping[str, Any]) -> BatchReport:
        """Return the report that Spark's progress event, as JSON, is."""
        # A batch without data has no observed metrics.
        observed = progress.get("observedMetrics", {}).get("events", {})
        behind = _offsets(progress, "latestOffset") - _offsets(progress, "endOffset")
        return cls(progress["numInputRows"], observed.get("total", 0), observed.get("invalid", 0), behind)


class StreamQuery:
    """One started query.

    Args:
        query: as Spark returned it.
    """

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._reported = -1

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
            if last is None or last.batchId <= self._reported:
                return []
            recent = [json.loads(progress.json) for progress in self._query.recentProgress]
        new = [progress for progress in recent if progress["batchId"] > self._reported]
        self._reported = last.batchId
        return [BatchReport.of(progress) for progress in new if progress["batchId"] <= self._reported]

    def stop(self) -> None:
        """End the query, if it has not ended."""
        with translated():
            self._query.stop()


def _offsets(progress: Mapping[str, Any], which: str) -> int:
    """Return the sum of a progress event's offsets of one kind, over all partitions of the source."""
    offsets = progress["sources"][0][which] or {}
    return sum(offsets.get(SCORE_EVENTS, {}).values())

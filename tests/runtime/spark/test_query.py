"""What Spark's progress events say."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import TopicPartition
from pyspark.sql.streaming.query import StreamingQuery

from runtime.spark.query import BatchReport, StreamQuery

OFFSETS = {
    "startOffset": {"lines": {"0": 2}},
    "endOffset": {"lines": {"0": 5, "1": 7}},
    "latestOffset": {"lines": {"0": 6, "1": 9}},
}
BEGIN = {TopicPartition("lines", 0): 2}
POSITIONS = {TopicPartition("lines", 0): 5, TopicPartition("lines", 1): 7}
RAN = {"addBatch": 1}
NOTHING = {"startOffset": None, "endOffset": None, "latestOffset": None}


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        (
            {
                "batchId": 3,
                "numInputRows": 4,
                "batchDuration": 1500,
                "durationMs": RAN,
                "observedMetrics": {"events": {"total": 4, "invalid": 1}},
                "sources": [OFFSETS],
            },
            BatchReport(3, rows=4, events=4, invalid=1, behind=3, begin=BEGIN, positions=POSITIONS, duration_s=1.5),
        ),
        (
            {
                "batchId": 3,
                "numInputRows": 4,
                "batchDuration": 1500,
                "durationMs": RAN,
                "observedMetrics": {"events": {"total": 4, "invalid": 1}, "rows": {"without_key": 2}},
                "sources": [OFFSETS],
            },
            BatchReport(3, rows=4, events=4, invalid=3, behind=3, begin=BEGIN, positions=POSITIONS, duration_s=1.5),
        ),
        (
            {
                "batchId": 3,
                "numInputRows": 4,
                "batchDuration": 1500,
                "durationMs": RAN,
                "observedMetrics": {"events": {"total": 4, "invalid": 0}, "late": {"late": 2}},
                "stateOperators": [{"numRowsTotal": 9, "numRowsDroppedByWatermark": 3}],
                "sources": [OFFSETS],
            },
            BatchReport(
                3,
                rows=4,
                events=4,
                invalid=0,
                behind=3,
                begin=BEGIN,
                positions=POSITIONS,
                duration_s=1.5,
                late=5,
                state_rows=9,
            ),
        ),
        (
            {"batchId": 0, "numInputRows": 0, "batchDuration": 0, "durationMs": RAN, "sources": [OFFSETS]},
            BatchReport(0, rows=0, events=0, invalid=0, behind=3, begin=BEGIN, positions=POSITIONS, duration_s=0.0),
        ),
        (
            {"batchId": 0, "numInputRows": 0, "batchDuration": 7, "durationMs": RAN, "sources": [NOTHING]},
            BatchReport(0, rows=0, events=0, invalid=0, behind=0, begin={}, positions={}, duration_s=0.007),
        ),
    ],
)
def test_a_report_counts_events_and_what_waits(progress: dict[str, Any], expected: BatchReport) -> None:
    assert BatchReport.of(progress) == expected


def test_of_files_a_report_has_no_offsets() -> None:
    files = {"startOffset": None, "endOffset": {"logOffset": 0}, "latestOffset": None}
    progress = {"batchId": 0, "numInputRows": 9, "batchDuration": 0, "durationMs": RAN, "sources": [files]}
    report = BatchReport.of(progress)
    assert (report.rows, report.events, report.begin, report.positions, report.behind) == (9, 0, {}, {}, 0)


def test_a_report_tells_the_ranges_that_it_has_looked_at() -> None:
    report = BatchReport(3, 4, 4, 1, 3, begin=BEGIN, positions=POSITIONS, duration_s=1.5)
    found = [(each.partition, each.begin, each.end, each.unusable) for each in report.judged({"lines": "id"})]
    assert found == [(0, 2, 5, True), (1, 0, 7, True)]


def test_a_report_of_several_topics_counts_what_waits_in_all_of_them() -> None:
    several = {which: {**of_lines, "others": {"0": 4}} for which, of_lines in OFFSETS.items()}
    several["latestOffset"]["others"] = {"0": 9}
    report = BatchReport.of(
        {"batchId": 0, "numInputRows": 9, "batchDuration": 0, "durationMs": RAN, "sources": [several]}
    )
    assert (report.positions, report.behind) == ({**POSITIONS, TopicPartition("others", 0): 4}, 3 + 5)
    judged = [(each.topic, each.topic_id, each.partition) for each in report.judged({"lines": "a", "others": "b"})]
    assert judged == [("lines", "a", 0), ("lines", "a", 1), ("others", "b", 0)]


class Progress:
    """A progress event as PySpark hands it out."""

    def __init__(self, batch: int, at_s: int, *, was_run: bool = True) -> None:
        self.batchId = batch  # PySpark's name
        self.timestamp = f"2026-01-01T00:00:{at_s:02}.000Z"
        took = {"triggerExecution": 5, **({"addBatch": 4} if was_run else {})}
        self.json = json.dumps(
            {"batchId": batch, "numInputRows": 0, "batchDuration": 5, "durationMs": took, "sources": [NOTHING]}
        )


def test_a_batch_is_reported_once_and_also_after_spark_has_told_that_it_waits_for_it() -> None:
    running = SimpleNamespace(lastProgress=None, recentProgress=[])
    query = StreamQuery(cast("StreamingQuery", running))

    def reported(*told: Progress) -> list[int]:
        running.recentProgress += told
        running.lastProgress = running.recentProgress[-1] if running.recentProgress else None
        return [report.batch if report.was_run else -report.batch for report in query.reports()]

    assert reported() == []
    assert reported(Progress(7, 0, was_run=False)) == [-7], "where the query begins"
    assert reported() == []
    assert reported(Progress(7, 10, was_run=False)) == []
    assert reported(Progress(7, 12)) == [7]
    assert reported(Progress(8, 13), Progress(9, 14), Progress(10, 24, was_run=False)) == [8, 9]
    assert reported(Progress(10, 25)) == [10]
    assert reported() == []

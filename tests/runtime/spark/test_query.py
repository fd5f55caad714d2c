"""What Spark's progress events say."""

from typing import Any

import pytest

from runtime.spark.query import BatchReport

OFFSETS = {
    "startOffset": {"score-events": {"0": 2}},
    "endOffset": {"score-events": {"0": 5, "1": 7}},
    "latestOffset": {"score-events": {"0": 6, "1": 9}},
}
NOTHING = {"startOffset": None, "endOffset": None, "latestOffset": None}


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        (
            {
                "numInputRows": 4,
                "batchDuration": 1500,
                "observedMetrics": {"events": {"total": 4, "invalid": 1}},
                "sources": [OFFSETS],
            },
            BatchReport(rows=4, events=4, invalid=1, behind=3, begin={0: 2}, positions={0: 5, 1: 7}, duration_s=1.5),
        ),
        (
            {"numInputRows": 0, "batchDuration": 0, "sources": [OFFSETS]},
            BatchReport(rows=0, events=0, invalid=0, behind=3, begin={0: 2}, positions={0: 5, 1: 7}, duration_s=0.0),
        ),
        (
            {"numInputRows": 0, "batchDuration": 7, "sources": [NOTHING]},
            BatchReport(rows=0, events=0, invalid=0, behind=0, begin={}, positions={}, duration_s=0.007),
        ),
    ],
)
def test_a_report_counts_events_and_what_waits(progress: dict[str, Any], expected: BatchReport) -> None:
    assert BatchReport.of(progress) == expected

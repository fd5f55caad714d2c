"""What Spark's progress events say."""

from typing import Any

import pytest

from topology.stream_query import BatchReport

OFFSETS = {"endOffset": {"score-events": {"0": 5, "1": 7}}, "latestOffset": {"score-events": {"0": 6, "1": 9}}}


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        (
            {
                "numInputRows": 4,
                "observedMetrics": {"events": {"total": 4, "invalid": 1}},
                "sources": [OFFSETS],
            },
            BatchReport(rows=4, events=4, invalid=1, behind=3),
        ),
        ({"numInputRows": 0, "sources": [OFFSETS]}, BatchReport(rows=0, events=0, invalid=0, behind=3)),
        (
            {"numInputRows": 0, "sources": [{"endOffset": None, "latestOffset": None}]},
            BatchReport(rows=0, events=0, invalid=0, behind=0),
        ),
    ],
)
def test_a_report_counts_events_and_what_waits(progress: dict[str, Any], expected: BatchReport) -> None:
    assert BatchReport.of(progress) == expected

"""What some metrics are called: those whose names say what events and rows are; a topology may have its own words."""

from __future__ import annotations

from typing import NamedTuple


class Name(NamedTuple):
    """What a metric is called.

    Attributes:
        name: without the prefix that all have.
        text: what it is, for people.
    """

    name: str
    text: str


class MetricNames(NamedTuple):
    """The names.

    Attributes:
        events: a counter of the source's records.
        unusable: a counter of those among them that could not be used.
        waiting: a gauge of the source's records that waited when the last batch ended.
        uncommitted: a gauge of the source's records after the last commit.
        rows: a gauge of the rows that there are to show.
        delay: a histogram of the time from an event to its row.
        newest: a gauge of the newest event in a changed row.
        of_one_store: whether `rows`, `delay` and `newest` are of the first store alone, without the label `store`.
    """

    events: Name = Name("source_records", "Records of the source read, in committed batches.")
    unusable: Name = Name("invalid_source_records", "Those among them that could not be used.")
    waiting: Name = Name("stream_lag_records", "Records of the source that waited when the last batch ended.")
    uncommitted: Name = Name("stream_uncommitted_records", "Records of the source after the last commit.")
    rows: Name = Name("rows", "Rows that there are to show.")
    delay: Name = Name("row_delay_seconds", "Time from an event's timestamp to its row.")
    newest: Name = Name("newest_event_timestamp_seconds", "Newest event in a changed row, Unix time.")
    of_one_store: bool = False

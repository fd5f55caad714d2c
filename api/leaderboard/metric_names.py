"""What the leaderboard's metrics are called: they say what its events and rows are."""

from __future__ import annotations

from typing import Final

from api.operate.metric_names import MetricNames, Name

METRIC_NAMES: Final = MetricNames(
    events=Name("score_events", "Score events read, in committed batches."),
    unusable=Name("invalid_score_events", "Those among them that could not be used."),
    waiting=Name("stream_lag_records", "Score events that waited when the last batch ended."),
    uncommitted=Name("stream_uncommitted_records", "Score events after the last commit."),
    rows=Name("boards", "Boards that have something to show."),
    delay=Name("board_delay_seconds", "Time from a score event's timestamp to its board."),
    newest=Name("newest_score_event_timestamp_seconds", "Newest score event on a changed board, Unix time."),
    of_one_store=True,
)

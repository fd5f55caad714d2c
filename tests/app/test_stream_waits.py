"""What a stream waits for is in the log, once in a while."""

from __future__ import annotations

import pytest

from app.stream_waits import StreamWaits
from runtime.stream.status import StreamState, StreamStatus

JVM = StreamStatus(state=StreamState.STARTING, waits_for="Spark's JVM to start", waits_since_s=0.0)
TOPICS = StreamStatus(state=StreamState.STARTING, waits_for="topics that do not exist: players", waits_since_s=0.0)
FAILED = StreamStatus(state=StreamState.ERROR, error="no JVM")


@pytest.mark.parametrize(
    ("looks", "said"),
    [
        ([(JVM, 29.0)], []),
        ([(JVM, 31.0), (JVM, 32.0), (JVM, 330.9)], ["31 s for Spark's JVM to start"]),
        ([(JVM, 31.0), (JVM, 331.0)], ["31 s for Spark's JVM to start", "331 s for Spark's JVM to start"]),
        (
            [(TOPICS, 31.0), (JVM, 32.0)],
            ["31 s for topics that do not exist: players", "32 s for Spark's JVM to start"],
        ),
        (
            [(JVM, 31.0), (StreamStatus(), 32.0), (JVM, 33.0)],
            ["31 s for Spark's JVM to start", "33 s for Spark's JVM to start"],
        ),
        ([(FAILED, 31.0), (None, 32.0)], []),
    ],
    ids=[
        "not long yet",
        "once",
        "again after a while",
        "each thing",
        "again when it went on meanwhile",
        "not a failure",
    ],
)
def test_each_long_wait_is_said(
    looks: list[tuple[StreamStatus | None, float]], said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    waits = StreamWaits()
    for status, now_s in looks:
        waits.look(status, now_s)
    assert caplog.messages == [f"the stream does not get on: it has waited for {each}" for each in said]

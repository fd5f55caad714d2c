"""What is told of stream time when the store is declared otherwise than when Spark's bound came to stand."""

from __future__ import annotations

import pytest

from runtime import Count, Key, Session, Store, Text, Tumbling
from runtime.kafka.connection import KafkaConnection
from runtime.stream.stream_time import StreamTime
from runtime.windows import Windows


def of(window: Windows | None) -> StreamTime:
    store = Store("counts-store", "counts", Key("text", Text), {"count": Count()}, window=window)
    return StreamTime(KafkaConnection("127.0.0.1:1"), store)


@pytest.mark.parametrize(
    ("window", "after_ms", "is_of_now"),
    [
        (None, None, True),
        (Tumbling("1 hour", keep="1 day"), None, True),
        (Tumbling("1 hour", keep="1 day"), 86_400_000, True),
        (Tumbling("1 hour", keep="1 day"), 172_800_000, False),
        (Session("30 seconds", grace="10 seconds"), 10_001, True),
        (Session("30 seconds", grace="10 seconds"), 1, False),
    ],
)
def test_a_bound_of_another_declaration_says_nothing_until_it_moves(
    window: Windows | None, after_ms: int | None, *, is_of_now: bool
) -> None:
    stream_time = of(window)
    stream_time.begin(after_ms)
    assert stream_time.is_of_now is is_of_now
    for bound_ms in (None, 0, 1_000, 1_000):
        stream_time.note(bound_ms)
        assert stream_time.is_of_now is is_of_now
    stream_time.note(1_001)
    assert stream_time.is_of_now

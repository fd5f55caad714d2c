"""What is read from records of results and from dead letters to compute the rows as they have to be."""

from __future__ import annotations

from app.verification.stores.expected import SourceRecord, of_the_future, sessions_of
from runtime import Count, Key, Session, Store, Text
from runtime.records import NO_VALUE, OF_THE_FUTURE
from runtime.spark.results import Consumed
from runtime.windows import time_text

SESSIONS = Store("sat", "sat-output", Key("word", Text), {"count": Count()}, window=Session("30 seconds"))


def letter(offset: int, reason: str) -> list[tuple[str, bytes]]:
    """Return the headers of a dead letter."""
    return [("topic", b"lines"), ("partition", b"2"), ("offset", b"%d" % offset), ("reason", reason.encode())]


def test_sessions_are_told_by_when_they_begin_and_end() -> None:
    ends = {b"a@0": 30_000, b"b@c@5": 41_000, b"a@90000": 120_000}
    made: list[Consumed] = [
        (key, SESSIONS.record.to_json({"windowEnd": time_text(end_ms), "count": 1}), []) for key, end_ms in ends.items()
    ]
    assert sessions_of(SESSIONS, made) == {"a": [(0, 30_000), (90_000, 120_000)], "b@c": [(5, 41_000)]}


def test_only_dead_letters_for_their_time_tell_what_was_of_the_future() -> None:
    unlike = [("topic", b"lines"), ("partition", b"two"), ("offset", b"1"), ("reason", OF_THE_FUTURE.encode())]
    letters = [letter(7, OF_THE_FUTURE), letter(8, NO_VALUE), letter(9, OF_THE_FUTURE), unlike, unlike[1:], []]
    assert of_the_future(letters) == {SourceRecord("lines", 2, 7), SourceRecord("lines", 2, 9)}

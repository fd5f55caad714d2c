"""Ranges that somebody has looked at, joined: no unusable record is ever taken for a usable one."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from aiokafka import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from runtime.kafka.inspected import Judged, with_judged

RANGES = st.tuples(st.integers(0, 30), st.integers(0, 10), st.sets(st.integers(0, 40)))


def judged(begin: int, end: int, *, unusable: bool = False, topic_id: str = "a") -> Judged:
    """Return a range of partition 0."""
    return Judged("players", topic_id, 0, begin, end, unusable)


def test_ranges_that_follow_each_other_are_one() -> None:
    assert judged(0, 5).followed_by(judged(5, 9)) == judged(0, 9)
    assert judged(0, 5, unusable=True).followed_by(judged(3, 9)) == judged(0, 9, unusable=True)


def test_what_lies_between_two_ranges_is_not_clean() -> None:
    joined = judged(0, 5).followed_by(judged(7, 9))
    assert joined.may_hold_unusable_from(0)
    assert joined.may_hold_unusable_from(5)
    assert not joined.may_hold_unusable_from(7)


def test_a_topic_that_was_created_anew_has_ranges_of_its_own() -> None:
    later = judged(0, 2, topic_id="b")
    assert judged(0, 5, unusable=True).followed_by(later) == later


def test_a_range_that_began_after_the_position_is_looked_at_again() -> None:
    assert judged(5, 9).may_hold_unusable_from(4)
    assert not judged(5, 9).may_hold_unusable_from(5)
    assert not judged(5, 9, unusable=True).may_hold_unusable_from(9)


def test_pieces_cover_what_is_left_and_nothing_else() -> None:
    assert list(judged(0, 9).pieces_from(3, 4)) == [judged(3, 7), judged(7, 9)]
    assert list(judged(0, 9).pieces_from(9, 4)) == []


@given(st.lists(RANGES, min_size=1, max_size=5), st.integers(0, 40))
def test_an_unusable_record_at_or_after_the_position_is_always_looked_for(
    ranges: list[tuple[int, int, set[int]]], position: int
) -> None:
    unusable = set().union(*(bad for _, _, bad in ranges))
    told = [
        replace(judged(begin, begin + size), unusable=any(begin <= at < begin + size for at in unusable))
        for begin, size, _ in ranges
    ]
    joined = reduce(Judged.followed_by, told)
    if any(position <= at < joined.end for at in unusable):
        assert joined.may_hold_unusable_from(position)


def test_ranges_of_a_topic_that_was_created_anew_with_fewer_partitions_are_forgotten() -> None:
    ranges = [Judged("scores", "old", partition, 0, 9, unusable=True) for partition in range(4)]
    ranges.append(Judged("players", "its own", 3, 0, 9, unusable=True))
    ranges.append(Judged("scores", "new", 0, 0, 5, unusable=False))
    noted: dict[TopicPartition, Judged] = {}
    for each in ranges:
        noted = with_judged(noted, each)
    assert noted.keys() == {TopicPartition("players", 3), TopicPartition("scores", 0)}
    assert noted[TopicPartition("scores", 0)] == Judged("scores", "new", 0, 0, 5, unusable=False)

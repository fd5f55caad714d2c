"""Ranges of an input topic that somebody has looked at, and whether there were unusable records among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Self

from aiokafka import TopicPartition


@dataclass(frozen=True, slots=True)
class Judged:
    """Records of one topic partition that somebody has looked at.

    Attributes:
        topic: its name.
        topic_id: what tells it from another one of that name.
        partition: of the topic.
        begin: the first offset that was looked at.
        end: the offset after the last.
        unusable: whether some of the records could not be used.
        unreadable: whether Spark cannot read some of them.
        as_of_ms: the clock by which it was told which are of the future, in milliseconds from 1970; None where that is
            not told, or not known any more.
    """

    topic: str
    topic_id: str
    partition: int
    begin: int
    end: int
    unusable: bool
    unreadable: bool = False
    as_of_ms: int | None = None

    def followed_by(self, later: Self) -> Self:
        """Return both ranges as one; when the topic was created anew in between, only the later one is left."""
        if self.topic_id != later.topic_id:
            return later
        low, high = sorted((self, later), key=lambda judged: judged.end)
        # Nobody has looked at what lies between two ranges, so it must not count as clean.
        begin = high.begin if high.begin > low.end else min(self.begin, later.begin)
        unusable, unreadable = self.unusable or later.unusable, self.unreadable or later.unreadable
        return replace(high, begin=begin, unusable=unusable, unreadable=unreadable)

    def may_hold_unusable_from(self, position: int) -> bool:
        """Return whether there may be unusable records from `position` on: known ones, or before the range began."""
        return position < self.end and (self.unusable or position < self.begin)

    def pieces_from(self, position: int, offsets: int) -> Iterator[Self]:
        """Yield what is left from `position` on, in ranges of at most so many offsets."""
        for begin in range(position, self.end, offsets):
            yield replace(self, begin=begin, end=min(begin + offsets, self.end))


def with_judged(before: Mapping[TopicPartition, Judged], judged: Judged) -> dict[TopicPartition, Judged]:
    """Return what has been looked at, by topic partition, with one range more."""
    at = TopicPartition(judged.topic, judged.partition)
    earlier = before.get(at)
    if earlier is None:
        return {**before, at: judged}
    if earlier.topic_id != judged.topic_id:
        # Created anew, perhaps with fewer partitions: nobody can read the others any more.
        before = {key: each for key, each in before.items() if each.topic_id != earlier.topic_id}
    return {**before, at: earlier.followed_by(judged)}

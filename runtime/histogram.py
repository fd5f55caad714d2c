"""A histogram that costs well under a microsecond an observation: two numbers change, nothing is locked."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """Counts of observations by bucket. One thread writes it.

    Args:
        bounds: upper bounds of the buckets, inclusive, ascending; one more bucket has no bound.

    Attributes:
        bounds: see there.
        counts: observations of each bucket alone, not of those below it.
        total: sum of all observations.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def plus(self, value: float) -> Histogram:
        """Return a copy that has one observation more, for values that are handed to other threads."""
        grown = Histogram(self.bounds)
        grown.counts, grown.total = list(self.counts), self.total
        grown.observe(value)
        return grown

    @classmethod
    def sum(cls, each: Sequence[Histogram]) -> Histogram:
        """Return the observations of several, which have the same bounds."""
        added = cls(each[0].bounds)
        added.counts = [sum(counts) for counts in zip(*(one.counts for one in each), strict=True)]
        added.total = sum(one.total for one in each)
        return added

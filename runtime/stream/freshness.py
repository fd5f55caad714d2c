"""How long events take to a result: from the timestamp of the record to this instance's store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from runtime.histogram import Histogram
from runtime.results import Result

_BOUNDS_S: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class Followed(Protocol):
    """What is known of the results of one query: see `Freshness`."""

    @property
    def delays_s(self) -> Histogram:
        """Seconds from an event to the change."""

    @property
    def read(self) -> int:
        """Results that the query has written."""

    @property
    def unchanged(self) -> int:
        """Those among them that changed nothing."""

    @property
    def generation(self) -> int:
        """The highest."""


class Freshness:
    """Follows the results of one store that change while its copies are being followed, not while they are restored.

    Attributes:
        delays_s: seconds from the newest event of a changed result to the change. What changes a result without a newer
            event says nothing: a repeat, a result published again, a late event with an old timestamp.
        read: results that the query has written, as far as can be told: not those that were published again.
        unchanged: those among them that brought events and no other values.
        newest_ms: the newest timestamp seen of such a result, wall-clock milliseconds; None before the first.
        generation: the highest of the results that were read; 0 before the first.
    """

    def __init__(self) -> None:
        self.delays_s = Histogram(_BOUNDS_S)
        self.newest_ms: int | None = None
        self.read = self.unchanged = self.generation = 0

    def note(self, held: Result | None, merged: Result, now_ms: int) -> None:
        """Take note of a result that was read.

        Args:
            held: the result before.
            merged: the result as it is now, what was read merged into it.
            now_ms: wall-clock time in milliseconds.
        """
        self.generation = max(self.generation, merged.made.generation)
        if held is not None and held.values == merged.values:
            # One that is published again counts no more events.
            is_news = merged.made.events > held.made.events
            self.read += is_news
            self.unchanged += is_news
            return
        self.read += 1
        newest = merged.made.newest_ms
        if newest is None or (held is not None and newest <= (held.made.newest_ms or 0)):
            return
        self.delays_s.observe(max(0, now_ms - newest) / 1000)
        self.newest_ms = max(newest, self.newest_ms or 0)


def of_query(each: Sequence[Freshness]) -> Followed:
    """Return what is known of the results of a query, by what is known of those of each store that it makes."""
    return each[0] if len(each) == 1 else Together(each)


class Together:
    """Follows the results of one query that are in several stores.

    Args:
        each: follows those of one store.
    """

    def __init__(self, each: Sequence[Freshness]) -> None:
        self._each = each

    @property
    def delays_s(self) -> Histogram:
        """Seconds from an event to the change, of all."""
        return Histogram.sum([each.delays_s for each in self._each])

    @property
    def read(self) -> int:
        """Results that the query has written."""
        return sum(each.read for each in self._each)

    @property
    def unchanged(self) -> int:
        """Those among them that changed nothing."""
        return sum(each.unchanged for each in self._each)

    @property
    def generation(self) -> int:
        """The highest of all."""
        return max(each.generation for each in self._each)

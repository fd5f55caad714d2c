"""What comes after a real-time query: decisions of the stream thread, without Spark."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from runtime.histogram import Histogram

LATE_S: Final = 10.0
"""Results this late, and later than a moment ago, are those of a stream that does not keep up."""


class Next(Enum):
    """What comes after a real-time query."""

    REFRESH = "refresh"
    CATCH_UP = "catch up"
    NEW_GENERATION = "new generation"


class Lateness:
    """How late the results were that changed, from look to look.

    Args:
        delays_s: of all results that have changed before.

    Attributes:
        mean_s: seconds from their newest event to the result, on average between the last two looks that saw any.
    """

    def __init__(self, delays_s: Histogram) -> None:
        self.mean_s = 0.0
        self._was_in_time = False
        self._count, self._total_s = sum(delays_s.counts), delays_s.total

    def grows(self, delays_s: Histogram) -> bool:
        """Return whether results that changed since the last look were late, and later than those before it.

        Not before some were in time: events that are old when they are sent make every result look late.

        Args:
            delays_s: of all results that have changed so far.
        """
        count, total_s = sum(delays_s.counts), delays_s.total
        changed, late_s = count - self._count, total_s - self._total_s
        self._count, self._total_s = count, total_s
        if not changed:
            return False
        before_s, self.mean_s = self.mean_s, late_s / changed
        self._was_in_time = self._was_in_time or self.mean_s <= LATE_S
        return self._was_in_time and self.mean_s > max(LATE_S, before_s)


class Plan(NamedTuple):
    """What to do at the next commit, and why.

    Attributes:
        next: what.
        reason: why, for people.
        at_commit: whether a new generation goes on where the last one has committed; else it reads all that the sources
            have once more, with what is published as its seed either way.
    """

    next: Next
    reason: str
    at_commit: bool = False


class TablesAge:
    """Whether the tables that a query joins are old: they have changed since, and long enough ago.

    Args:
        every_s: the least time between two refreshes in seconds.
        now_s: monotonic time in seconds.
    """

    def __init__(self, every_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        self._every_s = every_s
        self._now_s = now_s
        self._taken: object = None
        self._taken_at_s = now_s()

    def taken(self, state: object) -> None:
        """Note how the tables are that the next query joins.

        Args:
            state: something that is equal as long as they are as they were.
        """
        self._taken, self._taken_at_s = state, self._now_s()

    def plan(self, state: object) -> Plan | None:
        """Return a refresh when it is due; `state` as for `taken`."""
        if state == self._taken or self._now_s() - self._taken_at_s < self._every_s:
            return None
        return Plan(Next.REFRESH, "tables have changed")

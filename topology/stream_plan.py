"""What comes after a real-time query: decisions of the stream thread, without Spark."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from topology.histogram import Histogram
from topology.snapshots import Survey

_ENOUGH_BOARDS: Final = 1_000
LATE_S: Final = 10.0
"""Boards this late, and later than a moment ago, are those of a stream that does not keep up."""


class Next(Enum):
    """What comes after a real-time query."""

    REFRESH = "refresh"
    CATCH_UP = "catch up"
    NEW_GENERATION = "new generation"


class Lateness:
    """How late the boards were that changed, from look to look.

    Args:
        delays_s: of all boards that have changed before.

    Attributes:
        mean_s: seconds from their newest score event to the board, on average between the last two looks that saw any.
    """

    def __init__(self, delays_s: Histogram) -> None:
        self.mean_s = 0.0
        self._was_in_time = False
        self._count, self._total_s = sum(delays_s.counts), delays_s.total

    def grows(self, delays_s: Histogram) -> bool:
        """Return whether boards that changed since the last look were late, and later than those before it.

        Not before some were in time: events that are old when they are sent make every board look late.

        Args:
            delays_s: of all boards that have changed so far.
        """
        count, total_s = sum(delays_s.counts), delays_s.total
        changed, late_s = count - self._count, total_s - self._total_s
        self._count, self._total_s = count, total_s
        if not changed:
            return False
        before_s, self.mean_s = self.mean_s, late_s / changed
        self._was_in_time = self._was_in_time or self.mean_s <= LATE_S
        return self._was_in_time and self.mean_s > max(LATE_S, before_s)


def floors_are_old(written: int, unchanged: int) -> bool:
    """Return whether most boards of a while changed nothing: newer floors would keep their scores from the query.

    Args:
        written: boards that the query has written.
        unchanged: those among them that changed nothing.
    """
    return written >= _ENOUGH_BOARDS and unchanged > written / 2


class Plan(NamedTuple):
    """What to do at the next commit, and why."""

    next: Next
    reason: str


def plan_refresh(
    survey: Survey, *, rows_added: bool, rows_added_since: bool, rows_deleted: bool, may_begin_anew: bool
) -> Plan | None:
    """Decide what the changed tables ask for, or None when the query needs nothing new.

    Args:
        survey: how the boards and the tables of now fit together.
        rows_added: whether players or products were added since the generation began: only then what was lost while
            they were unknown may be known by now.
        rows_added_since: whether some were added since the query's snapshot.
        rows_deleted: whether some were deleted since the query's snapshot.
        may_begin_anew: whether the last generation is long enough ago.
    """
    if may_begin_anew and survey.short_boards:
        return Plan(Next.NEW_GENERATION, f"deletes left {survey.short_boards} boards with places to fill")
    if may_begin_anew and survey.pending_lost and rows_added:
        return Plan(Next.NEW_GENERATION, f"{survey.pending_lost} pending scores were lost, and may be known by now")
    if survey.newly_known:
        return Plan(Next.REFRESH, f"{survey.newly_known} pending scores have become known")
    if survey.pending_lost and rows_added_since:
        # Who was added may play: the query would lose more of their scores among those of unknown ids.
        return Plan(Next.REFRESH, "players or products were added, and pending scores are lost")
    if rows_deleted:
        # Who was deleted may go on playing: the query would give places to scores that nobody is shown.
        return Plan(Next.REFRESH, "players or products were deleted")
    return None

"""What comes after a real-time query: decisions of the stream thread, without Spark."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from topology.snapshots import Survey


class Next(Enum):
    """What comes after a real-time query."""

    STOP = "stop"
    REFRESH = "refresh"
    CATCH_UP = "catch up"
    NEW_GENERATION = "new generation"


class Plan(NamedTuple):
    """What to do at the next commit, and why."""

    next: Next
    reason: str


def plan_refresh(survey: Survey, *, rows_added: bool, rows_deleted: bool, may_begin_anew: bool) -> Plan | None:
    """Decide what the changed tables ask for, or None when the query needs nothing new.

    Args:
        survey: how the boards and the tables of now fit together.
        rows_added: whether players or products were added since the query's snapshot.
        rows_deleted: whether some were deleted since then.
        may_begin_anew: whether the last generation is long enough ago.
    """
    if may_begin_anew and survey.short_boards:
        return Plan(Next.NEW_GENERATION, f"deletes left {survey.short_boards} boards with places to fill")
    if may_begin_anew and survey.pending_lost and rows_added:
        return Plan(Next.NEW_GENERATION, f"{survey.pending_lost} pending scores were lost, and may be known by now")
    if survey.newly_known:
        return Plan(Next.REFRESH, f"{survey.newly_known} pending scores have become known")
    if rows_deleted:
        # Who was deleted may go on playing: the query would give places to scores that nobody is shown.
        return Plan(Next.REFRESH, "players or products were deleted")
    return None

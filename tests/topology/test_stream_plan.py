"""What comes after a query in real time."""

import pytest

from topology.histogram import Histogram
from topology.snapshots import Survey
from topology.stream_plan import Lateness, Next, floors_are_old, plan_refresh

NOTHING = Survey(newly_known=0, short_boards=0, pending_lost=0)


@pytest.mark.parametrize(
    ("survey", "rows_added", "may_begin_anew", "expected"),
    [
        (NOTHING, True, True, None),
        (NOTHING._replace(newly_known=1), True, True, Next.REFRESH),
        (NOTHING._replace(short_boards=1), False, True, Next.NEW_GENERATION),
        (NOTHING._replace(short_boards=1), False, False, None),
        (NOTHING._replace(short_boards=1, newly_known=1), True, False, Next.REFRESH),
        (NOTHING._replace(pending_lost=1), True, True, Next.NEW_GENERATION),
        (NOTHING._replace(pending_lost=1), False, True, None),
        (NOTHING._replace(pending_lost=1), True, False, None),
        (NOTHING._replace(pending_lost=1, newly_known=1), True, True, Next.NEW_GENERATION),
    ],
)
def test_a_refresh_does_what_the_tables_ask_for(
    survey: Survey, rows_added: bool, may_begin_anew: bool, expected: Next | None
) -> None:
    plan = plan_refresh(
        survey, rows_added=rows_added, rows_added_since=False, rows_deleted=False, may_begin_anew=may_begin_anew
    )
    assert (plan.next if plan else None) is expected


def test_a_query_does_not_go_on_knowing_who_was_deleted() -> None:
    plan = plan_refresh(NOTHING, rows_added=False, rows_added_since=False, rows_deleted=True, may_begin_anew=True)
    assert plan is not None
    assert plan.next is Next.REFRESH


@pytest.mark.parametrize(("lost", "expected"), [(0, None), (1, Next.REFRESH)])
def test_where_pending_scores_are_lost_the_query_learns_of_new_players_before_they_play(
    lost: int, expected: Next | None
) -> None:
    survey = NOTHING._replace(pending_lost=lost)
    plan = plan_refresh(survey, rows_added=True, rows_added_since=True, rows_deleted=False, may_begin_anew=False)
    assert (plan.next if plan else None) is expected


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([[0.01, 0.02]], [False]),
        ([[0.01], [9.0], [11.0]], [False, False, True]),
        ([[11.0], [12.0]], [False, False]),
        ([[1.0], [20.0], [19.0], [18.0]], [False, True, False, False]),
        ([[1.0], [20.0], [], [21.0, 30.0]], [False, True, False, True]),
        ([[20.0], [0.01], [15.0]], [False, False, True]),
        ([[], []], [False, False]),
    ],
)
def test_boards_that_are_late_and_get_later_are_those_of_a_stream_that_does_not_keep_up(
    looks: list[list[float]], expected: list[bool]
) -> None:
    delays_s = Histogram((1.0,))
    delays_s.observe(100.0)
    lateness, found = Lateness(delays_s), []
    for look in looks:
        for delay_s in look:
            delays_s.observe(delay_s)
        found.append(lateness.grows(delays_s))
    assert found == expected


@pytest.mark.parametrize(
    ("written", "unchanged", "expected"), [(0, 0, False), (999, 999, False), (1_000, 500, False), (1_000, 501, True)]
)
def test_floors_are_renewed_when_most_boards_change_nothing(written: int, unchanged: int, expected: bool) -> None:
    assert floors_are_old(written, unchanged) is expected

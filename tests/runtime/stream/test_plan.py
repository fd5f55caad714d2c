"""What comes after a query in real time."""

import pytest

from runtime.histogram import Histogram
from runtime.stores.global_table import TableChanges
from runtime.stream.plan import Lateness, Next, TablesAge


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
def test_results_that_are_late_and_get_later_are_those_of_a_stream_that_does_not_keep_up(
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


class Tables:
    """The tables that a query joins, at a time that is told here.

    Attributes:
        now_s: monotonic time in seconds.
        changes: how the tables have changed.
    """

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.changes = TableChanges(3, 1)
        self.age = TablesAge(60, lambda: self.now_s)
        self.age.taken(self.changes)

    def are_refreshed_after(self, seconds: float) -> bool:
        self.now_s += seconds
        plan = self.age.plan(self.changes)
        assert plan is None or plan.next is Next.REFRESH
        return plan is not None


@pytest.mark.parametrize("changes", [TableChanges(4, 1), TableChanges(3, 2)])
def test_tables_of_which_rows_have_come_or_gone_are_refreshed_when_it_is_due(changes: TableChanges) -> None:
    tables = Tables()
    assert not tables.are_refreshed_after(3600), "they are as they were"
    tables.age.taken(tables.changes)
    tables.changes = changes
    assert not tables.are_refreshed_after(59)
    assert tables.are_refreshed_after(1)
    tables.age.taken(tables.changes)
    assert not tables.are_refreshed_after(3600)


def test_what_changed_while_a_query_ran_is_refreshed_at_once_when_the_last_refresh_is_long_ago() -> None:
    tables = Tables()
    tables.now_s += 3600
    tables.changes = TableChanges(9, 9)
    assert tables.are_refreshed_after(0)

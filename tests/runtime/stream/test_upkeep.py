"""What looks after a stream when its topology says nothing: tables that are joined are refreshed, and that is all."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from unittest.mock import sentinel

import pytest

from runtime.stores.global_table import TableChanges
from runtime.stream.freshness import Freshness
from runtime.stream.plan import Next
from runtime.stream.upkeep import Care, Upkeep
from tests.drivers.stream_threads import VISITS, NoTables

WORK: Any = sentinel.work


class Changing(NoTables):
    """Tables whose rows come and go as a test says."""

    def __init__(self) -> None:
        self.told = TableChanges(5, 0)

    def changes(self, topics: Collection[str] | None = None) -> TableChanges:  # noqa: ARG002  # by name
        return self.told


@pytest.mark.parametrize("changed", [TableChanges(6, 0), TableChanges(5, 1)])
def test_a_store_that_joins_tables_gets_newer_ones_and_one_that_joins_none_goes_on(changed: TableChanges) -> None:
    tables = Changing()
    upkeep = Upkeep(Care(VISITS.stores[0], tables, Freshness(), refresh_s=0.0))
    upkeep.snapshot(WORK, "tables-x", events=0, at_once=False)
    joined: dict[str, Any] = {"towns": sentinel.towns}
    assert upkeep.plan(WORK, joined, events=100) is None, "they are as they were"
    tables.told = changed
    plan = upkeep.plan(WORK, joined, events=100)
    assert plan is not None
    assert plan.next is Next.REFRESH
    assert upkeep.plan(WORK, {}, events=100) is None
    upkeep.snapshot(WORK, "tables-y", events=100, at_once=False)
    assert upkeep.plan(WORK, joined, events=200) is None


def test_nothing_else_is_asked_for() -> None:
    upkeep = Upkeep(Care(VISITS.stores[0], Changing(), Freshness(), refresh_s=0.0))
    with upkeep.look_ahead(sentinel.kafka, {}):
        assert upkeep.why_begin(sentinel.generations, sentinel.generation) is None
    assert upkeep.narrow(sentinel.events) is sentinel.events
    upkeep.begun(WORK, anew=True, goes_on=False)
    upkeep.catching_up(WORK, {})
    upkeep.caught_up(WORK, dict)
    upkeep.generation_took(5.0)
    upkeep.committed()
    assert upkeep.plan(WORK, {}, events=0) is None

"""What looks after a stream when its topology says nothing: tables that are joined are refreshed, and that is all."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import sentinel

import pytest

from runtime.stores.global_table import TableChanges
from runtime.stream.freshness import Freshness
from runtime.stream.plan import Next
from runtime.stream.upkeep import Care, Upkeep
from tests.drivers.stream_threads import VISITS, NoTables


def work_of(*, keys_only: bool = False) -> Any:
    """Return what a hook is told of the generation."""
    return SimpleNamespace(topology=VISITS, store=replace(VISITS.stores[0], keys_only=keys_only))


class Changing(NoTables):
    """Tables that change as a test says."""

    def __init__(self) -> None:
        self.told = TableChanges(5, 0)
        self.revised = 7

    def changes(self, topics: Collection[str] | None = None) -> TableChanges:
        assert topics == [table.topic for table in VISITS.joined(VISITS.stores[0]).values()]
        return self.told

    def revision(self, topic: str) -> int:
        assert topic in {table.topic for table in VISITS.tables}
        return self.revised


@pytest.mark.parametrize("changed", [TableChanges(6, 0), TableChanges(5, 1)])
def test_a_store_that_is_given_keys_gets_newer_ones_when_rows_come_and_go(changed: TableChanges) -> None:
    tables, work = Changing(), work_of(keys_only=True)
    upkeep = Upkeep(Care(work.store, tables, Freshness(), refresh_s=0.0))
    upkeep.snapshot(work, "tables-x", events=0, at_once=False)
    joined: dict[str, Any] = {"towns": sentinel.towns}
    tables.revised += 1
    assert upkeep.plan(work, joined, events=100) is None, "the keys are as they were"
    tables.told = changed
    plan = upkeep.plan(work, joined, events=100)
    assert plan is not None
    assert plan.next is Next.REFRESH
    assert upkeep.plan(work, {}, events=100) is None
    upkeep.snapshot(work, "tables-y", events=100, at_once=False)
    assert upkeep.plan(work, joined, events=200) is None


def test_a_store_that_joins_tables_gets_newer_ones_when_any_row_changes_and_one_that_joins_none_goes_on() -> None:
    tables, work = Changing(), work_of()
    upkeep = Upkeep(Care(work.store, tables, Freshness(), refresh_s=0.0))
    upkeep.snapshot(work, "tables-x", events=0, at_once=False)
    joined: dict[str, Any] = {"towns": sentinel.towns}
    assert upkeep.plan(work, joined, events=100) is None, "they are as they were"
    tables.revised += 1
    plan = upkeep.plan(work, joined, events=100)
    assert plan is not None
    assert plan.next is Next.REFRESH
    assert upkeep.plan(work, {}, events=100) is None


def test_nothing_else_is_asked_for() -> None:
    upkeep = Upkeep(Care(VISITS.stores[0], Changing(), Freshness(), refresh_s=0.0))
    with upkeep.look_ahead(sentinel.kafka, {}):
        assert upkeep.why_begin(sentinel.generations, sentinel.generation) is None
    assert upkeep.narrow(sentinel.events) is sentinel.events
    upkeep.begun(work_of(), anew=True, goes_on=False)
    upkeep.catching_up(work_of(), {})
    upkeep.caught_up(work_of(), dict)
    upkeep.generation_took(5.0)
    upkeep.committed()
    assert upkeep.plan(work_of(), {}, events=0) is None

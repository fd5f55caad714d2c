"""When a turn ends: in real time after a commit, at a pace as soon as something else has to come."""

from __future__ import annotations

from typing import Any, cast

import pytest

from runtime import REAL_TIME
from runtime.spark.query import BatchReport
from runtime.stream.freshness import Freshness
from runtime.stream.plan import Next, Plan
from runtime.stream.snapshot import Snapshot
from runtime.stream.turn import Turn
from runtime.stream.work import Work
from tests.drivers.word_topologies import word_count, word_count_each_second

REFRESH, NEW = Plan(Next.REFRESH, "rows have come"), Snapshot({}, "new")


def report(batch: int, behind: int = 0) -> BatchReport:
    return BatchReport(batch, 1, 1, 0, behind, {0: batch}, {0: batch + 1}, 0.1)


class Query:
    """A query that has committed a batch at each look, once so many looks have found nothing."""

    def __init__(self, idle: int, behind: int) -> None:
        self.looks, self.stopped = 0, False
        self._idle, self._behind = idle, behind

    def ended(self) -> bool:
        self.looks += 1
        return self.looks > 9

    def reports(self) -> list[BatchReport]:
        return [report(self.looks, self._behind * self.looks)] if self.looks > self._idle else []

    def stop(self) -> None:
        self.stopped = True


class World:
    """A stream whose tables are old from the first look on, and its generation; what nobody asks for does nothing."""

    def __init__(self, pace: str, plan: Plan | None, *, idle: int = 3, behind: int = 0) -> None:
        self.topology = word_count("turn") if pace == REAL_TIME else word_count_each_second("turn")
        self.query = Query(idle, behind)
        self.started = ""
        self.counted: list[int] = []
        self._plan = plan
        self.freshness = Freshness()
        self.topics = self.generations = self.generation = cast("Any", _Nothing())
        self.upkeep: Any = _Noting()

    def real_time(self, results: object, _: int) -> Query:
        self.started = f"real time, {results}"
        return self.query

    def at_pace(self, _: object, __: object, every_s: int) -> Query:
        self.started = f"every {every_s} s"
        return self.query

    def check_stop(self) -> None: ...

    def write_letters(self, _: object) -> None: ...
    def tell_stream_time(self, _: object) -> None: ...

    def count(self, _: object, found: BatchReport) -> None:
        self.counted.append(found.batch)

    def plan(self, *_: object) -> Plan | None:
        return self._plan

    def snapshot(self, _: object) -> Snapshot:
        return NEW

    def run(self) -> tuple[Plan, Snapshot | None]:
        # At a pace nothing is planned ahead.
        old = Snapshot({}, "old", None if self.topology.every_s else cast("Any", "planned"))
        return Turn(cast("Any", self), cast("Work", self), cast("Any", _Nothing()), old, 60).run()


class _Noting:
    """Notes which hooks are called."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.told.append(name)


class _Nothing:
    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def test_real_time_ends_after_the_commit_that_comes_next() -> None:
    world = World(REAL_TIME, REFRESH)
    assert world.run() == (REFRESH, NEW)
    assert (world.started, world.query.looks, world.counted) == ("real time, planned", 4, [4])
    assert world.upkeep.told == ["query_started", "committed"]
    assert world.query.stopped


def test_a_pace_ends_at_once_since_its_next_batch_may_not_come() -> None:
    world = World("1 second", REFRESH)
    assert world.run() == (REFRESH, NEW)
    assert (world.started, world.query.looks, world.counted) == ("every 1 s", 1, [])
    assert world.query.stopped


def test_only_real_time_gives_way_to_bulk() -> None:
    behind = World(REAL_TIME, None, behind=200_000)
    assert behind.run() == (Plan(Next.CATCH_UP, "800,000 events behind"), None)
    paced = World("1 second", None, behind=200_000)
    with pytest.raises(Exception, match="the query ended by itself"):
        paced.run()
    assert paced.counted == [4, 5, 6, 7, 8, 9]

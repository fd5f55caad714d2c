"""What boards of periods need while their stream runs, beside what those of all time do: those that pass have to go.

A period that has passed leaves the state by a new generation, which goes on where the last one has committed and begins
without it. Until then its events are left out by the query.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime.kafka.connection import KafkaConnection
from runtime.kafka.ids import TopicDescription
from runtime.stream.plan import Next, Plan
from runtime.stream.tables import in_memory
from runtime.stream.upkeep import Care
from runtime.stream.work import Work
from topology.leaderboard.first_look import EVERYWHERE, FirstLook
from topology.leaderboard.period_query import by_product, narrowed
from topology.leaderboard.periods import ALL, Periods, by_period, date_of, is_kept
from topology.leaderboard.upkeep import LeaderboardUpkeep

_KEPT_FROM: Final = "kept-from"
"""In a generation's directory: the oldest period of each name that its state has, as JSON."""
_AFTER_MS: Final = 3_600_000
"""So long after a period has passed its board leaves the state: the first minutes of a day have enough to do."""


class PeriodUpkeep(LeaderboardUpkeep):
    """Looks after floors by product and period, after tables, and after periods that pass; all time is one of them.

    Args:
        care: what it looks at.
        periods: which periods have boards.
    """

    def __init__(self, care: Care, periods: Periods) -> None:
        super().__init__(care)
        self._periods = periods
        self._kept_from: dict[str, str] = {}
        self._seeded_from: dict[str, str] | None = None

    def first_look(self, kafka: KafkaConnection, topics: Mapping[str, TopicDescription]) -> FirstLook:
        """Return what looks at events of all days."""
        return FirstLook(kafka, topics, [store.topic for store in self.care.store.made], EVERYWHERE)

    def keyed(self, events: pa.Table) -> pa.Table:
        """Return events once for each of their periods that are kept, with `period`."""
        return by_period(events, self._cutoffs())

    def seed(self, work: Work, published: DataFrame, *, tables_are_new: bool, goes_on: bool) -> DataFrame:
        """Return the boards so far of periods that are kept."""
        self._seeded_from = self._periods.cutoffs()
        kept = published.where(is_kept(F.col("period"), {ALL: ALL, **self._seeded_from}))
        return super().seed(work, kept, tables_are_new=tables_are_new, goes_on=goes_on)

    def begun(self, work: Work, *, anew: bool, goes_on: bool) -> None:
        """Note which generation is worked on, and what its state has."""
        super().begun(work, anew=anew, goes_on=goes_on)
        seeded_from, self._seeded_from = self._seeded_from, None
        directory, name = work.generations.directory, f"{work.generation.name}/{_KEPT_FROM}"
        if anew:
            self._kept_from = seeded_from or self._periods.cutoffs()
            directory.write_text(name, json.dumps(self._kept_from))
        else:
            # Without it, a process ended between: then the boards that it began with are not known.
            self._kept_from = kept_from_of(directory.read_text(name))

    def above_floors(self, events: DataFrame, floors: DataFrame | None) -> DataFrame:
        """Return the events that may change a board of a period that is kept, with these periods."""
        cutoffs, today = self._cutoffs(), date_of(self._periods.now_ms())
        if floors is None:
            return narrowed(events, cutoffs, today, None)
        # Now, and not by the query: new events wait for that to begin.
        listed = in_memory(events.sparkSession, by_product(floors, cutoffs, today).coalesce(1).toArrow())
        return narrowed(events, cutoffs, today, listed)

    def plan(self, work: Work, joined: Mapping[str, DataFrame], events: int) -> Plan | None:
        """Have periods that have passed leave the state; else as for all boards."""
        now = self._periods.cutoffs(_AFTER_MS)
        if begun := sorted(first for name, first in now.items() if first > self._kept_from.get(name, "")):
            reason = f"boards of periods before {', '.join(begun)} have passed"
            return Plan(Next.NEW_GENERATION, reason, at_commit=True)
        return super().plan(work, joined, events)

    def _cutoffs(self) -> dict[str, str]:
        """Return the oldest period that counts, by name; of all time that itself."""
        return {ALL: ALL, **self._periods.cutoffs()}


def kept_from_of(text: str | None) -> dict[str, str]:
    """Return what a file of a generation says; nothing where it is not there or damaged."""
    try:
        kept = json.loads(text or "{}")
    except ValueError:
        return {}
    return {name: str(first) for name, first in kept.items()} if isinstance(kept, dict) else {}

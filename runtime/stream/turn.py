"""One turn: from the start of a query, in real time or at a pace, to what makes it end.

Real time commits at the end of a batch only, so a planned restart waits for a commit and comes right after it; one that
falls behind does not wait. At a pace nothing waits for a batch, which may not come before there are events, and nothing
falls behind that micro-batches without a pause would catch up with.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Final, Protocol

from pyspark.sql import DataFrame

from runtime.errors import BrokerUnavailable, QueryFailed
from runtime.spark.query import BatchReport, running
from runtime.stream.freshness import Followed
from runtime.stream.generations import Driver
from runtime.stream.plan import Lateness, Next, Plan
from runtime.stream.snapshot import Snapshot
from runtime.stream.status import StreamStatus
from runtime.stream.upkeep import Upkeep
from runtime.stream.watched_topics import WatchedTopics
from runtime.stream.work import Work

logger = logging.getLogger(__name__)

_BEHIND_LIMIT_EVENTS: Final = 100_000
"""Real time that ends a batch this far behind, and further than at the batch before, does not keep up."""

LOOK_AROUND_EVERY_S: Final = 5.0


class Turning(Protocol):
    """What a turn asks of the stream whose turn it is: `runtime.stream.store_stream.StoreStream`, which makes turns."""

    freshness: Followed
    upkeep: Upkeep
    topics: WatchedTopics

    @property
    def status(self) -> StreamStatus:
        """What it is doing."""

    def check_stop(self) -> None:
        """Leave the work at hand when a stop is asked for."""

    def count(self, work: Work, report: BatchReport) -> None:
        """Take the counts of a finished batch."""

    def plan(self, work: Work, joined: Mapping[str, DataFrame]) -> Plan | None:
        """Return what has to come at the next commit, None when the query may go on as it is."""

    def snapshot(self, work: Work) -> Snapshot:
        """Write what the next query joins, as it is now."""

    def write_letters(self, work: Work) -> None:
        """Write the dead letters of the batches that have ended."""

    def tell_stream_time(self, work: Work) -> None:
        """Tell the copies how far the events have come, where the store has windows."""


class Turn:
    """One turn.

    Args:
        stream: whose turn it is.
        work: the generation.
        driver: who runs its queries.
        snapshot: what the query joins.
        interval_s: the length of a batch in real time, in seconds.
    """

    def __init__(self, stream: Turning, work: Work, driver: Driver, snapshot: Snapshot, interval_s: int) -> None:
        self._stream = stream
        self._work = work
        self._driver = driver
        self._snapshot = snapshot
        self._interval_s = interval_s
        self._every_s = work.topology.every_s
        self._newer: Snapshot | None = None
        self._plan: Plan | None = None
        self._behind = 0
        self._lateness = Lateness(stream.freshness.delays_s)
        self._look_around_at_s = 0.0

    def run(self) -> tuple[Plan, Snapshot | None]:
        """Run until something else has to come; return what, and a newer snapshot."""
        stream, work = self._stream, self._work
        self._driver.claim(work.generations, work.generation)
        query = self._snapshot.start(work, stream.upkeep, self._interval_s)
        with running(query):
            stream.upkeep.query_started()
            work.generations.delete_other_tables(work.generation, self._snapshot.name)
            while not query.ended():
                stream.check_stop()
                stream.topics.look()
                # Before what takes long: a query that fails meanwhile is not taken for one to end after a commit.
                for report in query.reports():
                    self._committed(report)
                    if self._plan is not None:
                        return self._plan, self._newer
                if self._plan is None:
                    self._make_plan()
                if self._plan is not None and self._every_s is not None:
                    return self._plan, self._newer
                stream.write_letters(work)
                stream.tell_stream_time(work)
                if (gives_way := self._look_around()) is not None:
                    return gives_way, None
        raise QueryFailed("the query ended by itself")

    def _committed(self, report: BatchReport) -> None:
        self._stream.count(self._work, report)
        self._stream.upkeep.committed()
        if self._every_s is None and report.behind > max(_BEHIND_LIMIT_EVENTS, self._behind):
            self._plan = self._plan or Plan(Next.CATCH_UP, f"{report.behind:,} events behind")
        self._behind = report.behind

    def _make_plan(self) -> None:
        self._plan = self._stream.plan(self._work, self._snapshot.joined)
        if self._plan is not None and self._plan.next is Next.REFRESH:
            self._newer = self._stream.snapshot(self._work)

    def _look_around(self) -> Plan | None:
        """Return a plan when real time does not keep up: at once and not at a commit, which may be a minute away.

        What has come since the last commit is then read again, in bulk.

        Raises:
            Superseded: another driver works on the checkpoint.
        """
        if time.monotonic() < self._look_around_at_s:
            return None
        self._look_around_at_s = time.monotonic() + LOOK_AROUND_EVERY_S
        self._driver.check(self._work.generations)
        if self._every_s is not None or not self._lateness.grows(self._stream.freshness.delays_s):
            return None
        try:
            uncommitted = self._stream.topics.events_after(self._stream.status.positions)
        except BrokerUnavailable as error:
            logger.info("events could not be counted: %s", error)
            return None
        if uncommitted <= _BEHIND_LIMIT_EVENTS:
            return None
        late_s = self._lateness.mean_s
        return Plan(Next.CATCH_UP, f"results are {late_s:.0f} s late and get later, {uncommitted:,} events wait")

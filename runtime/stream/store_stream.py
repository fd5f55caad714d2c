"""The stream of one store: its states, catching up, and what comes after a failure.

A start always catches up first: micro-batches, as fast as the cores go. Then the same checkpoint goes on in real time,
or at the topology's pace.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Final, Never

from pyspark.sql import DataFrame

from runtime.errors import DeclarationError, GenerationOutdated, LeaderboardError, QueryFailed, Superseded
from runtime.kafka.inspected import Judged
from runtime.kafka.unreadable import may_be_of_a_record
from runtime.spark.query import BatchReport, running
from runtime.spark.session import translated
from runtime.stream.choice import Choice
from runtime.stream.dead_letters import DeadLetters
from runtime.stream.failures import Failures
from runtime.stream.generations import BOUND_AFTER, LATE_ROWS, NEWEST_EVENT, Driver
from runtime.stream.pass_over import PassOver
from runtime.stream.plan import Next, Plan
from runtime.stream.settings import StreamSettings
from runtime.stream.snapshot import Snapshot, take_snapshot
from runtime.stream.spark_holder import SparkHolder
from runtime.stream.status import NEXT_STATES, IllegalTransition, StreamState, StreamStatus
from runtime.stream.stopping import Stopped
from runtime.stream.stream_time import StreamTime
from runtime.stream.turn import LOOK_AROUND_EVERY_S, Turn
from runtime.stream.upkeep import Care, Upkeep
from runtime.stream.warm_up import WarmUp
from runtime.stream.watched_topics import WatchedTopics
from runtime.stream.work import Work
from runtime.windows import Session, Windows

logger = logging.getLogger(__name__)

_SHORT_BACKLOG_EVENTS: Final = 100_000
"""Those of a batch in real time, which whoever had the stream before has published and not committed."""


class StoreStream:
    """Keeps the results of one store up to date until a stop; failures restart it with back-off.

    Args:
        settings: how the topology runs.
        care: the store, and what its stream looks at.
        upkeep: looks after it.
        spark: the session.
        stop: set when everything should end.
        letters: writes dead letters, at one of the stores.

    Attributes:
        superseded: whether another driver works on the checkpoint; it does nothing more.
        refused: why the store cannot run as it is declared, when it cannot; it does nothing more.
    """

    def __init__(
        self,
        settings: StreamSettings,
        care: Care,
        upkeep: Upkeep,
        spark: SparkHolder,
        stop: threading.Event,
        letters: DeadLetters | None,
    ) -> None:
        self.superseded = False
        self.refused: DeclarationError | None = None
        self._settings = settings
        self._topology = settings.topology
        self._care = care
        self._store = care.store
        self._tables = care.tables
        self.freshness = care.freshness
        self.upkeep = upkeep
        self._spark = spark
        self._stop = stop
        self._letters = letters
        self._letters_are_due = False
        self._status = StreamStatus()
        self._failures = Failures()
        self._newest_looked_up = 0
        self._stream_time = StreamTime(settings.spark.kafka, care.store)
        self._newest_ms: int | None = None
        self._is_noted = False
        self.topics = WatchedTopics(
            settings.spark.kafka, settings.topology, care.store, stop, self.check_stop, self.wait_for
        )
        # Of this grant of the stream, also across failures: one that was superseded must not come back by itself.
        self._driver = Driver()
        self._choice = Choice(
            settings, care, upkeep, spark, self.topics, self._failures, self._driver, self.check_stop, self.wait_for
        )

    def warm_up(self, left: threading.Event) -> WarmUp:
        """Return what has this stream gone through once before it begins.

        Args:
            left: set when it begins, or everything should end.
        """
        return WarmUp(self._settings, self._care, self._choice, left)

    @property
    def name(self) -> str:
        """The name of its query."""
        return self._store.query_name

    @property
    def status(self) -> StreamStatus:
        """What it is doing."""
        return self._status

    def run(self) -> None:
        """Run until a stop is asked for."""
        try:
            while not self._stop.is_set():
                self._try()
        finally:
            self.to(StreamState.STOPPING)

    def to(self, state: StreamState, **changes: Any) -> None:
        """Go to a state; with changes of the status that come with it."""
        if state not in NEXT_STATES[self._status.state]:
            raise IllegalTransition(f"{self._status.state} ▸ {state}")
        of_store = "" if len(self._topology.queries) == 1 else f" of {self.name}"
        logger.info("stream%s: %s ▸ %s", of_store, self._status.state.value, state.value)
        self._update(state=state, **changes)
        self.wait_for(None)

    def wait_for(self, what: str | None) -> None:
        """Say what has to come before the stream goes on; None: nothing has to."""
        if what != self._status.waits_for:
            self._update(waits_for=what, waits_since_s=None if what is None else time.time())

    # Failures

    def _try(self) -> None:
        started_s = time.monotonic()
        try:
            self._stream()
        except Stopped:
            return
        except Superseded as error:
            # Whoever has the task now is told by the group; until this one is, it leaves the checkpoint alone.
            logger.error("the stream stopped: %s", error)
            self.superseded = True
            self.to(StreamState.ERROR, error=str(error))
            self._stop.wait()
        except DeclarationError as error:
            # No other try finds otherwise: whoever runs it has to end.
            logger.error("the stream stopped: %s", error)
            self.refused = error
            self.to(StreamState.ERROR, error=str(error))
            self._stop.wait()
        except LeaderboardError as error:
            self._failed(error, str(error), time.monotonic() - started_s)
        except Exception as error:
            logger.exception("the stream thread failed in a way that nobody foresaw")
            self._failed(error, repr(error), time.monotonic() - started_s)
        except asyncio.CancelledError as error:
            # aiokafka lets the cancellation of its own tasks out.
            self._failed(RuntimeError(error), "a Kafka client was interrupted", time.monotonic() - started_s)

    def _failed(self, error: Exception, reason: str, ran_s: float) -> None:
        """Say what has failed, and wait until it is time for the next try."""
        if self._stop.is_set():
            return
        logger.error("the stream stopped and will start again: %s", reason)
        self.to(StreamState.ERROR, error=reason)
        counts, name = self._status.failures, type(error).__name__
        self._update(failures={**counts, name: counts.get(name, 0) + 1}, failed_at_s=time.time())
        self._failures.add(error, ran_s=ran_s, session_lives=self._spark.lives)
        self._update(keeps_failing=self._failures.keep)
        self._spark.fails(self.name, ask_for_new_session=self._failures.ask_for_new_session)
        self._stop.wait(self._failures.backoff_s)

    # From a start to a stop

    def _stream(self) -> Never:
        """Run until a stop is asked for or something fails."""
        self.to(StreamState.STARTING, error=None)
        plan: Plan | None = None
        while True:
            work = self._choice.take(plan)
            self._update(generation=work.generation.number)
            self._begin_with_notes(work)
            plan = self._run_generation(work, planned=plan is not None)
            self.to(StreamState.STARTING)

    def _begin_with_notes(self, work: Work) -> None:
        """Take what is noted of event time beside the checkpoint, where a store has any."""
        store, generations, of = self._store, work.generations, work.generation.name
        self._newest_ms = work.generation.stream_ms
        if store.final:
            # Nobody else can tell, later, which rows lack a record: verification asks how many may.
            self._update(late=max(self._status.late, generations.noted(LATE_ROWS) or 0))
            self._note_newest(generations.noted(f"{of}/{NEWEST_EVENT}"))
        if store.window is not None:
            self._stream_time.begin(generations.noted(f"{of}/{BOUND_AFTER}"))
            self._is_noted = False

    def _note_newest(self, newest_ms: int | None) -> None:
        self._newest_ms = max(newest_ms or 0, self._newest_ms or 0) or None

    def _run_generation(self, work: Work, *, planned: bool) -> Plan:
        """Catch up and go on from there, until another generation has to begin; return why.

        Args:
            work: what to work on.
            planned: whether it was begun on a plan.
        """
        snapshot: Snapshot | None = None
        gave_way = False
        while True:
            self.check_stop()
            if snapshot is None:
                if gave_way:
                    self._choice.check_kept(work)
                began_s = time.monotonic()
                snapshot = self._caught_up(work, gave_way=gave_way)
                if planned:
                    self.upkeep.generation_took(time.monotonic() - began_s)
                    planned = False
            self.to(StreamState.RUNNING)
            try:
                plan, newer = Turn(self, work, self._driver, snapshot, self._settings.checkpoint_interval_s).run()
            except QueryFailed as error:
                self._pass_over(work, error)
                plan, newer = Plan(Next.CATCH_UP, "records that could not be read are behind"), None
            logger.info("%s: %s", plan.next.value, plan.reason)
            self.to(StreamState.REFRESHING)
            if plan.next is Next.NEW_GENERATION:
                return plan
            gave_way = plan.next is Next.CATCH_UP
            snapshot = None if gave_way else newer or snapshot

    def _caught_up(self, work: Work, *, gave_way: bool) -> Snapshot:
        """Work off what waits in the source; return what the next query joins after that.

        Args:
            work: the generation.
            gave_way: whether a query did not keep up: with what that one joined, the next one may not either.
        """
        self.to(StreamState.CATCHING_UP)
        self.wait_for("Spark's first batch")
        while True:
            try:
                return self._short_of(work) if self._is_short(work) else self._long_of(work, gave_way)
            except QueryFailed as error:
                self._pass_over(work, error)

    def _is_short(self, work: Work) -> bool:
        """Return whether so little waits that what real time joins hardly changes by it."""
        done = work.log.done()
        return self.topics.events_after({} if done is None else done.ends) <= _SHORT_BACKLOG_EVENTS

    def _long_of(self, work: Work, gave_way: bool) -> Snapshot:
        self._catch_up(work)
        return self.snapshot(work, at_once=not gave_way)

    def _short_of(self, work: Work) -> Snapshot:
        """Take the snapshot beside the query: new events wait for both."""
        taken: list[Future[Snapshot]] = []
        with ThreadPoolExecutor(1, "snapshot") as beside:
            self._catch_up(work, lambda: taken.append(beside.submit(self.snapshot, work, at_once=True)))
            return taken[0].result()

    def _pass_over(self, work: Work, error: QueryFailed) -> None:
        """Leave the records behind that a query failed on since they cannot be read.

        Raises:
            QueryFailed: what it was, when there are none.
        """
        if not work.spark.alive or not may_be_of_a_record(str(error)):
            raise error
        # It writes to the log of the checkpoint.
        self._driver.claim(work.generations, work.generation)

        def note(passed: list[Judged]) -> None:
            if self._letters is not None:
                self._letters.note(passed)
                self._letters_are_due = True
                self.write_letters(work)

        joined = work.tables_in_memory()
        with translated():
            self.upkeep.catching_up(work, joined)
        count = partial(self.count, work)
        passing = PassOver(work, joined, self.upkeep.narrow, self.check_stop, count, note)
        if not passing.pass_over(self.topics.events()):
            raise error

    def _catch_up(self, work: Work, started: Callable[[], None] = lambda: None) -> None:
        """Work off what waits in the source.

        Args:
            work: the generation.
            started: called once the query has started: until then its floors and tables are being taken.
        """
        began_s, done = time.monotonic(), 0
        looked_around_s = began_s
        joined = work.tables_in_memory()
        with translated():
            self.upkeep.catching_up(work, joined)
            self._driver.claim(work.generations, work.generation)
        self._choice.checked()
        with running(work.catch_up(joined, self.upkeep.narrow)) as query:
            started()
            while not query.ended():
                self.check_stop()
                self.topics.look()
                if time.monotonic() - looked_around_s > LOOK_AROUND_EVERY_S:
                    looked_around_s = time.monotonic()
                    self._driver.check(work.generations)
                for report in query.reports():
                    self.count(work, report)
                    done += report.rows
                    rate = done / (time.monotonic() - began_s)
                    of = done + report.behind
                    logger.info("catching up: %s of %s events, %s/s", f"{done:,}", f"{of:,}", f"{rate:,.0f}")
            for report in query.reports():
                self.count(work, report)
                done += report.rows
        logger.info("caught up: %s events in %.1f s", f"{done:,}", time.monotonic() - began_s)
        self.upkeep.caught_up(work, lambda: self.topics.events().begin)
        work.generations.pass_seed(work.generation)
        self._end_sessions(work, joined)
        if self._store.version > 1:
            with self._spark.beside:
                self._driver.check(work.generations)
                work.delete_earlier_versions()

    def _end_sessions(self, work: Work, joined: Mapping[str, DataFrame]) -> None:
        """Have the sessions written that have ended by what was read: Spark itself would wait for another event."""
        if not work.plan_end_of_sessions(self._newest_ms):
            return
        with running(work.planned_batch(joined, self.upkeep.narrow)) as query:
            while not query.ended():
                self.check_stop()
            for report in query.reports():
                self.count(work, report)

    def snapshot(self, work: Work, *, at_once: bool = False) -> Snapshot:
        """Write what the query of a turn joins, as it is now.

        Args:
            work: the generation.
            at_once: whether new events wait for it; see `Upkeep.snapshot`.
        """
        self.check_stop()
        with self._spark.beside:
            return take_snapshot(work, self.upkeep, self._status.events, at_once=at_once)

    # What a turn asks for

    def plan(self, work: Work, joined: Mapping[str, DataFrame]) -> Plan | None:
        """Return what has to come at the next commit, None when the query may go on as it is.

        Raises:
            GenerationOutdated: stores ignore what this generation publishes.
        """
        if not self._tables.caught_up():
            # Of tables that are being read anew, a part is there.
            return None
        newest = self.freshness.generation
        if newest > max(work.generation.number, self._newest_looked_up):
            # Of another cluster on the same Kafka, or of a driver that ended before its generation was begun; or those
            # that copies have read went with their topic.
            with self._spark.beside:
                work.look_for_newer()
            self._newest_looked_up = newest
        with self._spark.beside:
            return self.upkeep.plan(work, joined, self._status.events)

    def check_stop(self) -> None:
        """Leave the work at hand when a stop is asked for."""
        if self._stop.is_set():
            raise Stopped

    def count(self, work: Work, report: BatchReport) -> None:
        """Take the counts of a finished batch into the status, and what it has looked at for the dead letters."""
        if self._letters is not None:
            self._letters.note(report.judged(work.topic_ids))
            self._letters_are_due = True
        # One that waits for events may have been planned since.
        if report.was_run and (committed := work.log.ends_of(report.batch)) not in (None, report.positions):
            raise GenerationOutdated(
                f"batch {report.batch} ended at {report.positions}, the checkpoint says {committed}"
            )
        self._stream_time.note(report.watermark_ms)
        self._note_newest(report.newest_ms)
        if self._store.window is not None:
            self._note_times(work, self._store.window)
        self._failures.committed()
        self._spark.works(self.name)
        status = self._status
        self._update(
            events=status.events + report.events,
            invalid=status.invalid + report.invalid,
            late=status.late + report.late,
            state_rows=report.state_rows if work.spark.counts_state else None,
            behind=report.behind,
            positions=report.positions,
            batches_s=status.batches_s.plus(report.duration_s),
            batch_ended_at_s=time.time(),
            keeps_failing=False,
        )
        if report.late and self._store.final:
            work.generations.note(LATE_ROWS, self._status.late)
        self.wait_for(None)

    def _note_times(self, work: Work, window: Windows) -> None:
        """Note beside the checkpoint what another process could not tell."""
        of = work.generation.name
        if self._stream_time.is_of_now and not self._is_noted:
            work.generations.note(f"{of}/{BOUND_AFTER}", window.late_ms)
            self._is_noted = True
        if isinstance(window, Session) and self._newest_ms and self._status.state is StreamState.CATCHING_UP:
            # Of what is read of a backlog the sessions have yet to be ended.
            work.generations.note(f"{of}/{NEWEST_EVENT}", self._newest_ms)

    def tell_stream_time(self, work: Work) -> None:
        """Tell the copies how far the events have come, where the store has windows."""
        self._stream_time.tell(work.generation.origin.result_partitions)

    def write_letters(self, work: Work) -> None:
        """Write the dead letters of the batches that have ended, beside the running query."""
        if self._letters is None or not self._letters_are_due:
            return
        with self._spark.beside:
            self._letters.note(self._tables.judged())
            self._letters_are_due = self._letters.write(work.find_unusable)
        self._update(dead_letters=dict(self._letters.counts))

    def _update(self, **changes: Any) -> None:
        self._status = replace(self._status, **changes)

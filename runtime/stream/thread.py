"""The stream thread: runs the topology in the background, through its states.

A start always catches up first: micro-batches, as fast as the cores go. Then the same checkpoint goes on in real time.
Real time commits at the end of a batch only, so a planned restart waits for a commit and comes right after it; one that
falls behind does not wait.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Never

from runtime.errors import BrokerUnavailable, LeaderboardError, QueryFailed
from runtime.kafka.ids import TopicDescription
from runtime.spark.checkpoint import CheckpointDirectory
from runtime.spark.query import POLL_S, BatchReport, StreamQuery
from runtime.spark.session import SPARE_SLOTS, Spark, SparkSettings
from runtime.stream import generations
from runtime.stream.dead_letters import DeadLetters
from runtime.stream.failures import Failures
from runtime.stream.freshness import Freshness
from runtime.stream.generation_run import TABLES, GenerationRun, TableSource, table_rows
from runtime.stream.generations import Generation, Origin
from runtime.stream.plan import FloorsAge, Lateness, Next, Plan, Surveys
from runtime.stream.status import NEXT_STATES, IllegalTransition, StreamState, StreamStatus
from runtime.stream.watched_topics import WatchedTopics
from topology.leaderboard.first_look import FirstLook
from topology.leaderboard.query import Tables
from topology.leaderboard.topics import HIGH_SCORES, SCORE_EVENTS

logger = logging.getLogger(__name__)

_SHUFFLE_PARTITIONS: Final = 4
"""A checkpoint keeps the number that it began with: whoever changes it raises `leaderboard.TOPOLOGY_VERSION`."""

_BEHIND_LIMIT_EVENTS: Final = 100_000
"""Real time that ends a batch this far behind, and further than at the batch before, does not keep up."""

_LONG_BACKLOG_EVENTS: Final = 10_000_000
"""From about 8,000,000 on, on two cores, the second compiler of Spark's JVM saves more than it takes, another start of
Spark included."""

_LOOK_AT_DELAYS_EVERY_S: Final = 5.0

_STOP_WITHIN_S: Final = 4.0
_STOP_ALONE_WITHIN_S: Final = 1.0

_ONE_AT_A_TIME: Final = threading.Lock()
"""PySpark has one gateway for all of a process. A thread that is not waited for to its end, since its JVM was still
starting, ends before the next one begins."""


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """How the topology runs.

    Attributes:
        spark: how Spark runs.
        application_id: prefix of what the service keeps in Kafka.
        checkpoint_uri: a directory that every instance shares.
        depth: the most entries that are served of a board.
        checkpoint_interval_s: length of a real-time batch in seconds.
        tables_refresh_s: the least time between two snapshots of the tables in seconds.
    """

    spark: SparkSettings
    application_id: str
    checkpoint_uri: str
    depth: int = 10
    checkpoint_interval_s: int = 60
    tables_refresh_s: int = 60


class _Stopped(Exception):
    """Leaves the work at hand because a stop was asked for."""


class StreamThread:
    """Runs the topology until it is told to stop; failures restart it with back-off.

    Args:
        settings: how the topology runs.
        tables: the global tables of this instance.
        freshness: follows the boards of this instance.
    """

    def __init__(self, settings: StreamSettings, tables: TableSource, freshness: Freshness | None = None) -> None:
        self._settings = settings
        self._tables = tables
        self._freshness = freshness or Freshness()
        self._status = StreamStatus()
        self._stop = threading.Event()
        self._spark: Spark | None = None
        self._board_partitions = 0
        self._newest_snapshot = ""
        self._generation_at_snapshot = 0
        self._surveys = Surveys(settings.tables_refresh_s)
        self._look_at_delays_at = 0.0
        self._letters = DeadLetters(settings.spark.kafka, settings.application_id, self._stop.is_set)
        self._letters_are_due = False
        self._failures = Failures()
        self._topics = WatchedTopics(settings.spark.kafka, self._stop, self._check_stop)
        self._thread = threading.Thread(target=self._run, name="stream", daemon=True)

    @property
    def status(self) -> StreamStatus:
        """What the thread is doing."""
        return self._status

    def start(self) -> None:
        """Begin, in the background."""
        self._thread.start()

    def request_stop(self) -> None:
        """Ask the thread to stop; returns at once."""
        self._stop.set()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait until the thread has ended. What does not end in time loses its JVM, and then ends.

        Not waited for: a JVM that only starts, or Kafka. Such a thread ends by itself, and another begins after that.

        Args:
            timeout_s: by default 4 s with executors elsewhere. Without them 1 s: a job beside the query may take longer
                than that, ending the JVM loses nothing, and whoever takes over waits for this.
        """
        if self._thread.ident is None:
            return
        if timeout_s is None:
            timeout_s = _STOP_ALONE_WITHIN_S if self._settings.spark.is_alone else _STOP_WITHIN_S
        self._thread.join(timeout_s)
        if self._thread.is_alive() and (spark := self._spark) is not None:
            logger.info("the stream did not stop within %.0f s: ending its JVM", timeout_s)
            spark.kill()
            self._thread.join(max(timeout_s, _STOP_WITHIN_S))

    def join_all(self, timeout_s: float) -> None:
        """Wait also for what `join` does not wait for; a JVM that is left to start writes files until it ends.

        Args:
            timeout_s: at most so long.
        """
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        with _ONE_AT_A_TIME:
            self._run_alone()

    def _run_alone(self) -> None:
        try:
            while not self._stop.is_set():
                started_s = time.monotonic()
                try:
                    self._stream()
                except _Stopped:
                    break
                except LeaderboardError as error:
                    self._failed(error, str(error), time.monotonic() - started_s)
                except Exception as error:
                    logger.exception("the stream thread failed in a way that nobody foresaw")
                    self._failed(error, repr(error), time.monotonic() - started_s)
                except asyncio.CancelledError as error:
                    # aiokafka lets the cancellation of its own tasks out.
                    self._failed(RuntimeError(error), "a Kafka client was interrupted", time.monotonic() - started_s)
        finally:
            self._to(StreamState.STOPPING)
            self._close_spark()
            self._to(StreamState.STOPPED)

    def _failed(self, error: Exception, reason: str, ran_s: float) -> None:
        """Say what has failed, and wait until it is time for the next try."""
        if self._stop.is_set():
            return
        logger.error("the stream stopped and will start again: %s", reason)
        self._to(StreamState.ERROR, error=reason)
        self._count_failure(type(error).__name__)
        session_lives = self._spark is not None and self._spark.alive
        self._failures.add(error, ran_s=ran_s, session_lives=session_lives)
        self._update(keeps_failing=self._failures.keep)
        if not session_lives or self._failures.ask_for_new_session:
            self._close_spark()
        self._stop.wait(self._failures.backoff_s)

    def _stream(self) -> Never:
        """Run the topology until a stop is asked for or something fails."""
        self._to(StreamState.STARTING, error=None)
        plan: Plan | None = None
        while True:
            topics = self._topics.wait_for_all()
            with FirstLook(self._settings.spark.kafka, topics) as look:
                spark = self._open_spark(topics)
                self._await_tables(topics)
                self._check_stop()
                run = self._generation_run(spark, topics, plan, look)
            plan = self._run_generation(run, planned=plan is not None)
            self._to(StreamState.STARTING)

    def _run_generation(self, run: GenerationRun, *, planned: bool) -> Plan:
        """Catch up and go on in real time, until another generation has to begin; return why.

        Args:
            run: what to work on.
            planned: whether it was begun on a plan.
        """
        tables, catch_up = None, True
        while True:
            self._check_stop()
            if catch_up:
                self._to(StreamState.CATCHING_UP)
                began_s = time.monotonic()
                self._catch_up(run, tables)
                # Every board that has become full meanwhile has a floor now.
                tables = self._snapshot(run)
                if planned:
                    self._surveys.generation_took(time.monotonic() - began_s)
                    planned = False
            assert tables is not None, "the first turn catches up"
            self._to(StreamState.RUNNING)
            plan, newer = self._real_time(run, tables)
            logger.info("%s: %s", plan.next.value, plan.reason)
            self._to(StreamState.REFRESHING)
            if plan.next is Next.NEW_GENERATION:
                return plan
            tables = newer or tables
            catch_up = plan.next is Next.CATCH_UP

    def _open_spark(self, topics: Mapping[str, TopicDescription], *, both_compilers: bool = False) -> Spark:
        """Return the session, a new one when it is gone, has too few slots or would publish boards in other places.

        Args:
            topics: all of them.
            both_compilers: another one as well, unless it has both.
        """
        slots = topics[SCORE_EVENTS].partitions + _SHUFFLE_PARTITIONS + SPARE_SLOTS
        # Spark keeps its producers, and they what they know of a topic for minutes.
        places_are_others = self._board_partitions != topics[HIGH_SCORES].partitions
        if self._spark is not None and (
            not self._spark.alive
            or self._spark.slots < slots
            or places_are_others
            or (both_compilers and not self._spark.both_compilers)
        ):
            self._close_spark()
        self._board_partitions = topics[HIGH_SCORES].partitions
        if self._spark is None:
            started = time.monotonic()
            self._spark = Spark(self._settings.spark, slots, _SHUFFLE_PARTITIONS, both_compilers=both_compilers)
            logger.info("Spark started in %.1f s with %d slots", time.monotonic() - started, slots)
        return self._spark

    def _close_spark(self) -> None:
        if self._spark is not None:
            self._spark.close()
            self._spark = None

    def _await_tables(self, topics: Mapping[str, TopicDescription]) -> None:
        """Wait until this instance's copies of the tables are whole: a snapshot of less would hide scores.

        And of these very topics: of one that was created anew, what its copies hold is the old one until they notice.
        """
        while not (
            all(copy.topic_id == topics[copy.topic].topic_id for copy in self._tables.judged())
            and self._tables.caught_up()
        ):
            self._check_stop()
            self._topics.look()
            self._stop.wait(POLL_S)

    def _generation_run(
        self, spark: Spark, topics: Mapping[str, TopicDescription], plan: Plan | None, look: FirstLook
    ) -> GenerationRun:
        """Return the generation to work on; begin a new one when there is none that fits, or the plan asks for it."""
        directory = CheckpointDirectory(spark.session, self._settings.checkpoint_uri)
        topic_ids = {name: topic.topic_id for name, topic in topics.items()}
        origin = Origin(topic_ids, self._settings.depth, board_partitions=topics[HIGH_SCORES].partitions)
        generation = generations.current(directory)
        added = self._tables.changes().added
        reason = self._why_begin(directory, generation, origin, plan)
        if generation is None or reason is not None:
            logger.warning("a new generation begins: %s", reason)
            generation = self._begin(spark, directory, generation, origin)
            # Before its seed is published, which may fail: what came before was not this one's.
            self._failures.committed()
        generations.publish_seed(spark, directory, generation)
        generations.delete_older(directory, generation)
        if reason is not None:
            self._surveys.works_on_generation(added)
        elif generation.number != self._status.generation:
            self._surveys.works_on_generation(None)
        self._update(generation=generation.number)
        if reason is not None and not spark.both_compilers:
            waiting = self._topics.score_events_after({})
            if waiting >= _LONG_BACKLOG_EVENTS:
                logger.info("%s events wait: Spark starts again, with both compilers of its JVM", f"{waiting:,}")
                spark = self._open_spark(topics, both_compilers=True)
                directory = CheckpointDirectory(spark.session, self._settings.checkpoint_uri)
        # A query that goes on has read some of them when other players were known.
        newest = look.take() if reason is not None and not generation.seeded else None
        return GenerationRun(spark, directory, generation, self._tables, newest)

    def _why_begin(
        self, directory: CheckpointDirectory, generation: Generation | None, origin: Origin, plan: Plan | None
    ) -> str | None:
        """Return why a generation has to begin after this one, None when it can be worked on."""
        if generation is None:
            return "no checkpoint"
        if plan is not None:
            return plan.reason
        difference = generation.origin.difference(origin)
        if difference is None and self._failures.checkpoint_trouble is not None:
            return f"its checkpoint cannot be used: {self._failures.checkpoint_trouble}"
        if difference is None and generations.floors_are_unread(directory, generation):
            return "the last one ended in a backlog whose floors came from events that it had yet to read"
        return difference

    def _begin(
        self, spark: Spark, directory: CheckpointDirectory, last: Generation | None, origin: Origin
    ) -> Generation:
        """Begin a generation with the boards of the last one, or of whatever is published, as its seed."""
        if last is not None and last.origin.topic_ids[HIGH_SCORES] != origin.topic_ids[HIGH_SCORES]:
            self._topics.wait_for_boards()
        if not self._topics.boards_end():
            return generations.begin_first(directory, origin)
        tables_are_new = last is not None and last.origin.has_other_tables(origin)
        rows = table_rows(spark, self._tables)
        return generations.begin(spark, directory, origin, rows, tables_are_new=tables_are_new)

    def _snapshot(self, run: GenerationRun) -> Tables:
        """Write the tables and floors of now, and return them as a query in real time takes them."""
        self._check_stop()
        # Before the rows are read: a change in between is then seen as one that the snapshot lacks.
        self._surveys.snapshot_taken(self._tables.changes(), self._status.events)
        self._generation_at_snapshot = self._freshness.generation
        # Unique: an instance that was frozen may still read or write its own while another has taken over.
        self._newest_snapshot = f"{TABLES}{uuid.uuid4()}"
        return run.tables_on_disk(self._newest_snapshot)

    def _catch_up(self, run: GenerationRun, before: Tables | None) -> None:
        """Work off what waits in the source.

        Args:
            run: what is worked on.
            before: what a query in real time has joined before this, if one has.

        Raises:
            GenerationOutdated: events were deleted that the floors were taken from.
        """
        started, done = time.monotonic(), 0
        query = run.catch_up(None if before is None else before.floors)
        with _running(query):
            while not query.ended():
                self._check_stop()
                self._topics.look()
                for report in query.reports():
                    self._count(run, report)
                    done += report.rows
                    rate = done / (time.monotonic() - started)
                    of = done + report.behind
                    logger.info("catching up: %s of %s events, %s/s", f"{done:,}", f"{of:,}", f"{rate:,.0f}")
            for report in query.reports():
                self._count(run, report)
                done += report.rows
        logger.info("caught up: %s events in %.1f s", f"{done:,}", time.monotonic() - started)
        run.confirm_floors(self._topics.score_events_begin)

    def _real_time(self, run: GenerationRun, tables: Tables) -> tuple[Plan, Tables | None]:
        """Run in real time until a commit after which something else has to come; return what, and newer tables."""
        query = run.real_time(tables, self._settings.checkpoint_interval_s)
        run.delete_other_tables(self._newest_snapshot)
        plan, newer, behind = None, None, 0
        lateness = Lateness(self._freshness.delays_s)
        floors = FloorsAge(self._freshness)
        with _running(query):
            while not query.ended():
                self._check_stop()
                self._topics.look()
                # Before what takes long: a query that fails meanwhile is not taken for one to end after a commit.
                for report in query.reports():
                    self._count(run, report)
                    floors.committed()
                    if report.behind > max(_BEHIND_LIMIT_EVENTS, behind):
                        plan = plan or Plan(Next.CATCH_UP, f"{report.behind:,} events behind")
                    behind = report.behind
                    if plan is not None:
                        return plan, newer
                # Of tables that are being read anew, a part is there.
                if plan is None and self._tables.caught_up():
                    plan = self._plan(run, tables, floors)
                    if plan is not None and plan.next is Next.REFRESH:
                        newer = self._snapshot(run)
                if self._letters_are_due:
                    self._write_letters(run)
                if (gives_way := self._falls_behind(lateness)) is not None:
                    return gives_way, None
        raise QueryFailed("the query in real time ended by itself")

    def _falls_behind(self, lateness: Lateness) -> Plan | None:
        """Return a plan when real time does not keep up: at once and not at a commit, a batch may be a minute away.

        What has come since the last commit is then read again, in bulk.
        """
        if time.monotonic() < self._look_at_delays_at:
            return None
        self._look_at_delays_at = time.monotonic() + _LOOK_AT_DELAYS_EVERY_S
        if not lateness.grows(self._freshness.delays_s):
            return None
        try:
            uncommitted = self._topics.score_events_after(self._status.positions)
        except BrokerUnavailable as error:
            logger.info("score events could not be counted: %s", error)
            return None
        if uncommitted <= _BEHIND_LIMIT_EVENTS:
            return None
        return Plan(
            Next.CATCH_UP, f"boards are {lateness.mean_s:.0f} s late and get later, {uncommitted:,} events wait"
        )

    def _plan(self, run: GenerationRun, tables: Tables, floors: FloorsAge) -> Plan | None:
        """Return what has to come at the next commit, None when the query may go on as it is.

        Args:
            run: what is worked on.
            tables: what the query joins.
            floors: how old its floors are.
        """
        if (plan := self._survey(run, tables)) is not None:
            return plan
        newest = self._freshness.generation
        if newest > max(run.generation.number, self._generation_at_snapshot):
            # Another cluster's, on the same Kafka: boards of this one would change nothing any more.
            return Plan(Next.REFRESH, f"boards of generation {newest} are published")
        if floors.are_old():
            return Plan(Next.REFRESH, "most boards that are written change nothing")
        return None

    def _survey(self, run: GenerationRun, tables: Tables) -> Plan | None:
        """Compare the boards with the tables of now, beside the running query, when that is due."""
        changes, events = self._tables.changes(), self._status.events
        if not self._surveys.is_due(changes, events):
            return None
        self._surveys.begin(changes, events)
        return self._surveys.plan(run.survey(tables), changes)

    def _write_letters(self, run: GenerationRun) -> None:
        """Write the dead letters of the batches that have ended, beside the running query."""
        self._letters.note(self._tables.judged())
        self._letters_are_due = self._letters.write(run.find_unusable)
        self._update(dead_letters=dict(self._letters.counts))

    def _count(self, run: GenerationRun, report: BatchReport) -> None:
        """Take the counts of a finished batch into the status, and what it has looked at for the dead letters."""
        self._letters.note(report.judged(run.generation.origin.topic_ids[SCORE_EVENTS]))
        self._letters_are_due = True
        self._failures.committed()
        status = self._status
        self._update(
            events=status.events + report.events,
            invalid=status.invalid + report.invalid,
            behind=report.behind,
            positions=report.positions,
            batches_s=status.batches_s.plus(report.duration_s),
            batch_ended_at_s=time.time(),
            keeps_failing=False,
        )

    def _count_failure(self, name: str) -> None:
        counts = self._status.failures
        self._update(failures={**counts, name: counts.get(name, 0) + 1}, failed_at_s=time.time())

    def _check_stop(self) -> None:
        if self._stop.is_set():
            raise _Stopped

    def _to(self, state: StreamState, **changes: Any) -> None:
        if state not in NEXT_STATES[self._status.state]:
            raise IllegalTransition(f"{self._status.state} ▸ {state}")
        logger.info("stream: %s ▸ %s", self._status.state.value, state.value)
        self._update(state=state, **changes)

    def _update(self, **changes: Any) -> None:
        self._status = replace(self._status, **changes)


@contextmanager
def _running(query: StreamQuery) -> Iterator[None]:
    """Stop the query at the end, whatever the reason."""
    try:
        yield
    finally:
        # When it has failed or its JVM is gone, that is the error which counts.
        with suppress(QueryFailed):
            query.stop()

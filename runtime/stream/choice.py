"""The choice of a generation: the one to go on with, or a new one, with its seed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from aiokafka import TopicPartition
from pyspark.sql import DataFrame

from runtime.errors import CheckpointUnusable, GenerationOutdated, QueryFailed
from runtime.kafka.ids import TopicDescription
from runtime.spark.checkpoint import CheckpointDirectory
from runtime.spark.plan_check import check_declared
from runtime.spark.query import POLL_S, running
from runtime.spark.results import stream_ms_of
from runtime.spark.session import Spark, translated
from runtime.stream.failures import Failures
from runtime.stream.generations import Driver, Generation, Generations, Origin, delete_former
from runtime.stream.plan import Plan
from runtime.stream.settings import StreamSettings
from runtime.stream.spark_holder import SparkHolder
from runtime.stream.upkeep import Care, Upkeep
from runtime.stream.watched_topics import WatchedTopics
from runtime.stream.work import Work, newest_of, sources_of

logger = logging.getLogger(__name__)

_LONG_BACKLOG_EVENTS: Final = 10_000_000
"""From about 8,000,000 on, on two cores, the second compiler of Spark's JVM saves more than it takes, another start of
Spark included."""


class Choice:
    """Chooses what the stream of one store works on.

    Args:
        settings: how the topology runs.
        care: the store, and what its stream looks at.
        upkeep: looks after it.
        spark: the session.
        topics: those of the topology.
        failures: those of the stream.
        driver: who works on the checkpoint.
        check_stop: raises when everything should end.
        wait_for: told what is waited for.
    """

    def __init__(
        self,
        settings: StreamSettings,
        care: Care,
        upkeep: Upkeep,
        spark: SparkHolder,
        topics: WatchedTopics,
        failures: Failures,
        driver: Driver,
        check_stop: Callable[[], None],
        wait_for: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._topology = settings.topology
        self._store = care.store
        self._tables = care.tables
        self._upkeep = upkeep
        self._spark = spark
        self._topics = topics
        self._failures = failures
        self._driver = driver
        self._check_stop = check_stop
        self._wait_for = wait_for
        self._check: Future[None] | None = None
        self._begun = 0

    def take(self, plan: Plan | None) -> Work:
        """Return the generation to work on, once topics, tables and Spark are there.

        Args:
            plan: what asks for a new one, if anything does.

        Raises:
            DeclarationError: the rows of the store cannot run, where that is known by then; see `checked`.
        """
        self._wait_for("Kafka to describe the topics")
        topics = self._topics.wait_for_all()
        with self._upkeep.look_ahead(self._settings.spark.kafka, topics):
            self._wait_for("Spark's JVM to start")
            spark = self.open(topics)
            self._wait_for("the tables to be read to their ends here")
            self._await_tables(topics)
            self._check_stop()
            self._wait_for(f"the generation at {self._settings.checkpoint_uri}")
            return self._choose(spark, topics, plan)

    def open(self, topics: Mapping[str, TopicDescription]) -> Spark:
        """Return the session, and begin to look whether the declaration can run in it."""
        spark = self._open_spark(topics)
        self._begin_check(spark)
        return spark

    def _open_spark(self, topics: Mapping[str, TopicDescription], *, both_compilers: bool = False) -> Spark:
        return self._spark.open(
            self._partitions(topics),
            {store.topic: topics[store.topic].partitions for store in self._store.made},
            both_compilers=both_compilers,
        )

    def _partitions(self, topics: Mapping[str, TopicDescription]) -> int:
        """Return how many partitions the sources have, all together."""
        return sum(topics[source.topic].partitions for source in self._topology.sources)

    def checked(self) -> None:
        """Wait until it is known that the declaration can run.

        Raises:
            DeclarationError: the rows of the store cannot run; it says what to change.
        """
        if self._check is not None:
            self._check.result()

    def _begin_check(self, spark: Spark) -> None:
        """Look whether the declaration can run, once: another session would not find otherwise.

        Beside what comes before the first query, which waits for one thread of the JVM that loads and plans.
        """
        if self._check is None or self._check.exception() is not None:
            beside = ThreadPoolExecutor(1, "plan-check")
            self._check = beside.submit(self._check_declared, spark)
            beside.shutdown(wait=False)

    def _check_declared(self, spark: Spark) -> None:
        with translated():
            check_declared(spark.session, self._topology, self._store)

    def _await_tables(self, topics: Mapping[str, TopicDescription]) -> None:
        """Wait until this instance's copies of the tables are whole: a snapshot of less would hide events.

        And of these very topics: of one that was created anew, what its copies hold is the old one until they notice.
        """
        joined = {table.topic for table in self._topology.joined(self._store).values()}
        while (joined or self._upkeep.looks_at) and not (
            all(c.topic_id == topics[c.topic].topic_id for c in self._tables.judged() if c.topic in joined)
            and self._tables.caught_up()
        ):
            self._check_stop()
            if self._check is not None and self._check.done():
                # Tables may take long to come, and what is wrong with the declaration is known.
                self.checked()
            self._topics.look()
            time.sleep(POLL_S)

    def _choose(self, spark: Spark, topics: Mapping[str, TopicDescription], plan: Plan | None) -> Work:
        """Return the generation to work on; begin a new one when there is none that fits, or the plan asks for it."""
        root = CheckpointDirectory(spark.session, self._settings.checkpoint_uri)
        generations = Generations(root, self._store)
        self._driver.check(generations)
        generation = generations.current()
        generations.check_windows()
        reason = self._why_begin(spark, generations, generation, topics, plan)
        begin = None
        if generation is None or reason is not None:
            begin = self._begin_of(spark, generations, generation, topics, plan)
            work = self._begin(spark, generations, generation, topics, begin, reason or "no checkpoint")
            delete_former(root, self._store)
            # Before anything is read, which may fail: what came before was not this one's.
            self._failures.committed()
        else:
            work = self._work(spark, generations, generation, topics)
            # Since it was begun here another process may have worked on it, or a query of this one that failed.
            self._begun = 0
        generations.delete_older(work.generation)
        if reason is not None and not spark.both_compilers:
            waiting = self._topics.events_after(begin or {})
            if waiting >= _LONG_BACKLOG_EVENTS:
                self.checked()
                logger.info("%s events wait: Spark starts again, with both compilers of its JVM", f"{waiting:,}")
                spark = self._open_spark(topics, both_compilers=True)
                root = CheckpointDirectory(spark.session, self._settings.checkpoint_uri)
                work = replace(work, spark=spark, generations=Generations(root, self._store))
        self._upkeep.begun(work, anew=reason is not None, goes_on=begin is not None)
        return work

    def origin(self, topics: Mapping[str, TopicDescription]) -> Origin:
        """Return what the state depends on that is made of these topics."""
        joined = [table.topic for table in self._topology.joined(self._store).values()]
        of_stores = {name: value for store in self._store.made for name, value in store.settings.items()}
        kept = [*self._topology.source_topics, *joined, *(store.topic for store in self._store.made)]
        return Origin(
            {topic: topics[topic].topic_id for topic in kept},
            self._store.version,
            {**self._topology.settings, **of_stores},
            topics[self._store.topic].partitions,
            None if self._store.record.lattice or self._store.final else self._partitions(topics),
            self._store.state_form,
            None if self._store.beside is None else topics[self._store.beside.store.topic].partitions,
        )

    def _work(
        self, spark: Spark, generations: Generations, generation: Generation, topics: Mapping[str, TopicDescription]
    ) -> Work:
        sources = sources_of(self._topology, topics)
        return Work(self._topology, self._store, spark, generations, generation, sources, self._tables)

    def _why_begin(
        self,
        spark: Spark,
        generations: Generations,
        generation: Generation | None,
        topics: Mapping[str, TopicDescription],
        plan: Plan | None,
    ) -> str | None:
        """Return why a generation has to begin after this one, None when it can be worked on."""
        if generation is None:
            return "no checkpoint"
        if plan is not None:
            return plan.reason
        return self._trouble(spark, generations, generation, topics)

    def _trouble(
        self, spark: Spark, generations: Generations, generation: Generation, topics: Mapping[str, TopicDescription]
    ) -> str | None:
        """Return what is wrong with a generation, None when it can be worked on."""
        if (difference := generation.origin.difference(self.origin(topics))) is not None:
            return difference
        if self._failures.checkpoint_trouble is not None:
            return f"its checkpoint cannot be used: {self._failures.checkpoint_trouble}"
        work = self._work(spark, generations, generation, topics)
        if (trouble := self._upkeep.why_begin(generations, generation) or self._gap(work)) is not None:
            return trouble
        return self._outdated(work) if generations.may_have_published_after(generation) else None

    def _gap(self, work: Work) -> str | None:
        """Return what the state lacks and what is published may have: that becomes the seed."""
        try:
            done = work.log.done()
        except CheckpointUnusable as error:
            return str(error)
        if done is None:
            # Results of this generation are written before its first commit, so this is seldom more than that: but
            # where the logs of a query are lost, Spark would begin it without its state, and without a word.
            return "results are published, and no batch is committed" if self._topics.results_end() else None
        return self._taken(done.ends)

    def _taken(self, read_to: Mapping[TopicPartition, int]) -> str | None:
        """Return what retention has taken that was not read up to here, None when nothing, or nothing that matters."""
        if self._store.final:
            # What is published has no more of it than the state.
            return None
        begin = self._topics.events().begin
        for at, offset in read_to.items():
            if begin.get(at, 0) > offset:
                return f"partition {at.partition} of {at.topic} begins at {begin[at]}, and was read to {offset}"
        return None

    def check_kept(self, work: Work) -> None:
        """Look whether all is there still that a query is to read again, since the last one gave way.

        Raises:
            GenerationOutdated: retention has taken some; results that are published may count it.
        """
        done = work.log.done()
        if done is not None and (taken := self._taken(done.ends)) is not None:
            raise GenerationOutdated(taken)

    def _outdated(self, work: Work) -> str | None:
        """Return what says that a generation after this one has published results, None when none has.

        It ended before it counted. Stores ignore what this one publishes of the same keys. All results are looked at.
        """
        try:
            with self._spark.beside:
                work.look_for_newer()
        except GenerationOutdated as error:
            return str(error)
        return None

    def _stream_ms(
        self,
        spark: Spark,
        generations: Generations,
        last: Generation | None,
        topics: Mapping[str, TopicDescription],
        results: DataFrame,
    ) -> int | None:
        """Return the stream time to begin with where none is told: for nothing was let go, or it is compacted away.

        Args:
            spark: the session.
            generations: those of the store.
            last: the one before, if there is one.
            topics: those of the topology.
            results: as `runtime.spark.results.published` returns them.
        """
        if self._store.window is not None and last is not None:
            try:
                bound_ms = self._work(spark, generations, last, topics).log.bound_ms()
            except (CheckpointUnusable, QueryFailed) as error:
                logger.info("how far generation %s had come is not known: %s", last.number, error)
            else:
                if bound_ms is not None and bound_ms <= 0:
                    return last.stream_ms
        return stream_ms_of(self._store, results)

    def _begin_of(
        self,
        spark: Spark,
        generations: Generations,
        last: Generation | None,
        topics: Mapping[str, TopicDescription],
        plan: Plan | None,
    ) -> Mapping[TopicPartition, int] | None:
        """Return where a plan has a generation go on with the sources; None where all that they have is read again.

        What is published at a commit holds every event up to there, unless a generation after the last one ended before
        it was begun: of a key that it had published already, the last one's results count no more.
        """
        if plan is None or not plan.at_commit or last is None or self._trouble(spark, generations, last, topics):
            return None
        work = self._work(spark, generations, last, topics)
        if last.number != self._begun and (outdated := self._outdated(work)) is not None:
            logger.info("all events are read again: %s", outdated)
            return None
        done = work.log.done()
        return None if done is None else done.ends

    def _begin(
        self,
        spark: Spark,
        generations: Generations,
        last: Generation | None,
        topics: Mapping[str, TopicDescription],
        begin: Mapping[TopicPartition, int] | None,
        reason: str,
    ) -> Work:
        """Begin a generation with whatever results are published as its seed.

        Args:
            spark: the session.
            generations: those of the store.
            last: the one before, if there is one.
            topics: those of the topology.
            begin: see `_begin_of`.
            reason: why, for people.
        """
        origin = self.origin(topics)
        changed = last.origin.changed_topics(origin) if last is not None else []
        known = set() if last is None else last.origin.topic_ids.keys() & set(changed)
        # Nobody has anything to publish on a topic that the last generation did not know, of a store new beside it.
        if any(store.topic in known for store in self._store.made):
            self._topics.wait_for_results()
        there_are_results = bool(self._topics.results_end())
        if last is None and not there_are_results:
            logger.info("the first generation begins")
        else:
            logger.warning("a new generation begins: %s", reason)
        if not there_are_results:
            work = self._work(spark, generations, generations.claim(0, origin, seeded=False), topics)
        else:
            joined = {table.topic for table in self._topology.joined(self._store).values()}
            tables_are_new = bool(joined & set(changed))
            work = self._begin_with_seed(spark, generations, last, topics, begin, tables_are_new=tables_are_new)
        self._driver.begin(work.generation)
        generations.commit(work.generation)
        self._begun = work.generation.number
        return work

    def _begin_with_seed(
        self,
        spark: Spark,
        generations: Generations,
        last: Generation | None,
        topics: Mapping[str, TopicDescription],
        begin: Mapping[TopicPartition, int] | None,
        *,
        tables_are_new: bool,
    ) -> Work:
        """Claim a generation, and read the results so far into its state; that publishes them as its results.

        Results that do not change stay as they are. Events that lie in them are passed over, or change nothing again.
        """
        self.checked()
        goes_on = begin is not None
        # Where nobody else has written results of the last generation, the last of a key has all that there is.
        by_last = goes_on and last is not None and last.number == self._begun
        # This one may end before it counts, and have published some by then.
        self._begun = 0
        begin = self._topics.events().begin if begin is None else begin
        before = self._work(spark, generations, Generation(0, "", self.origin(topics)), topics)

        def write_seed(published: DataFrame) -> Work:
            results = published.cache()
            try:
                return of_results(results)
            finally:
                results.unpersist()

        def of_results(results: DataFrame) -> Work:
            newest = newest_of(results)
            stream_ms = told
            if stream_ms is None and not self._store.final:
                stream_ms = self._stream_ms(spark, generations, last, topics, results)
            generation = generations.claim(
                newest,
                self.origin(topics),
                seeded=not self._store.of_join,
                stream_ms=stream_ms,
                has_older=before.results.counts_older(results),
            )
            work = self._work(spark, generations, generation, topics)
            if generation.seeded:
                seed = self._upkeep.seed(work, results, tables_are_new=tables_are_new, goes_on=goes_on)
                work.write_seed(seed)
            return work

        with self._spark.beside:
            told = before.told_stream_ms() if self._store.final or self._store.window is not None else None
            work = (before.with_last if by_last else before.with_published)(write_seed)
        if self._store.final:
            return work
        with running(work.start_with_seed()) as query:
            while not query.ended():
                self._check_stop()
        work.begin_at(begin)
        return work

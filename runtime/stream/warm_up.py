"""A stream that waits to take over: Spark is started, and what its queries go through has been gone through once.

    JVM and session ─▶ each query: catching up, snapshot, real time, on the last events ─▶ results are thrown away

Most of a take-over is a JVM that loads classes, plans and compiles for the first time. The queries here are those of
the topology, on a checkpoint that nobody else has, and what they make goes nowhere: what was compiled stays.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime.errors import LeaderboardError
from runtime.kafka.ids import TopicDescription
from runtime.kafka.offsets import PartitionOffsets
from runtime.spark.checkpoint import CheckpointDirectory
from runtime.spark.query import StreamQuery, running
from runtime.spark.session import Spark, translated
from runtime.stream.choice import Choice
from runtime.stream.generations import Generation, Generations
from runtime.stream.settings import StreamSettings
from runtime.stream.snapshot import take_snapshot
from runtime.stream.stopping import Stopped
from runtime.stream.upkeep import Care, upkeep_of
from runtime.stream.watched_topics import WatchedTopics
from runtime.stream.work import Work, sources_of

logger = logging.getLogger(__name__)

_EVENTS: Final = 500
"""So many of the last events of each partition go through: enough for the JVM to compile what a row goes through."""
_BATCH_S: Final = 5
"""The shortest that Spark takes in real time."""
_NUMBER: Final = 2**31
"""Above that of all generations: what is published now is older, and none of it is newer than the work here."""
_PAUSE_S: Final = 5.0
"""After a hand-over new results come first: a JVM that starts takes whole cores."""
_AGAIN_AFTER_S: Final = 30.0
_LOOK_EVERY_S: Final = 0.5


class Rehearsal(Work):
    """Work whose results are thrown away."""

    def _start(self, results: DataFrame, trigger: Mapping[str, Any]) -> StreamQuery:
        # Nothing is that long; Spark does not know it, and makes every result.
        return super()._start(results.where(F.length("value") < 0), trigger)


class WarmUp:
    """Has the stream of one store gone through once.

    Args:
        settings: how the topology runs.
        care: the store, and what its stream looks at.
        choice: opens the session, and looks whether the declaration can run.
        left: set when the stream begins here, or everything should end.
    """

    def __init__(self, settings: StreamSettings, care: Care, choice: Choice, left: threading.Event) -> None:
        self._settings = settings
        self._topology = settings.topology
        self._care = care
        self._store = care.store
        self._choice = choice
        self._left = left
        self._uri = (settings.spark.work_dir / "warm-up").as_uri()
        self._topics = WatchedTopics(
            settings.spark.kafka, settings.topology, care.store, left, self._check_left, lambda _: None
        )

    def run(self) -> None:
        """Open the session unless it is open, and go through everything.

        Raises:
            Stopped: the stream begins, or everything should end.
            DeclarationError: the rows of the store cannot run.
            LeaderboardError: Kafka does not answer, or Spark fails.
        """
        topics = self._topics.wait_for_all()
        self._check_left()
        spark = self._choice.open(topics)
        while not self._care.tables.caught_up():
            self._check_left()
            self._left.wait(_LOOK_EVERY_S)
        self._choice.checked()
        root = CheckpointDirectory(spark.session, self._uri)
        try:
            self._go_through(spark, root, topics)
            # Tasks that were cancelled, and what makes their files, go on until they have noticed.
            while spark.is_busy():
                self._check_left()
                self._left.wait(_LOOK_EVERY_S)
        finally:
            root.delete("")
        # What was made for this is garbage, in a heap that grew for it.
        spark.collect_garbage()

    def _go_through(self, spark: Spark, root: CheckpointDirectory, topics: Mapping[str, TopicDescription]) -> None:
        generations, events = Generations(root, self._store), self._topics.events()
        upkeep = upkeep_of(self._topology, self._care)
        caught_up, real_time = (self._work(spark, generations, topics, events, token) for token in ("one", "two"))
        joined = caught_up.tables_in_memory()
        with translated():
            upkeep.begun(caught_up, anew=False, goes_on=False)
            upkeep.catching_up(caught_up, joined)
        with running(caught_up.catch_up(joined, upkeep.narrow)) as query:
            self._until(query.ended)
        snapshot = take_snapshot(real_time, upkeep, 0, at_once=False)
        deadline_s = time.monotonic() + 3 * _BATCH_S
        with running(snapshot.start(real_time, upkeep, _BATCH_S)) as query:
            self._until(lambda: query.ended() or bool(query.reports()) or time.monotonic() > deadline_s)

    def _work(
        self,
        spark: Spark,
        generations: Generations,
        topics: Mapping[str, TopicDescription],
        events: PartitionOffsets,
        token: str,
    ) -> Work:
        """Return work on a checkpoint of its own that begins with the last events of the sources."""
        generation = Generation(_NUMBER, token, self._choice.origin(topics))
        sources = sources_of(self._topology, topics)
        begin = {at: max(events.begin[at], end - _EVENTS) for at, end in events.end.items()}
        return Rehearsal(self._topology, self._store, spark, generations, generation, sources, self._care.tables, begin)

    def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._check_left()

    def _check_left(self) -> None:
        if self._left.is_set():
            raise Stopped


class Warmth:
    """Keeps Spark ready for the stream from when that is wanted until the stream begins here.

    Attributes:
        wanted: set when Spark should be warmed up.
        left: set when the stream begins here, or everything should end.
        there: whether it is warm.
    """

    def __init__(self) -> None:
        self.wanted = threading.Event()
        self.left = threading.Event()
        self.there = False

    def keep(self, warm_ups: Sequence[WarmUp], lives: Callable[[], bool]) -> None:
        """Keep Spark warm until `left`. Never raises.

        Args:
            warm_ups: of all stores.
            lives: returns whether the session's JVM runs.
        """
        said = ""
        while not self.left.is_set():
            if not self.wanted.wait(_LOOK_EVERY_S):
                continue
            self.left.wait(_PAUSE_S)
            began_s = time.monotonic()
            try:
                for warm_up in warm_ups:
                    warm_up.run()
            except Stopped:
                return
            except (Exception, asyncio.CancelledError) as error:
                # Whoever takes over begins with what there is. aiokafka lets the cancellation of its own tasks out.
                reason = str(error) if isinstance(error, LeaderboardError) else repr(error)
                if reason != said:
                    said = reason
                    foreseen = isinstance(error, LeaderboardError)
                    logger.warning("Spark could not be warmed up for a take-over: %s", said, exc_info=not foreseen)
                self.left.wait(_AGAIN_AFTER_S)
                continue
            took_s, said = time.monotonic() - began_s, ""
            logger.info("the stream is ready to take over: Spark was warmed up in %.1f s", took_s)
            self.there = True
            while lives() and not self.left.wait(_LOOK_EVERY_S):
                pass
            self.there = False

"""The stream thread: runs the topology in the background, a thread a query in one Spark session."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Final

from runtime.errors import DeclarationError
from runtime.stream.dead_letters import DeadLetters
from runtime.stream.freshness import Freshness, of_query
from runtime.stream.settings import StreamSettings
from runtime.stream.spark_holder import SparkHolder
from runtime.stream.status import StreamState, StreamStatus, combined
from runtime.stream.store_stream import StoreStream
from runtime.stream.tables import TableSource
from runtime.stream.upkeep import Care, upkeep_of
from runtime.stream.warm_up import Warmth

__all__ = ["StreamSettings", "StreamThread"]

logger = logging.getLogger(__name__)

_STOP_WITHIN_S: Final = 4.0
_STOP_ALONE_WITHIN_S: Final = 1.0

_ONE_AT_A_TIME: Final = threading.Lock()
"""PySpark has one gateway for all of a process. A thread that is not waited for to its end, since its JVM was still
starting, ends before the next one begins."""


class StreamThread:
    """Runs the topology until it is told to stop; failures restart it with back-off.

    Args:
        settings: how the topology runs.
        tables: the global tables of this instance.
        freshness: follows the results of this instance, by store.
    """

    def __init__(
        self, settings: StreamSettings, tables: TableSource, freshness: Mapping[str, Freshness] | None = None
    ) -> None:
        topology, spark = settings.topology, settings.spark
        self._settings = settings
        self._stop = threading.Event()
        self._warmth = Warmth()
        self._spark = SparkHolder(spark, len(topology.queries))
        letters = DeadLetters(spark.kafka, settings.application_id, topology, self._stop.is_set)
        self._streams = []
        followed = freshness or {}
        for number, store in enumerate(topology.queries):
            of_stores = [followed.get(each.name) or Freshness() for each in store.made]
            care = Care(store, tables, of_query(of_stores), settings.tables_refresh_s)
            # All queries read the same events: one writes what cannot be used of them.
            stream = StoreStream(
                settings, care, upkeep_of(topology, care), self._spark, self._stop, letters if number == 0 else None
            )
            self._streams.append(stream)
        self._thread = threading.Thread(target=self._run, name="stream", daemon=True)

    @property
    def status(self) -> StreamStatus:
        """What the thread is doing."""
        return combined([stream.status for stream in self._streams])

    @property
    def failed(self) -> int:
        """How often the stream has failed of the query that failed most: what ends a JVM fails every query."""
        return max(sum(stream.status.failures.values()) for stream in self._streams)

    def prepare(self) -> None:
        """Wait in the background for `start`; from `warm_up` on, with Spark kept warm."""
        if self._thread.ident is None:
            self._thread.start()

    def warm_up(self) -> None:
        """Warm Spark up, in a moment: what works elsewhere comes first. Returns at once."""
        self._warmth.wanted.set()

    @property
    def warm(self) -> bool:
        """Whether nothing more will be ready for its beginning than there is."""
        return self._warmth.there or not self._settings.spark.is_alone

    @property
    def works(self) -> bool:
        """Whether all that waited has been worked off, and what is new is worked on."""
        return self.status.state in (StreamState.RUNNING, StreamState.REFRESHING)

    @property
    def superseded(self) -> bool:
        """Whether another driver works on a checkpoint of it: it does nothing more there."""
        return any(stream.superseded for stream in self._streams)

    @property
    def refused(self) -> DeclarationError | None:
        """Why the topology cannot run as it is declared, when the stream has found that; it does nothing more."""
        return next((stream.refused for stream in self._streams if stream.refused is not None), None)

    @property
    def lost_its_jvm(self) -> bool:
        """Whether it has worked, and its JVM is gone for the first time: another one would take it no further.

        One that ends again and again may do so for what it reads, and elsewhere alike.
        """
        status = self.status
        worked = status.batch_ended_at_s is not None and self._spark.opened == 1
        return worked and status.state is StreamState.ERROR and not self._spark.lives

    def start(self) -> None:
        """Begin, in the background."""
        self._warmth.left.set()
        if self._thread.ident is None:
            self._thread.start()

    @property
    def begun(self) -> bool:
        """Whether the stream has been told to begin, and not only to prepare."""
        return self._warmth.left.is_set()

    def request_stop(self) -> None:
        """Ask the thread to stop; returns at once."""
        self._stop.set()
        self._warmth.left.set()

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
        if self._thread.is_alive() and self._spark.kill():
            logger.info("the stream did not stop within %.0f s: its JVM was ended", timeout_s)
            self._thread.join(max(timeout_s, _STOP_WITHIN_S))

    def join_all(self, timeout_s: float) -> None:
        """Wait also for what `join` does not wait for; a JVM that is left to start writes files until it ends.

        Args:
            timeout_s: at most so long.
        """
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _wait_for_start(self) -> None:
        # With executors elsewhere a session that waits would take cores there that the one at work needs.
        if self._settings.spark.is_alone:
            warm_ups = [each.warm_up(self._warmth.left) for each in self._streams]
            self._warmth.keep(warm_ups, lambda: self._spark.lives)
        self._warmth.left.wait()

    def _run(self) -> None:
        first, *others = self._streams
        with _ONE_AT_A_TIME:
            threads = [threading.Thread(target=each.run, name=f"stream-{each.name}", daemon=True) for each in others]
            try:
                self._wait_for_start()
                for thread in threads:
                    thread.start()
                first.run()
                for thread in threads:
                    thread.join()
            finally:
                self._spark.close()
                for stream in self._streams:
                    stream.to(StreamState.STOPPED)

"""The stream thread: runs the topology in the background, a thread a store in one Spark session."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Final

from runtime.stream.dead_letters import DeadLetters
from runtime.stream.freshness import Freshness
from runtime.stream.settings import StreamSettings
from runtime.stream.spark_holder import SparkHolder
from runtime.stream.status import StreamState, StreamStatus, combined
from runtime.stream.store_stream import StoreStream
from runtime.stream.tables import TableSource
from runtime.stream.upkeep import Care, Upkeep

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
        self._spark = SparkHolder(spark, len(topology.stores))
        letters = DeadLetters(spark.kafka, settings.application_id, topology, self._stop.is_set)
        self._streams = []
        for number, store in enumerate(topology.stores):
            of_store = (freshness or {}).get(store.name) or Freshness()
            care = Care(store, tables, of_store, settings.tables_refresh_s)
            upkeep = Upkeep(care) if topology.upkeep is None else topology.upkeep(care)
            # All stores read the same events: one writes what cannot be used of them.
            stream = StoreStream(settings, care, upkeep, self._spark, self._stop, letters if number == 0 else None)
            self._streams.append(stream)
        self._thread = threading.Thread(target=self._run, name="stream", daemon=True)

    @property
    def status(self) -> StreamStatus:
        """What the thread is doing."""
        return combined([stream.status for stream in self._streams])

    @property
    def failed(self) -> int:
        """How often the stream has failed of the store that failed most: what ends a JVM fails at every store."""
        return max(sum(stream.status.failures.values()) for stream in self._streams)

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

    def _run(self) -> None:
        first, *others = self._streams
        with _ONE_AT_A_TIME:
            threads = [threading.Thread(target=each.run, name=f"stream-{each.name}", daemon=True) for each in others]
            try:
                for thread in threads:
                    thread.start()
                first.run()
                for thread in threads:
                    thread.join()
            finally:
                self._spark.close()
                for stream in self._streams:
                    stream.to(StreamState.STOPPED)

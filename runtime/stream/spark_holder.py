"""The one Spark session of an instance, shared by all queries."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Final

from runtime.spark.session import SPARE_SLOTS, Spark, SparkSettings

logger = logging.getLogger(__name__)

SHUFFLE_PARTITIONS: Final = 4
"""A checkpoint keeps the number that it began with: whoever changes it raises the version of every store."""


class SparkHolder:
    """Opens the session when the first stream needs it, and anew when it is no use any more.

    Args:
        settings: how Spark runs.
        queries: how many run in it at once.

    Attributes:
        session: the one that is open.
        opened: how many there have been.
    """

    def __init__(self, settings: SparkSettings, queries: int) -> None:
        self._settings = settings
        self._queries = queries
        self._lock = threading.Lock()
        self._failing: set[str] = set()
        self._result_partitions: dict[str, int] = {}
        self.session: Spark | None = None
        self.opened = 0
        self.beside: Final = threading.Lock()
        """Held by a job beside the queries: two at once would take slots that the next batch of a query needs."""

    def open(
        self, source_partitions: int, result_partitions: Mapping[str, int], *, both_compilers: bool = False
    ) -> Spark:
        """Return the session, a new one when it is gone, has too few slots or would publish results in other places.

        Args:
            source_partitions: of the topic that each query reads.
            result_partitions: of the result topics of whoever asks, by name.
            both_compilers: another one as well, unless it has both.
        """
        slots = self._queries * (source_partitions + SHUFFLE_PARTITIONS) + SPARE_SLOTS
        with self._lock:
            spark = self.session
            # Spark keeps its producers, and they what they know of a topic for minutes.
            places_are_others = any(
                self._result_partitions.get(topic, partitions) != partitions
                for topic, partitions in result_partitions.items()
            )
            if spark is not None and (
                not spark.alive
                or spark.slots < slots
                or places_are_others
                or (both_compilers and not spark.both_compilers)
            ):
                self._close()
            self._result_partitions.update(result_partitions)
            if self.session is None:
                started = time.monotonic()
                self.session = Spark(self._settings, slots, SHUFFLE_PARTITIONS, both_compilers=both_compilers)
                self.opened += 1
                logger.info("Spark started in %.1f s with %d slots", time.monotonic() - started, slots)
            return self.session

    @property
    def lives(self) -> bool:
        """Whether there is a session whose JVM runs."""
        spark = self.session
        return spark is not None and spark.alive

    def works(self, query: str) -> None:
        """Note that a query has committed."""
        with self._lock:
            self._failing.discard(query)

    def fails(self, query: str, *, ask_for_new_session: bool) -> None:
        """Note that a query has failed; without a JVM, or when all fail and ask for it, it ends."""
        with self._lock:
            self._failing.add(query)
            all_fail = len(self._failing) == self._queries
            if not self.lives or (ask_for_new_session and all_fail):
                self._close()

    def close(self) -> None:
        """End the session."""
        with self._lock:
            self._close()

    def kill(self) -> bool:
        """End the JVM at once, without waiting for whoever opens one; return whether there was one."""
        spark = self.session
        if spark is not None:
            spark.kill()
        return spark is not None

    def _close(self) -> None:
        if self.session is not None:
            self.session.close()
            self.session = None

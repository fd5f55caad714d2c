"""Tables for stream threads, and threads that get no further than asking Kafka for its topics: they need no Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runtime import Count, Int64, Key, PlainText, Store, Stream, Table, Text, Topology
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.ids import topic_ids
from runtime.kafka.inspected import Judged
from runtime.keys import KeyValue
from runtime.spark.session import SparkSettings
from runtime.stores.global_table import TableChanges
from runtime.stream.status import StreamState
from runtime.stream.tables import TableSource
from runtime.stream.thread import StreamSettings, StreamThread
from tests.drivers.spark_sessions import spark_settings
from tests.waiting import wait_until

TOWNS = "towns"
"""The topic of a table."""


def visits(lines: Any, towns: Any) -> Any:
    """Return a row for each line that is the number of a town: `at, country string`."""
    return lines.join(towns, lines["text"].cast("bigint") == towns["id"], "left").select("at", "country")


VISITS = Topology(
    "visits",
    Stream("lines", PlainText()),
    tables=[Table(TOWNS, Key("id", Int64), {"country": Text})],
    stores=[Store("visits-store", "visits", Key("country", Text), {"times": Count()}, rows=visits)],
)
"""A topology that joins a table."""


def settings_of(directory: Path, kafka: KafkaConnection, topology: Topology, **others: Any) -> StreamSettings:
    """Return how a topology runs with all that it keeps in a directory."""
    spark = spark_settings(kafka, directory)
    return StreamSettings(topology, spark, topology.name, (directory / "checkpoint").as_uri(), **others)


def stream_thread_without_kafka(
    directory: Path, bootstrap_servers: str = "localhost:1", tables: TableSource | None = None
) -> StreamThread:
    """Return a new stream thread, not started.

    Args:
        directory: where it would keep everything.
        bootstrap_servers: where no Kafka answers.
        tables: the global tables; by default some that never catch up.
    """
    spark = SparkSettings(KafkaConnection(bootstrap_servers), (), directory / "work", directory / "spark.log")
    uri = (directory / "checkpoint").as_uri()
    return StreamThread(StreamSettings(VISITS, spark, "visits", uri), tables or NoTables())


@contextmanager
def running(stream: StreamThread) -> Iterator[StreamThread]:
    """Have a stream run, from when it has come to real time."""
    stream.start()
    try:
        wait_until(lambda: stream.status.state is StreamState.RUNNING, "the stream runs in real time")
        yield stream
    finally:
        stream.request_stop()
        stream.join()


class SmallTables:
    """Tables of a few rows, in the topics as they are now; whole.

    Args:
        kafka: where the topics are.
        rows: by topic and key; the topics that tables have.
    """

    def __init__(
        self, kafka: KafkaConnection, rows: Mapping[str, Mapping[KeyValue, Mapping[str, str]]] | None = None
    ) -> None:
        self._rows = {topic: dict(of_topic) for topic, of_topic in (rows or {}).items()}
        self._topics = asyncio.run(topic_ids(kafka, self._rows)) if self._rows else {}
        self._deleted = 0

    def caught_up(self) -> bool:
        return True

    def keys(self, topic: str) -> Iterable[KeyValue]:
        return tuple(self._rows[topic])

    def rows(self, topic: str) -> Iterable[tuple[KeyValue, Mapping[str, str]]]:
        return tuple(self._rows[topic].items())

    def delete(self, topic: str, key: KeyValue) -> None:
        """Delete a row."""
        del self._rows[topic][key]
        self._deleted += 1

    def changes(self, topics: Collection[str] | None = None) -> TableChanges:  # noqa: ARG002  # by name
        return TableChanges(0, self._deleted)

    def revision(self, topic: str) -> int:  # noqa: ARG002  # by name
        return self._deleted

    def judged(self) -> Iterable[Judged]:
        return [Judged(name, topic.topic_id, 0, 0, 0, unusable=False) for name, topic in self._topics.items()]


class NoTables:
    """Global tables without rows, which never catch up."""

    def caught_up(self) -> bool:
        return False

    def keys(self, topic: str) -> Iterable[KeyValue]:  # noqa: ARG002  # by name
        return ()

    def rows(self, topic: str) -> Iterable[tuple[KeyValue, Mapping[str, Any]]]:  # noqa: ARG002  # by name
        return ()

    def changes(self, topics: Collection[str] | None = None) -> TableChanges:  # noqa: ARG002  # by name
        return TableChanges(0, 0)

    def revision(self, topic: str) -> int:  # noqa: ARG002  # by name
        return 0

    def judged(self) -> Iterable[Judged]:
        return ()

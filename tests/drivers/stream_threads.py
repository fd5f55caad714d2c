"""Stream threads that get no further than asking Kafka for its topics, so that they need no Spark."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from topology.generation_run import TableSource
from topology.global_table import TableChanges
from topology.judged import Judged
from topology.kafka_connection import KafkaConnection
from topology.spark import SparkSettings
from topology.stream_thread import StreamSettings, StreamThread


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
    return StreamThread(StreamSettings(spark, "leaderboard", uri), tables or NoTables())


class NoTables:
    """Global tables without rows, which never catch up."""

    def caught_up(self) -> bool:
        return False

    def player_ids(self) -> Iterable[int]:
        return ()

    def product_ids(self) -> Iterable[int]:
        return ()

    def changes(self) -> TableChanges:
        return TableChanges(0, 0)

    def judged(self) -> Iterable[Judged]:
        return ()

"""Tables for stream threads, and threads that get no further than asking Kafka for its topics: they need no Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from runtime.stream.generation_run import TableSource

from runtime.kafka.connection import KafkaConnection
from runtime.kafka.ids import topic_ids
from runtime.kafka.inspected import Judged
from runtime.spark.session import SparkSettings
from runtime.stores.global_table import TableChanges
from runtime.stream.thread import StreamSettings, StreamThread
from topology.leaderboard.topics import PLAYERS, PRODUCTS


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


class SmallTables:
    """Tables of a few ids, in the topics as they are now; whole.

    Args:
        kafka: where the topics are.
        players: the ids that exist.
        products: the ids that exist.
    """

    def __init__(self, kafka: KafkaConnection, players: Iterable[int] = (1,), products: Iterable[int] = (1,)) -> None:
        self._topics = asyncio.run(topic_ids(kafka, [PLAYERS, PRODUCTS]))
        self._players, self._products = tuple(players), tuple(products)

    def caught_up(self) -> bool:
        return True

    def player_ids(self) -> Iterable[int]:
        return self._players

    def product_ids(self) -> Iterable[int]:
        return self._products

    def delete_player(self, player_id: int) -> None:
        """Delete a player; no count of changes tells of it."""
        self._players = tuple(each for each in self._players if each != player_id)

    def changes(self) -> TableChanges:
        return TableChanges(0, 0)

    def judged(self) -> Iterable[Judged]:
        return [Judged(name, topic.topic_id, 0, 0, 0, unusable=False) for name, topic in self._topics.items()]


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

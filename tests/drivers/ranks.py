"""Three instances that rank players, and the ranks as they have to be: by a sort of all best scores."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from runtime.declaration import Topology
from runtime.keys import KeyPair
from runtime.results import Made
from runtime.serving.in_memory import GivenRecord, InMemory, read
from runtime.serving.ranked_view import RankedView
from tests.drivers.cluster import Cluster
from tests.drivers.fake_view import Boards
from tests.drivers.table_views import TableRows
from topology.leaderboard.bests import Best
from topology.leaderboard.board import leaderboard
from topology.leaderboard.ranks import STORE
from topology.leaderboard.topics import PLAYERS, PRODUCTS

TOPIC = "c5a1f0de-0000-4000-8000-000000000009"
PARTITIONS = 4

Scores = Mapping[tuple[int, int], Best]
"""The best score by product and player."""


def best(score: float, offset: int, timestamp_ms: int = 1_795_622_400_000, partition: int = 0) -> Best:
    """Return a score of the topic of these tests."""
    return Best(score, timestamp_ms, partition, offset, TOPIC)


def instances_of(topology: Topology, size: int) -> list[InMemory]:
    """Return the copies of some instances: partition p is active on p modulo `size`, standby on the next."""
    instances = [InMemory(topology, PARTITIONS) for _ in range(size)]
    for number, instance in enumerate(instances):
        active = {each for each in range(PARTITIONS) if each % size == number}
        held = active | {each for each in range(PARTITIONS) if (each + 1) % size == number}
        instance.copies.set_active(active)
        for partition in set(range(PARTITIONS)) - held:
            instance.copies.drop(partition)
    return instances


def name_row(instances: Iterable[InMemory], table: str, row_id: int, name: str | None) -> None:
    """Create, rename or delete (None) a row of a table, at every instance."""
    for instance in instances:
        copy = instance.copies.tables[table].copies[0]
        value = None if name is None else json.dumps({"id": row_id, "name": name}).encode()
        read(copy, [GivenRecord(copy.position, str(row_id).encode(), value)])


class RankedInstances:
    """The copies of each instance, and a cluster of them.

    Args:
        size: how many instances.
        boards: what is shown of the boards, by product.
        table_rows: what the routes of tables answer.

    Attributes:
        instances: the copies of each.
        cluster: asks them.
    """

    def __init__(self, size: int = 3, boards: Boards | None = None, table_rows: TableRows | None = None) -> None:
        topology = leaderboard(10, ranks=True)
        self.instances = instances_of(topology, size)
        self.cluster = Cluster(
            boards or {},
            size,
            topology=topology,
            rankings=[each.rankings for each in self.instances],
            table_rows=table_rows,
        )

    @property
    def views(self) -> list[RankedView]:
        """The ranking of each instance."""
        return [instance.rankings[STORE] for instance in self.instances]

    def name(self, table: str, row_id: int, name: str | None) -> None:
        """Create, rename or delete (None) a player or a product, at every instance."""
        name_row(self.instances, table, row_id, name)

    def names(self, players: Iterable[int], products: Iterable[int]) -> None:
        """Create players and products."""
        for table, ids in ((PLAYERS, players), (PRODUCTS, products)):
            for row_id in ids:
                self.name(table, row_id, f"{table} {row_id}")

    def publish(self, product: int, player: int, *bests: Best) -> None:
        """Have every copy read the best scores of a player; none deletes the row."""
        record = leaderboard(10, ranks=True).store(STORE).record
        partition = self.views[0].partition_for(KeyPair(product, player))
        for instance in self.instances:
            if (copy := instance.copies.results[STORE].copies.get(partition)) is not None:
                value = record.to_json({"best": bests, "hidden": None}) if bests else None
                key = f"{product}/{player}".encode()
                read(copy, [GivenRecord(copy.position, key, value, headers=Made(1).to_headers())])


def expected(scores: Scores, players: Mapping[int, str], product: int) -> list[dict[str, Any]]:
    """Return the ranking of a product as it has to be served.

    Args:
        scores: the best of each player on each product.
        players: the names of those that exist.
        product: which one; it exists.
    """
    playing = [(player, score) for (of, player), score in scores.items() if of == product and player in players]
    playing.sort(key=lambda each: (-each[1].score, each[1].timestamp_ms, each[1].partition, each[1].offset))
    ranks = []
    for rank, (player, score) in enumerate(playing, 1):
        better = sum(other.score > score.score for _, other in playing)
        ranks.append(
            {
                "playerId": player,
                "playerName": players[player],
                "score": score.score,
                "rank": rank,
                "sharedRank": better + 1,
                "of": len(playing),
                "percentile": round(100 * (len(playing) - better) / len(playing), 2),
                "entry": f"{score.topic}/{score.partition}/{score.offset}",
            }
        )
    return ranks

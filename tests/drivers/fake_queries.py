"""One instance's boards without stores: a dict that a cluster of instances can share, and copies that tests break."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from runtime.serving.queries import PartitionStatus

from runtime.copies.listener import Watcher
from runtime.errors import StateUnusable
from runtime.kafka.partitioner import partition_for
from topology.leaderboard.shown import Rendered, ServedEntry, render

Boards = Mapping[int, list[ServedEntry]]

ABSENT = PartitionStatus(can_answer=False, role="standby", lag=0, reason="it holds no copy")
RESTORING = PartitionStatus(can_answer=False, role="standby", lag=20, reason="restoring: 20 records to go")


def board_of(product_id: int, entries: int = 5) -> list[ServedEntry]:
    """Return a board with falling scores."""
    return [
        ServedEntry(player, product_id, f"Player {player} ü", f"Game {product_id}", 1000.0 - player)
        for player in range(entries)
    ]


class FakeQueries:
    """What `runtime.serving.queries.Queries` answers, from a dict.

    Args:
        boards: product id to visible entries, best first; an empty list is a hidden board. Changes show at once.
        partition_count: how many partitions the store has.

    Attributes:
        unreadable: while set, stores that held boards are closed.
    """

    def __init__(self, boards: Boards, partition_count: int = 4) -> None:
        self.shared_boards = boards
        self.partition_count = partition_count
        self.version = 0
        self.statuses: dict[int, PartitionStatus] = {}
        self.watchers: list[Watcher] = []
        self.unreadable = False

    def hold(self, partitions: Iterable[int], role: Literal["active", "standby"] = "active", lag: int = 0) -> None:
        """Have copies that can answer."""
        self.statuses |= {each: PartitionStatus(True, role, lag, "") for each in partitions}

    def partition_for(self, product_id: int) -> int:
        """Return the partition of a product."""
        return partition_for(product_id, self.partition_count or 1)

    def status(self, partition: int) -> PartitionStatus:
        """Return what was set, or that there is no copy."""
        return self.statuses.get(partition, ABSENT)

    def get(self, product_id: int, limit: int) -> Rendered | None:
        """Return the board of a product, or None when there is none to show."""
        self._read()
        entries = self.shared_boards.get(product_id)
        return render(entries[:limit]) if entries else None

    def boards(
        self,
        partitions: Iterable[int],
        limit: int,
        first: int | None = None,
        last: int | None = None,
        most: int | None = None,
    ) -> list[tuple[int, bytes]]:
        """Return the boards to show, ascending by product id."""
        self._read()
        wanted = set(partitions)
        ids = sorted(
            each
            for each, entries in self.shared_boards.items()
            if entries
            and self.partition_for(each) in wanted
            and (first is None or each >= first)
            and (last is None or each <= last)
        )
        return [(each, render(self.shared_boards[each][:limit]).body) for each in ids[:most]]

    def _read(self) -> None:
        if self.unreadable:
            raise StateUnusable("/state/secret: DB already closed")

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Have `watcher` told what tests say has changed."""
        self.watchers.append(watcher)
        return lambda: self.watchers.remove(watcher)

    def advance(self, partition: int, records: int = 1) -> None:
        """Have a copy read on."""
        status = self.status(partition)
        self.statuses[partition] = status._replace(position=status.position + records)

    def changed(self, product_id: int | None) -> None:
        """Say that a board has changed, or with None that copies have; call it in the event loop."""
        self.version += 1
        for watcher in self.watchers:
            watcher(product_id)

    def count(self, partitions: Iterable[int]) -> int:
        """Return how many boards there are to show."""
        return len(self.boards(partitions, 1))

"""Interactive queries over the store partitions of this instance: get, range, all, count.

Last in the flow topic ▸ materializer ▸ store ▸ view ▸ queries. What cannot be answered is a value here; which other
instance could answer is the router's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, Protocol

from runtime.copies.listener import Watcher
from runtime.copies.status import CopyStatus
from runtime.kafka import partitioner
from runtime.serving.rendered_view import RenderedView
from topology.leaderboard.shown import Rendered

Role = Literal["active", "standby"]


class PartitionStatus(NamedTuple):
    """What this instance can say about one partition.

    Attributes:
        can_answer: false while its copy has never been complete; ask another instance then.
        role: "active" when this instance holds the partition's active task, else "standby".
        lag: records that the copy is behind the end of its topic partition.
        reason: why it cannot answer, or what it waits for; empty when it is caught up.
        position: the offset of the topic partition that its copy reads next; a copy of the same position knows as much.
    """

    can_answer: bool
    role: Role
    lag: int
    reason: str
    position: int = 0


class Copies(Protocol):
    """What fills the stores; the materializer."""

    @property
    def partition_count(self) -> int:
        """How many partitions the store has in the whole cluster; 0 while that is not known."""

    def copy_status(self, partition: int) -> CopyStatus:
        """Return how far the copy of `partition` is; also for one that this instance does not hold."""


class Queries:
    """The boards of this instance's partitions.

    Args:
        view: what is served.
        copies: what fills the stores that the view reads.
    """

    def __init__(self, view: RenderedView, copies: Copies) -> None:
        self._view = view
        self._copies = copies
        self._active: frozenset[int] = frozenset()

    @property
    def version(self) -> int:
        """A number that grows with every change that a reader could see."""
        return self._view.version

    @property
    def partition_count(self) -> int:
        """How many partitions the store has in the whole cluster; 0 while that is not known."""
        return self._copies.partition_count

    def set_active(self, partitions: Iterable[int]) -> None:
        """Tell which partitions this instance is active for; it is a standby for all others that it holds."""
        self._active = frozenset(partitions)

    def partition_for(self, product_id: int) -> int:
        """Return the partition of a product; 0, which cannot answer then, while the partition count is not known."""
        return partitioner.partition_for(product_id, self._copies.partition_count or 1)

    def status(self, partition: int) -> PartitionStatus:
        """Return what this instance can say about `partition`, held or not."""
        copy = self._copies.copy_status(partition)
        role: Role = "active" if partition in self._active else "standby"
        return PartitionStatus(copy.can_answer, role, copy.lag, copy.reason, copy.position)

    def get(self, product_id: int, limit: int) -> Rendered | None:
        """Return the board of a product, or None when there is none to show.

        Args:
            product_id: which board.
            limit: at most this many entries.
        """
        return self._view.get(product_id, limit)

    def boards(
        self,
        partitions: Iterable[int],
        limit: int,
        first: int | None = None,
        last: int | None = None,
        most: int | None = None,
    ) -> list[tuple[int, bytes]]:
        """Return the boards to show, ascending by product id.

        Args:
            partitions: which of this instance's partitions.
            limit: at most this many entries of each.
            first: the lowest product id, inclusive.
            last: the highest product id, inclusive.
            most: at most this many boards, the lowest product ids of them.

        Returns:
            Product ids with the JSON of their boards.
        """
        return self._view.boards(partitions, limit, first, last, most)

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Have `watcher` told what changes, until the returned function is called."""
        return self._view.watch(watcher)

    def count(self, partitions: Iterable[int]) -> int:
        """Return how many boards there are to show in `partitions`."""
        return self._view.count(partitions)

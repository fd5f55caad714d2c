"""Three instances with boards of periods, filled by hand, and a clock that the test sets."""

from __future__ import annotations

from collections.abc import Iterable

from runtime.keys import KeyPair
from runtime.results import Made
from runtime.serving.in_memory import GivenRecord, read
from tests.drivers.cluster import Cluster
from tests.drivers.ranks import instances_of, name_row
from topology.leaderboard.board import PERIOD_STORE, leaderboard
from topology.leaderboard.periods import NAMES, Periods
from topology.leaderboard.places import Board, Entry


class PeriodInstances:
    """The copies of each instance, and a cluster of them; partitions as `tests.drivers.ranks` has them.

    Args:
        now_ms: wall-clock time in milliseconds from 1970.
        names: of the periods that have boards.
        size: how many instances.

    Attributes:
        now_ms: the time now.
        cluster: asks them.
    """

    def __init__(self, now_ms: int, names: Iterable[str] = NAMES, size: int = 3) -> None:
        self.now_ms = now_ms
        topology = leaderboard(10, periods=Periods(tuple(names), now_ms=lambda: self.now_ms))
        self.instances = instances_of(topology, size)
        self.cluster = Cluster(
            {},
            size,
            topology=topology,
            further=[{PERIOD_STORE: each.views[PERIOD_STORE]} for each in self.instances],
            parts=[each.parts for each in self.instances],
        )

    def name(self, table: str, row_id: int, name: str | None) -> None:
        """Create a player or a product, or delete it without a name, at every instance."""
        name_row(self.instances, table, row_id, name)

    def publish(self, product: int, period: str, *scores: tuple[float, int]) -> None:
        """Have every copy read a board of scores and players; none deletes it."""
        entries = tuple(Entry(score, 0, 0, offset, player) for offset, (score, player) in enumerate(scores))
        for instance in self.instances:
            partition = instance.views[PERIOD_STORE].partition_for(KeyPair(product, period))
            if (copy := instance.copies.results[PERIOD_STORE].copies.get(partition)) is not None:
                value = Board(1, entries, ()).to_json() if entries else None
                headers = Made(1).to_headers()
                read(copy, [GivenRecord(copy.position, f"{product}/{period}".encode(), value, headers=headers)])

    def holders(self, product: int) -> list[int]:
        """Return the numbers of the instances that hold a product."""
        partition = self.instances[0].views[PERIOD_STORE].partition_for(KeyPair(product, ""))
        return [number for number, each in enumerate(self.instances) if partition in each.copies.held]

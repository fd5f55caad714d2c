"""The shell around `routing.decide`: takes one snapshot of the cluster and of the hosts that are down."""

from __future__ import annotations

from typing import Final

from runtime.serving.queries import PartitionStatus

from api.cluster.down_hosts import DownHosts
from api.cluster.routing import Local, Remote, Route, Unavailable, decide
from api.components import Components

UNREADABLE: Final = "its store cannot be read now"


class Router:
    """Routes partitions as this instance sees the cluster now.

    Args:
        components: what the instance answers with.
        down: the hosts that did not answer lately.
    """

    def __init__(self, components: Components, down: DownHosts) -> None:
        self._components = components
        self._down = down

    def route(self, partition: int, status: PartitionStatus, *, hop: bool) -> Route:
        """Return who answers for `partition`.

        Args:
            partition: the partition of a key.
            status: what this instance can say about it.
            hop: whether another instance has forwarded the request here.
        """
        of = self._components
        if not of.queries.partition_count:
            return Unavailable(f"{of.host} does not know the partitions yet")
        return decide(partition, status, of.cluster(), of.host, self._down.avoided(), hop=hop)

    def elsewhere(self, partition: int, status: PartitionStatus, *, hop: bool) -> Remote | Unavailable:
        """Return who answers when this instance's copy of `partition` cannot be read; arguments as for `route`."""
        route = self.route(partition, status._replace(can_answer=False, reason=UNREADABLE), hop=hop)
        assert not isinstance(route, Local), "a copy that cannot answer is not asked"
        return route

"""The shell around `routing.decide`: takes one snapshot of the cluster and of the hosts that are down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from api.cluster.down_hosts import DownHosts
from api.cluster.routing import LOCAL, Local, Remote, Route, Unavailable, decide, is_asked_first
from runtime.cluster.host_metadata import ClusterMap, HostInfo
from runtime.copies.status import CopyStatus
from runtime.serving.view import View

UNREADABLE: Final = "its store cannot be read now"


class Router:
    """Routes the partitions of a store as this instance sees the cluster now.

    Args:
        view: the rows of this instance's copies.
        cluster: returns the map of the last assignment; one snapshot serves a whole decision.
        here: this instance.
        down: the hosts that did not answer lately.
        nearest: whether a current copy here answers before the active one elsewhere.

    Attributes:
        cluster: the same.
        here: this instance.
    """

    def __init__(
        self, view: View, cluster: Callable[[], ClusterMap], here: HostInfo, down: DownHosts, *, nearest: bool
    ) -> None:
        self.cluster = cluster
        self.here = here
        self._view = view
        self._down = down
        self._nearest = nearest

    def route(self, partition: int, status: CopyStatus, *, hop: bool) -> Route:
        """Return who answers for `partition`.

        Args:
            partition: the partition of a key.
            status: what this instance can say about it.
            hop: whether another instance has forwarded the request here.
        """
        if not self._view.partition_count:
            return Unavailable(f"{self.here} does not know the partitions yet")
        if is_asked_first(status, hop=hop, nearest=self._nearest):
            # As most are: the map and the hosts that are down say nothing else.
            return LOCAL
        avoided = self._down.avoided()
        return decide(partition, status, self.cluster(), self.here, avoided, hop=hop, nearest=self._nearest)

    def elsewhere(self, partition: int, status: CopyStatus, *, hop: bool) -> Remote | Unavailable:
        """Return who answers when this instance's copy of `partition` cannot be read; arguments as for `route`."""
        route = self.route(partition, status._replace(can_answer=False, reason=UNREADABLE), hop=hop)
        assert not isinstance(route, Local), "a copy that cannot answer is not asked"
        return route

"""Which hosts did not answer lately: they are asked last, so that readers do not wait for them one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from runtime.cluster.host_metadata import HostInfo

_FORGOTTEN_AFTER_S: Final = 60.0
"""A host that has not been asked for so long has left the cluster, or holds nothing that anybody asks for."""


class DownHosts:
    """A memory of failures that fades.

    Args:
        down_for_s: how long a host that failed is avoided; then one request tries it again.
        clock: monotonic seconds.
    """

    def __init__(self, down_for_s: float, clock: Callable[[], float]) -> None:
        self._down_for_s = down_for_s
        self._clock = clock
        self._until: dict[HostInfo, float] = {}

    def avoided(self) -> frozenset[HostInfo]:
        """Return the hosts to ask last."""
        if not self._until:
            return frozenset()
        now = self._clock()
        return frozenset(host for host, until in self._until.items() if now < until)

    def trying(self, host: HostInfo) -> None:
        """Tell that `host` is asked now: until it answers, all other requests go on avoiding it if it was down."""
        if host in self._until:
            self.failed(host)

    def failed(self, host: HostInfo) -> None:
        """Tell that `host` did not answer."""
        now = self._clock()
        self._until = {each: until for each, until in self._until.items() if now < until + _FORGOTTEN_AFTER_S}
        self._until[host] = now + self._down_for_s

    def answered(self, host: HostInfo) -> None:
        """Tell that `host` answered."""
        self._until.pop(host, None)

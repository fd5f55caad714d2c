"""Whether the group has gone on without this instance, which Kafka tells nothing: the others know, and are asked.

An instance that alone has lost Kafka would go on as the active one for what another one fills by now. Where Kafka is
away for everybody, the others name it as before.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from api.cluster.connections import Reply, Request
from api.cluster.peers import UNREACHED, transport_of
from api.components import Components
from runtime.cluster.host_metadata import ClusterMap, HostInfo

logger = logging.getLogger(__name__)

_EVERY_S: Final = 2.0
_TIMEOUT_S: Final = 2.0


class LeftOut:
    """Asks the others again and again while Kafka tells this instance nothing, as long as `run` runs.

    Args:
        components: what the instance answers with.
        is_away: returns whether Kafka does not answer this instance as a member.
        give_up: called when another instance knows a group without this one.
    """

    def __init__(self, components: Components, is_away: Callable[[], bool], give_up: Callable[[], None]) -> None:
        self._cluster = components.cluster
        self._host = components.host
        self._is_away = is_away
        self._give_up = give_up
        headers = {name.encode(): text.encode() for name, text in components.tokens.to_peers.items()}
        self._request = Request("/hosts", headers, _TIMEOUT_S, _TIMEOUT_S)
        self._transport = transport_of(components.transport, most=2, idle_expiry_s=0.0)
        self._given_up: ClusterMap | None = None

    async def run(self) -> None:
        """Look every two seconds, until it is cancelled."""
        try:
            while True:
                await asyncio.sleep(_EVERY_S)
                await self._look()
        finally:
            await self._transport.aclose()

    async def _look(self) -> None:
        cluster = self._cluster()
        others = [host.info for host in cluster.hosts if host.info != self._host]
        for other in others if self._is_away() and cluster is not self._given_up else ():
            members = await self._members_at(other)
            # One that is not in the group that it knows, or knows none yet, knows no better.
            if other not in members or self._host in members:
                continue
            # It may have been given partitions while the other one was asked.
            if self._is_away() and self._cluster() is cluster:
                logger.warning(
                    "the group goes on without this instance, says %s: others answer until Kafka does here", other
                )
                self._given_up = cluster
                self._give_up()
            return

    async def _members_at(self, other: HostInfo) -> frozenset[HostInfo]:
        """Return the members of the group as another instance knows them; none when it does not tell."""
        try:
            return _members(await self._transport.get(other, self._request))
        except UNREACHED:
            return frozenset()


def _members(reply: Reply) -> frozenset[HostInfo]:
    if reply.status != HTTPStatus.OK:
        return frozenset()
    try:
        hosts: list[dict[str, Any]] = json.loads(reply.body)
        return frozenset(HostInfo(str(host["host"]), int(host["port"])) for host in hosts)
    except (ValueError, TypeError, KeyError):
        return frozenset()

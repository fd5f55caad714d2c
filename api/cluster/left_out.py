"""Whether the group has gone on without this instance, which Kafka tells nothing: the others know, and are asked.

An instance that alone has lost Kafka would go on as the active one for what another one fills by now. Where Kafka is
away for everybody, the others name it as before.

    MEMBER ── Kafka is away, and another one knows a group without this one ──▶ LEFT OUT ⟲ its map is that of the others
       ▲                                                                            │
       └───────────── Kafka answers: the group is asked for an assignment ──────────┘
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

from api.cluster.connections import Reply, Request
from api.cluster.peers import UNREACHED, headers_of, transport_of
from api.components import Components
from runtime.cluster.host_metadata import ClusterMap, HostInfo, HostMetadata

logger = logging.getLogger(__name__)

_EVERY_S: Final = 2.0
_TIMEOUT_S: Final = 2.0


class LeftOut:
    """Asks the others again and again while Kafka tells this instance nothing, as long as `run` runs.

    Args:
        components: what the instance answers with.
        is_away: returns whether Kafka does not answer this instance as a member.
        give_up: told the map of the others when the group has gone on without this instance, and when that changes.
        come_back: called when Kafka answers again, and the group has not said who this instance is.
    """

    def __init__(
        self,
        components: Components,
        is_away: Callable[[], bool],
        give_up: Callable[[ClusterMap], None],
        come_back: Callable[[], None],
    ) -> None:
        self._cluster = components.cluster
        self._host = components.host
        self._is_away = is_away
        self._give_up = give_up
        self._come_back = come_back
        self._request = Request("/hosts", headers_of(components.tokens), _TIMEOUT_S, _TIMEOUT_S)
        self._transport = transport_of(components.transport, most=2, idle_expiry_s=0.0)
        self._theirs: ClusterMap | None = None

    async def run(self) -> None:
        """Look every two seconds, until it is cancelled."""
        try:
            while True:
                await asyncio.sleep(_EVERY_S)
                if self._is_away():
                    await self._look()
                elif self._theirs is not None:
                    if self._cluster() is self._theirs:
                        self._come_back()
                    self._theirs = None
        finally:
            await self._transport.aclose()

    async def _look(self) -> None:
        known = self._cluster()
        for other in [host.info for host in known.hosts if host.info != self._host]:
            hosts = await self._hosts_at(other)
            members = {host.info for host in hosts}
            # One that is not in the group that it knows, or knows none yet, knows no better.
            if other not in members or self._host in members:
                continue
            theirs = replace(known, hosts=hosts)
            # It may have been given partitions while the other one was asked.
            if theirs != known and self._is_away() and self._cluster() is known:
                if known is not self._theirs:
                    logger.warning(
                        "the group goes on without this instance, says %s: others answer until Kafka does here", other
                    )
                self._theirs = theirs
                self._give_up(theirs)
            return

    async def _hosts_at(self, other: HostInfo) -> tuple[HostMetadata, ...]:
        """Return the members of the group as another instance knows them; none when it does not tell."""
        try:
            return _hosts(await self._transport.get(other, self._request))
        except UNREACHED:
            return ()


def _hosts(reply: Reply) -> tuple[HostMetadata, ...]:
    if reply.status != HTTPStatus.OK:
        return ()
    try:
        hosts: list[dict[str, Any]] = json.loads(reply.body)
        return tuple(
            HostMetadata(
                HostInfo(str(host["host"]), int(host["port"])),
                frozenset(map(int, host["active"])),
                frozenset(map(int, host["standby"])),
                bool(host["runsStream"]),
            )
            for host in hosts
        )
    except (ValueError, TypeError, KeyError):
        return ()

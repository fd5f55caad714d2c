"""Whether this instance can be reached where it says: it asks for itself at the address that it advertises.

Peers that cannot reach it would ask it in vain before every other holder of its partitions. Passing trouble is forgiven
once it has been reached: a busy moment must not take an instance out of a load balancer.

    UNKNOWN ── reached ──▶ REACHED ◀── reached ────────────┐
       │                      └── not reached, 5 times ──▶ UNREACHABLE
       └── not reached ──────────────────────────────────────▲
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from api.cluster.connections import Request
from api.cluster.peers import UNREACHED, failure_of, headers_of, transport_of
from api.components import Components

logger = logging.getLogger(__name__)

_EVERY_S: Final = 2.0
_TIMEOUT_S: Final = 2.0
_FORGIVEN: Final = 4


class SelfCheck:
    """Asks again and again, as long as `run` runs.

    Args:
        components: what the instance answers with.
    """

    def __init__(self, components: Components) -> None:
        self._host = components.host
        self._instance_id = components.instance_id.encode()
        self._request = Request("/internal/instance", headers_of(components.tokens), _TIMEOUT_S, _TIMEOUT_S)
        # Connections are not kept: each time it is a new one that has to be accepted.
        self._transport = transport_of(components.transport, most=2, idle_expiry_s=0.0)
        self._reason: str | None = None
        self._forgiven = 0

    @property
    def reason(self) -> str | None:
        """Why peers do not reach this instance, and what to do; None while they do, or that is not known yet."""
        return self._reason

    async def run(self) -> None:
        """Check every two seconds, until it is cancelled."""
        try:
            while True:
                self._note(await self._trouble())
                await asyncio.sleep(_EVERY_S)
        finally:
            await self._transport.aclose()

    async def _trouble(self) -> str | None:
        try:
            reply = await self._transport.get(self._host, self._request)
        except UNREACHED as error:
            return f"{failure_of(error).reason} ({error})"
        return None if reply.body == self._instance_id else f"something else answers there ({reply.status})"

    def _note(self, trouble: str | None) -> None:
        if trouble is None:
            if self._reason is not None:
                logger.info("reached at the advertised address %s", self._host)
            self._reason, self._forgiven = None, _FORGIVEN
        elif self._forgiven:
            self._forgiven -= 1
        else:
            if self._reason is None:
                logger.error("not reached at the advertised address %s: %s", self._host, trouble)
            self._reason = (
                f"it does not reach itself at {self._host}: {trouble}; set LEADERBOARD_ADVERTISED to the address at"
                " which the other instances reach this one"
            )

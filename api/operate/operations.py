"""What operators and load balancers ask: who holds what, and whether this instance should get traffic."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from api.components import Components
from api.http.errors import NotReady, PartitionsUnavailable
from api.http.parameters import ProductId
from api.http.schemas import Address, Health, Host, KeyHosts
from runtime.cluster.host_metadata import HostInfo

_INVALID: Final = {"description": "An id that cannot be"}
_UNKNOWN: Final = {"description": "The partitions are not known yet; try again after `Retry-After`"}
_NOT_READY: Final = {"description": "The instance should get no traffic yet; `detail` says why"}


def operation_routes(components: Components) -> APIRouter:
    """Return the routes `/hosts` and `/health`.

    Args:
        components: what the instance answers with.
    """
    router = APIRouter(tags=["operations"])

    @router.get("/hosts", summary="Every instance and its tasks")
    async def hosts() -> list[Host]:
        return [
            Host(
                host=each.info.host,
                port=each.info.port,
                active=sorted(each.active),
                standby=sorted(each.standby),
                runs_stream=each.runs_stream,
            )
            for each in sorted(components.cluster().hosts, key=lambda host: host.info)
        ]

    @router.get("/hosts/{productId}", summary="Who holds a product", responses={400: _INVALID, 503: _UNKNOWN})
    async def hosts_of(product_id: ProductId) -> KeyHosts:
        if not components.queries.partition_count:
            raise PartitionsUnavailable({})
        key = components.cluster().key_metadata(components.queries.partition_for(product_id))
        return KeyHosts(
            partition=key.partition,
            active=_address(key.active) if key.active else None,
            standbys=[_address(standby) for standby in key.standbys],
        )

    @router.get("/health/live", summary="Whether the process answers")
    async def live() -> Health:
        return Health(status="live")

    @router.get("/health/ready", summary="Whether this instance should get traffic", responses={503: _NOT_READY})
    async def ready() -> Health:
        reason = components.ready()
        if reason is not None:
            raise NotReady(reason)
        return Health(status="ready")

    return router


def _address(info: HostInfo) -> Address:
    return Address(host=info.host, port=info.port)

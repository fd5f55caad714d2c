"""What operators and load balancers ask: who holds what, and whether this instance should get traffic."""

from __future__ import annotations

from typing import Final

from api.components import Components
from api.http.errors import NotReady
from api.http.routes import Routes
from api.http.schemas import Health, Host

_NOT_READY: Final = {"description": "The instance should get no traffic yet; `detail` says why"}


def operation_routes(components: Components) -> Routes:
    """Return the routes `/hosts` and `/health`.

    Args:
        components: what the instance answers with.
    """
    router = Routes(tags=["operations"])

    @router.get(
        "/hosts", operation_id="listHosts", summary="Every instance and its tasks", response_model_exclude_none=True
    )
    async def hosts() -> list[Host]:
        return [
            Host(
                host=each.info.host,
                port=each.info.port,
                active=sorted(each.active),
                standby=sorted(each.standby),
                runs_stream=each.runs_stream,
                stream_standby=each.stream_standby > 0,
                stream_trouble=components.stream_trouble() if each.info == components.host else None,
            )
            for each in sorted(components.cluster().hosts, key=lambda host: host.info)
        ]

    @router.get("/health/live", operation_id="getLiveness", summary="Whether the process answers")
    async def live() -> Health:
        return Health(status="live")

    @router.get(
        "/health/ready",
        operation_id="getReadiness",
        summary="Whether this instance should get traffic",
        responses={503: _NOT_READY},
    )
    async def ready() -> Health:
        reason = components.ready()
        if reason is not None:
            raise NotReady(reason)
        return Health(status="ready")

    return router

"""The application: routes, problems and the peers' client put together from components."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.metadata import PackageNotFoundError, version

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from api.cluster.peers import Peers
from api.cluster.router import Router
from api.components import Components
from api.http import openapi
from api.http.auth import guard_of
from api.http.cors import shared_with
from api.http.delivery import Delivery
from api.http.errors import InvalidRequest, Unrouted, problem
from api.http.front import Front
from api.http.observed import Observed
from api.http.parameters import only_plain
from api.http.traffic import Traffic
from api.leaderboard.routes import board_routes
from api.live.events import event_routes
from api.live.feeds import Feeds
from api.operate.metrics import metrics_routes
from api.operate.operations import operation_routes
from api.operate.page import page_routes
from api.reads.boards import Boards
from api.reads.gather import Gather
from api.reads.internal import internal_routes
from runtime.errors import LeaderboardError

logger = logging.getLogger(__name__)


def create_app(components: Components) -> Observed:
    """Return the ASGI application of one instance; its lifespan closes the connections to peers.

    Args:
        components: what the instance answers with.
    """
    peers = Peers(components.peers, components.transport, components.clock, components.tokens)
    router = Router(components, peers.down)
    boards = Boards(components, router, peers)
    traffic = Traffic()
    feeds = Feeds(components, router, peers)
    components.stopping.tell(feeds.end)
    delivery = Delivery(components.sharing)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await peers.close()

    app = FastAPI(
        title="Leaderboard",
        summary="Interactive queries for Spark: the state of a streaming topology, over HTTP",
        version=_version(),
        lifespan=lifespan,
        redirect_slashes=False,
        # Those of FastAPI load their files from elsewhere.
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(only_plain)],
    )
    # Before the boards: `events` is no product, and no end of a range.
    app.include_router(event_routes(feeds, traffic, components.depth))
    app.include_router(board_routes(boards, Gather(components, router, peers), delivery, components.depth))
    app.include_router(operation_routes(components))
    app.include_router(metrics_routes(components, peers, traffic, app.version))
    app.include_router(internal_routes(components, feeds))
    app.include_router(page_routes(delivery, components.depth))
    for error in (LeaderboardError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(error, _answer_problem)
    if components.tokens.api:
        openapi.require_token(app)
    openapi.complete(app, components.depth)
    front = Front(app, boards, delivery, components.depth, guard_of(components.tokens))
    shared = shared_with(components.sharing.cors_origins, front)
    return Observed(shared, front.at_once if shared is front else None, traffic, str(components.host))


async def _answer_problem(request: Request, error: Exception) -> Response:
    if isinstance(error, RequestValidationError):
        error = InvalidRequest("; ".join(_described(each) for each in error.errors()))
    elif isinstance(error, HTTPException):
        error = Unrouted(error.status_code)
    answer = problem(error, request.scope["path"])
    if answer.status == HTTPStatus.INTERNAL_SERVER_ERROR and isinstance(error, LeaderboardError):
        # Any other is raised again, and logged further out.
        logger.error("%s %r failed", request.method, request.scope["path"], exc_info=error)
    return answer.to_response()


def _described(invalid: dict[str, str]) -> str:
    return f"{invalid['loc'][-1]}: {invalid['msg']}"


def _version() -> str:
    try:
        return version("leaderboard")
    except PackageNotFoundError:
        return "0"

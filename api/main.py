"""The application: routes, problems and the peers' client put together from components."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError, version

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from api import openapi
from api.boards import Boards
from api.components import Components
from api.errors import InvalidRequest, Unrouted, problem
from api.front import Front
from api.gather import Gather
from api.internal import internal_routes
from api.leaderboard import board_routes
from api.operations import operation_routes
from api.peers import Peers
from api.router import Router
from topology.errors import LeaderboardError


def create_app(components: Components) -> Front:
    """Return the ASGI application of one instance; its lifespan closes the connections to peers.

    Args:
        components: what the instance answers with.
    """
    peers = Peers(components.peers, components.transport, components.clock)
    router = Router(components, peers.down)
    boards = Boards(components, router, peers)

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
        redoc_url=None,
    )
    app.include_router(board_routes(boards, Gather(components, router, peers), components.depth))
    app.include_router(operation_routes(components))
    app.include_router(internal_routes(components))
    for error in (LeaderboardError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(error, _answer_problem)
    openapi.complete(app, components.depth)
    return Front(app, boards, components.depth)


async def _answer_problem(request: Request, error: Exception) -> Response:
    if isinstance(error, RequestValidationError):
        error = InvalidRequest("; ".join(_described(each) for each in error.errors()))
    elif isinstance(error, HTTPException):
        error = Unrouted(error.status_code)
    return problem(error, request.scope["path"]).to_response()


def _described(invalid: dict[str, str]) -> str:
    return f"{invalid['loc'][-1]}: {invalid['msg']}"


def _version() -> str:
    try:
        return version("leaderboard")
    except PackageNotFoundError:
        return "0"

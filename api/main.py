"""The application: routes, problems and the peers' client put together from components."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.metadata import PackageNotFoundError, version

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from api.components import Components
from api.http import openapi
from api.http.auth import OPEN_PATHS, guard_of
from api.http.cors import shared_with
from api.http.errors import InvalidRequest, Unrouted, problem
from api.http.front import Front
from api.http.observed import Observed
from api.http.parameters import only_plain
from api.http.routes import Routes
from api.operate.declared import topology_routes
from api.operate.metrics import metrics_routes
from api.operate.operations import operation_routes
from api.operate.page import Pages
from api.own import OwnRoutes, no_own_routes
from api.reads.internal import internal_routes
from api.reads.stores import store_routes
from api.reads.tables import table_routes
from api.serving import Serving
from runtime.errors import LeaderboardError

logger = logging.getLogger(__name__)


def create_app(components: Components, own: OwnRoutes = no_own_routes) -> Observed:
    """Return the ASGI application of one instance; its lifespan closes the connections to peers.

    Args:
        components: what the instance answers with.
        own: makes what the topology answers beside what every one does.
    """
    serving = Serving.of(components)
    of_own = own(serving)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await serving.peers.close()

    app = FastAPI(
        title="Leaderboard",
        summary="Interactive queries for Spark: the state of a streaming topology, over HTTP",
        version=_version(),
        lifespan=lifespan,
        redirect_slashes=False,
        # Those of FastAPI load their files from elsewhere.
        docs_url=None,
        redoc_url=None,
    )
    pages = Pages(components, of_own.page)
    of_stores, rows = store_routes(serving)
    for router in (
        *of_own.routers,
        of_stores,
        table_routes(serving),
        operation_routes(components),
        topology_routes(components),
        metrics_routes(serving, of_own.metrics, app.version),
        internal_routes(serving),
        pages.routes(serving),
    ):
        _add(app, router)
    for error in (LeaderboardError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(error, _answers_problems(of_own.hint))
    open_paths = OPEN_PATHS | pages.paths
    openapi.complete(app, open_paths if components.tokens.api else None)
    front = Front(app, [*of_own.rows, *rows], serving.delivery, guard_of(components.tokens, open_paths))
    shared = shared_with(components.sharing.cors_origins, front)
    return Observed(shared, front, serving.traffic, str(components.host))


def _add(app: FastAPI, router: APIRouter) -> None:
    if isinstance(router, Routes):
        app.router.routes.extend(router.routes)
    else:
        app.include_router(router, dependencies=[Depends(only_plain)])


def _answers_problems(hint: str) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Return what answers an error.

    Args:
        hint: where to go, for who asks for a path that is none.
    """

    async def answer_problem(request: Request, error: Exception) -> Response:
        if isinstance(error, RequestValidationError):
            error = InvalidRequest("; ".join(_described(each) for each in error.errors()))
        elif isinstance(error, HTTPException):
            error = Unrouted(error.status_code, hint)
        answer = problem(error, request.scope["path"])
        if answer.status == HTTPStatus.INTERNAL_SERVER_ERROR and isinstance(error, LeaderboardError):
            # Any other is raised again, and logged further out.
            logger.error("%s %r failed", request.method, request.scope["path"], exc_info=error)
        return answer.to_response()

    return answer_problem


def _described(invalid: dict[str, str]) -> str:
    # Behind the name stands which one, of several.
    return f"{invalid['loc'][1]}: {invalid['msg']}"


def _version() -> str:
    try:
        return version("leaderboard")
    except PackageNotFoundError:
        return "0"

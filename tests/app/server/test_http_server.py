"""How the server is set up: what is left to uvicorn, and what one client may take of it."""

from __future__ import annotations

import resource
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from app.server.connection import Limits
from app.server.http_server import HttpServer

USUAL = Limits().connections


async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer nothing."""


@pytest.fixture
def configs(monkeypatch: pytest.MonkeyPatch) -> list[uvicorn.Config]:
    """What the servers of this test have been set up with, one for each."""
    found: list[uvicorn.Config] = []

    class Noted(uvicorn.Server):
        def __init__(self, config: uvicorn.Config) -> None:
            found.append(config)
            super().__init__(config)

    monkeypatch.setattr("app.server.http_server._Server", Noted)
    return found


async def limits_of(configs: list[uvicorn.Config], *given: Limits) -> Limits:
    """Return what one client may take of a server that is made now."""
    await HttpServer(nothing, "127.0.0.1", 0, *given).stop()
    make: Any = configs[-1].http
    limits: Limits = make.keywords["limits"]
    return limits


@pytest.mark.parametrize(
    ("open_files", "connections"),
    [
        (256, 128),
        (1024, 512),
        (1025, 512),
        (2 * USUAL - 1, USUAL - 1),
        (2 * USUAL, USUAL),
        (2 * USUAL + 2, USUAL),
        (1_048_576, USUAL),
        (resource.RLIM_INFINITY, USUAL),
    ],
)
async def test_half_of_the_files_that_may_be_open_are_for_clients(
    configs: list[uvicorn.Config], monkeypatch: pytest.MonkeyPatch, open_files: int, connections: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", {resource.RLIMIT_NOFILE: (open_files, resource.RLIM_INFINITY)}.get)
    assert await limits_of(configs) == Limits(connections=connections)


async def test_limits_that_are_given_are_the_ones(configs: list[uvicorn.Config]) -> None:
    given = Limits(connections=3, taken_within_s=1.0)
    assert await limits_of(configs, given) == given


async def test_a_connection_is_kept_for_five_idle_seconds_after_an_answer(configs: list[uvicorn.Config]) -> None:
    await limits_of(configs)
    assert configs[-1].timeout_keep_alive == 5

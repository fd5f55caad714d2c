"""An instance that Kafka tells nothing finds out from the others that the group has gone on without it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from api.cluster import left_out
from api.cluster.left_out import LeftOut
from api.components import Components
from api.http.auth import Tokens
from api.main import create_app
from runtime.cluster.host_metadata import ClusterMap, HostInfo, HostMetadata
from tests.drivers.cluster import Network
from tests.drivers.declared import boards_view, components_of
from tests.drivers.eventually import eventually

pytestmark = pytest.mark.anyio

HERE, B, C = (HostInfo(name, 7000) for name in ("here", "b", "c"))


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left_out, "_EVERY_S", 0.001)


def known(*members: HostInfo) -> ClusterMap:
    return ClusterMap(tuple(HostMetadata(member) for member in members), 4)


def knowing(host: HostInfo, members: ClusterMap, network: Network, **others: Any) -> Components:
    return components_of(boards_view({}), cluster=lambda: members, host=host, transport=network, **others)


@asynccontextmanager
async def looking(
    network: Network, *, is_away: Callable[[], bool] = lambda: True, cluster: ClusterMap | None = None, **others: Any
) -> AsyncIterator[list[str]]:
    """Have an instance look that knows a group of three; yield how often it has given up."""
    given_up: list[str] = []
    here = knowing(HERE, cluster or known(HERE, B, C), network, **others)
    running = asyncio.create_task(LeftOut(here, is_away, lambda: given_up.append("once")).run())
    yield given_up
    assert not running.done()
    running.cancel()
    await asyncio.wait([running])


async def asked(network: Network, times: int) -> None:
    before = len(network.requests)
    await eventually(lambda: len(network.requests) >= before + times)


async def test_it_gives_up_once_when_another_one_knows_a_group_without_it(caplog: pytest.LogCaptureFixture) -> None:
    network = Network()
    for host in (B, C):
        network.apps[host] = create_app(knowing(host, known(B, C), network))
    async with looking(network) as given_up:
        await eventually(lambda: bool(given_up))
        await asyncio.sleep(0.05)
    assert given_up == ["once"]
    assert network.requests == [(B, "/hosts")]
    assert caplog.messages == [
        "the group goes on without this instance, says b:7000: others answer until Kafka does here"
    ]


@pytest.mark.parametrize(
    "theirs",
    [
        pytest.param(known(HERE, B, C), id="Kafka is away for all"),
        pytest.param(known(), id="it knows no group yet"),
        pytest.param(known(C), id="it is left out itself"),
    ],
)
async def test_it_stays_what_it_is_where_another_one_knows_no_better(theirs: ClusterMap) -> None:
    network = Network()
    network.apps[B] = create_app(knowing(B, theirs, network))
    async with looking(network, cluster=known(HERE, B)) as given_up:
        await asked(network, 3)
    assert given_up == []


async def test_one_that_does_not_tell_keeps_it_from_asking_no_other_one() -> None:
    network = Network()
    network.errors[B] = httpx.ConnectTimeout("it is silent")
    network.apps[C] = create_app(knowing(C, known(B, C), network))
    async with looking(network) as given_up:
        await eventually(lambda: bool(given_up))
    assert network.requests == [(B, "/hosts"), (C, "/hosts")]


async def test_it_asks_nobody_while_kafka_answers() -> None:
    network = Network()
    looked = 0

    def is_away() -> bool:
        nonlocal looked
        looked += 1
        return False

    async with looking(network, is_away=is_away) as given_up:
        await eventually(lambda: looked > 3)
    assert network.requests == []
    assert given_up == []


async def test_kafka_that_answers_meanwhile_counts_more() -> None:
    network = Network()
    network.apps[B] = create_app(knowing(B, known(B), network))
    async with looking(network, is_away=lambda: not network.requests, cluster=known(HERE, B)) as given_up:
        await asked(network, 1)
        await asyncio.sleep(0.05)
    assert given_up == []


async def test_it_shows_the_token_of_peers() -> None:
    network = Network()
    tokens = Tokens(api=("client",), peer=("peer",))
    network.apps[B] = create_app(knowing(B, known(B), network, tokens=tokens))
    async with looking(network, cluster=known(HERE, B), tokens=tokens) as given_up:
        await eventually(lambda: bool(given_up))
    assert network.authorizations == ["Bearer peer"]

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


class Instance:
    """What an instance does that looks.

    Attributes:
        cluster: the map that it goes by.
        given_up: the maps that it was told when it gave up.
        came_back: how often it has asked for an assignment.
    """

    def __init__(self, cluster: ClusterMap) -> None:
        self.cluster = cluster
        self.given_up: list[ClusterMap] = []
        self.came_back = 0

    def give_up(self, cluster: ClusterMap) -> None:
        self.cluster = cluster
        self.given_up.append(cluster)

    def come_back(self) -> None:
        self.came_back += 1


@asynccontextmanager
async def looking(
    network: Network, *, is_away: Callable[[], bool] = lambda: True, cluster: ClusterMap | None = None, **others: Any
) -> AsyncIterator[Instance]:
    """Have an instance look that knows a group of three."""
    here = Instance(cluster or known(HERE, B, C))
    components = components_of(boards_view({}), cluster=lambda: here.cluster, host=HERE, transport=network, **others)
    running = asyncio.create_task(LeftOut(components, is_away, here.give_up, here.come_back).run())
    yield here
    assert not running.done()
    running.cancel()
    await asyncio.wait([running])


async def asked(network: Network, times: int) -> None:
    before = len(network.requests)
    await eventually(lambda: len(network.requests) >= before + times)


async def test_it_gives_up_and_goes_by_the_map_of_another_one_that_knows_a_group_without_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network = Network()
    theirs = ClusterMap(
        (HostMetadata(B, frozenset({0, 3}), frozenset({1}), runs_stream=True), HostMetadata(C, frozenset({1, 2}))), 4
    )
    network.apps[B] = create_app(knowing(B, theirs, network))
    async with looking(network) as here:
        await eventually(lambda: bool(here.given_up))
        await asked(network, 3)
        assert here.given_up == [theirs]
        # The group goes on, and somebody else is asked where the first one does not answer.
        network.errors[B] = httpx.ConnectError("it is gone")
        network.apps[C] = create_app(knowing(C, known(C), network))
        await eventually(lambda: len(here.given_up) == 2)
        assert here.cluster == known(C)
    assert set(network.requests) == {(B, "/hosts"), (C, "/hosts")}
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
    async with looking(network, cluster=known(HERE, B)) as here:
        await asked(network, 3)
    assert here.given_up == []


@pytest.mark.parametrize("anew", [True, False])
async def test_it_asks_for_an_assignment_when_kafka_answers_and_none_has_come(anew: bool) -> None:
    network = Network()
    network.apps[B] = create_app(knowing(B, known(B), network))
    away = True
    looked = 0

    def is_away() -> bool:
        nonlocal looked
        looked += 1
        return away

    async with looking(network, is_away=is_away, cluster=known(HERE, B)) as here:
        await eventually(lambda: bool(here.given_up))
        if anew:
            here.cluster = known(HERE, B)
        away, before = False, looked
        await eventually(lambda: looked > before + 3)
    assert here.came_back == (0 if anew else 1)


async def test_it_asks_nobody_while_kafka_answers() -> None:
    network = Network()
    looked = 0

    def is_away() -> bool:
        nonlocal looked
        looked += 1
        return False

    async with looking(network, is_away=is_away) as here:
        await eventually(lambda: looked > 3)
    assert network.requests == []
    assert (here.given_up, here.came_back) == ([], 0)


async def test_kafka_that_answers_meanwhile_counts_more() -> None:
    network = Network()
    network.apps[B] = create_app(knowing(B, known(B), network))
    async with looking(network, is_away=lambda: not network.requests, cluster=known(HERE, B)) as here:
        await asked(network, 1)
        await asyncio.sleep(0.05)
    assert here.given_up == []


async def test_it_shows_the_token_of_peers() -> None:
    network = Network()
    tokens = Tokens(api=("client",), peer=("peer",))
    network.apps[B] = create_app(knowing(B, known(B), network, tokens=tokens))
    async with looking(network, cluster=known(HERE, B), tokens=tokens) as here:
        await eventually(lambda: bool(here.given_up))
    assert set(network.authorizations) == {"Bearer peer"}

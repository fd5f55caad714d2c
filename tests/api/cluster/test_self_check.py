"""An instance finds out that nobody can reach it where it says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from api.cluster import self_check
from api.cluster.self_check import SelfCheck
from api.components import Components
from api.main import create_app
from runtime.cluster.host_metadata import ClusterMap, HostInfo
from tests.drivers.cluster import Network
from tests.drivers.declared import boards_view, components_of
from tests.drivers.eventually import eventually

pytestmark = pytest.mark.anyio

HERE = HostInfo("here", 7000)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_check, "_EVERY_S", 0.001)


def components(network: Network) -> Components:
    return components_of(boards_view({}), cluster=lambda: ClusterMap((), 4), host=HERE, transport=network)


@asynccontextmanager
async def checking(of: Components) -> AsyncIterator[SelfCheck]:
    check = SelfCheck(of)
    running = asyncio.create_task(check.run())
    yield check
    running.cancel()
    await asyncio.wait([running])


async def asked(network: Network, times: int) -> None:
    before = len(network.requests)
    await eventually(lambda: len(network.requests) >= before + times)


async def test_an_instance_that_is_reached_has_nothing_to_say() -> None:
    network = Network()
    of = components(network)
    network.apps[HERE] = create_app(of)
    async with checking(of) as check:
        await asked(network, 3)
        assert check.reason is None


async def test_an_address_that_was_never_reached_is_said_at_once(caplog: pytest.LogCaptureFixture) -> None:
    network = Network()
    async with checking(components(network)) as check:
        await eventually(lambda: check.reason is not None)
        assert check.reason == (
            "it does not reach itself at here:7000: it refused the connection (nobody listens); set"
            " LEADERBOARD_ADVERTISED to the address at which the other instances reach this one"
        )
        await asked(network, 5)
    assert caplog.messages == [
        "not reached at the advertised address here:7000: it refused the connection (nobody listens)"
    ]


async def test_another_instance_at_the_address_does_not_pass_for_this_one() -> None:
    network = Network()
    network.apps[HERE] = create_app(components(network))
    async with checking(components(network)) as check:
        await eventually(lambda: check.reason is not None)
        assert "something else answers there (200)" in str(check.reason)


class Moody(Network):
    """Fails those requests that it is told to, by their number, and takes down what the check says at each."""

    def __init__(self, failing: range) -> None:
        super().__init__()
        self.check: SelfCheck | None = None
        self.failing = failing
        self.reasons: list[str | None] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.reasons.append(self.check.reason if self.check else None)
        if len(self.reasons) - 1 in self.failing:
            raise httpx.ReadTimeout("silent")
        return await super().handle_async_request(request)


@pytest.mark.parametrize(("failures", "said"), [(4, 0), (5, 1), (8, 4)])
async def test_a_passing_failure_is_forgiven_and_a_lasting_one_is_not(failures: int, said: int) -> None:
    network = Moody(range(2, 2 + failures))
    of = components(network)
    network.apps[HERE] = create_app(of)
    async with checking(of) as network.check:
        await eventually(lambda: len(network.reasons) >= failures + 6)
        assert network.check.reason is None
    assert [reason for reason in network.reasons if reason] == [network.reasons[2 + failures]] * said

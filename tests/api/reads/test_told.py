"""No answer of an instance is older than one that it gave before, whichever copy gives it."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from api.reads import demand, told
from tests.drivers.cluster import Cluster, Network
from tests.drivers.fake_view import TOPIC_ID, board_of
from tests.waiting import UNHURRIED_S

STORE = "leader-boards"
PATHS = [
    "/leaderboard/1",
    f"/stores/{STORE}/keys/1",
    "/leaderboard",
    "/leaderboard/count",
    f"/stores/{STORE}/keys",
    f"/stores/{STORE}/keys?key=1",
    f"/stores/{STORE}/keys?page_size=5",
    f"/stores/{STORE}/count",
]
MANY = [path for path in PATHS if not path.endswith("/1")]
OTHER_TOPIC = "c5a1f0de-0000-4000-8000-000000000099"


def cluster_of(*, nearest: bool = True, network: Network | None = None) -> Cluster:
    """Three instances that have answered nothing; the active copies are at offset 10, the standbys at 7."""
    cluster = Cluster({each: board_of(each) for each in range(1, 30)}, nearest=nearest, network=network)
    for view in cluster.views:
        for partition, status in view.statuses.items():
            offset = 10 if status.role == "active" else 7
            view.statuses[partition] = status._replace(position=offset, is_followed=True, lag=10 - offset)
    return cluster


def come_to(cluster: Cluster, number: int, offset: int, topic_id: str = TOPIC_ID) -> None:
    """Have all copies of an instance at an offset."""
    view = cluster.views[number]
    for partition, status in view.statuses.items():
        view.statuses[partition] = status._replace(position=offset, topic_id=topic_id)


def make_current(cluster: Cluster, number: int) -> None:
    """Have all copies of an instance current."""
    view = cluster.views[number]
    view.statuses = {each: status._replace(is_current=True, lag=0) for each, status in view.statuses.items()}


async def waits(asked: asyncio.Task[object]) -> bool:
    """Return whether an answer is waited for, when all that needs no waiting has been done."""
    await asyncio.sleep(0.05)
    return not asked.done()


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing ends a wait but what is waited for: a test that waits in vain fails by the limit of `answered`."""
    monkeypatch.setattr(told, "WITHIN_S", 2 * UNHURRIED_S)


async def answered(cluster: Cluster, path: str, at: int) -> httpx.Response:
    """Return an answer that is not to wait."""
    async with asyncio.timeout(UNHURRIED_S):
        return await cluster.get(path, at=at)


@pytest.mark.parametrize("path", PATHS)
async def test_a_standby_here_comes_to_where_the_active_copy_was_before_it_answers(path: str) -> None:
    cluster = cluster_of(nearest=False)
    active, standby, _ = cluster.holders(1)
    assert (await cluster.get(path, at=standby)).status_code == 200
    cluster.kill(active)
    asked = asyncio.create_task(cluster.get(path, at=standby))
    assert await waits(asked)
    for number in range(3):
        come_to(cluster, number, 10)
    assert (await asked).status_code == 200


@pytest.mark.parametrize("path", PATHS)
async def test_a_standby_elsewhere_comes_to_where_the_active_copy_was_before_it_answers(path: str) -> None:
    cluster = cluster_of()
    active, _, other = cluster.holders(1)
    assert (await cluster.get(path, at=other)).status_code == 200
    cluster.kill(active)
    asked = asyncio.create_task(cluster.get(path, at=other))
    assert await waits(asked)
    for number in range(3):
        come_to(cluster, number, 10)
    assert (await asked).status_code == 200


@pytest.mark.parametrize("path", PATHS)
async def test_a_copy_here_that_becomes_current_has_to_be_as_far_as_the_peer_was(path: str) -> None:
    cluster = cluster_of()
    _, standby, _ = cluster.holders(1)
    assert (await cluster.get(path, at=standby)).status_code == 200
    make_current(cluster, standby)
    asked = asyncio.create_task(cluster.get(path, at=standby))
    assert await waits(asked)
    come_to(cluster, standby, 10)
    assert (await asked).status_code == 200


async def test_a_peer_that_is_behind_the_copy_here_is_asked_to_come_as_far() -> None:
    cluster = cluster_of()
    active, standby, _ = cluster.holders(1)
    assert (await cluster.get("/leaderboard/1", at=active)).headers["x-served-by"] == str(cluster.hosts[active])
    cluster.views[active].statuses = {}
    asked = asyncio.create_task(cluster.get("/leaderboard/1", at=active))
    assert await waits(asked)
    come_to(cluster, standby, 10)
    answer = await asked
    assert answer.headers["x-served-by"] == str(cluster.hosts[standby])
    now = await cluster.get("/leaderboard/1", at=standby)
    assert answer.headers["x-store-position"] == now.headers["x-store-position"]
    assert f"min_position={now.headers['x-store-position']}" in cluster.network.requests[1][1]


@pytest.mark.parametrize("path", PATHS)
async def test_what_no_copy_comes_to_is_answered_all_the_same_and_not_waited_for_again(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = cluster_of(nearest=False)
    active, standby, _ = cluster.holders(1)
    assert (await cluster.get(path, at=standby)).status_code == 200
    cluster.kill(active)
    with monkeypatch.context() as soon:
        soon.setattr(told, "WITHIN_S", 0.1)
        first = await cluster.get(path, at=standby)
    again = await answered(cluster, path, standby)
    assert (again.status_code, again.content) == (first.status_code, first.content)


def requiring_active(path: str) -> str:
    return f"{path}{'&' if '?' in path else '?'}require=active"


def tell_apart(cluster: Cluster) -> None:
    """Have each instance show rows of its own: so many entries of each board as its number says, and so many boards."""
    for number, view in enumerate(cluster.views, start=1):
        view.shared_rows = {each: board_of(each, number) for each in range(1, 20 + number)}


async def answered_before_kafka_went(cluster: Cluster, path: str, number: int) -> httpx.Response:
    """Return what an instance has answered from its own copies, which do not know any more how far they are behind."""
    view = cluster.views[number]
    held = dict(view.statuses)
    make_current(cluster, number)
    here = await answered(cluster, path, number)
    view.statuses = {each: status._replace(is_followed=False) for each, status in held.items()}
    return here


@pytest.mark.parametrize("path", PATHS)
async def test_the_copy_here_answers_where_peers_are_behind_it(path: str) -> None:
    cluster = cluster_of()
    tell_apart(cluster)
    _, standby, _ = cluster.holders(1)
    come_to(cluster, standby, 12)
    here = await answered_before_kafka_went(cluster, path, standby)
    again = await answered(cluster, path, standby)
    assert cluster.network.requests, "a copy that does not know how far it is behind is not the first choice"
    assert (again.status_code, again.content) == (200, here.content)


@pytest.mark.parametrize("path", PATHS)
async def test_the_next_holder_answers_where_the_first_stays_behind(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told, "WITHIN_S", 0.1)
    monkeypatch.setattr(demand, "WITHIN_S", 0.1)
    cluster = cluster_of()
    tell_apart(cluster)
    active, standby, other = cluster.holders(1)
    come_to(cluster, standby, 12)
    cluster.kill(active)
    newest = await answered(cluster, path, other)
    cluster.revive(active)
    cluster.clock.now += 60
    before = len(cluster.network.requests)
    again = await answered(cluster, path, other)
    assert cluster.hosts[active] in {host for host, _ in cluster.network.requests[before:]}
    assert (again.status_code, again.content) == (200, newest.content)


@pytest.mark.parametrize("path", PATHS)
async def test_a_peer_that_is_behind_answers_where_the_copy_here_cannot_be_read(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(told, "WITHIN_S", 0.1)
    cluster = cluster_of()
    active, _, _ = cluster.holders(1)
    come_to(cluster, active, 12)
    assert (await answered(cluster, path, active)).status_code == 200
    cluster.views[active].unreadable = True
    assert (await answered(cluster, path, active)).status_code == 200


@pytest.mark.parametrize("path", PATHS)
async def test_the_active_copy_is_waited_for_where_only_it_may_answer(path: str) -> None:
    cluster = cluster_of()
    active, standby, _ = cluster.holders(1)
    come_to(cluster, standby, 12)
    make_current(cluster, standby)
    assert (await answered(cluster, path, standby)).status_code == 200
    asked = asyncio.create_task(cluster.get(requiring_active(path), at=standby))
    assert await waits(asked)
    for number in range(3):
        come_to(cluster, number, 12)
    assert (await asked).status_code == 200
    assert cluster.hosts[active] in {host for host, target in cluster.network.requests if "require=active" in target}


@pytest.mark.parametrize("path", PATHS)
async def test_what_is_told_while_a_read_waits_does_not_bind_it(path: str) -> None:
    cluster = cluster_of()
    active, standby, _ = cluster.holders(1)
    make_current(cluster, standby)
    assert (await answered(cluster, requiring_active(path), standby)).status_code == 200
    asked = asyncio.create_task(cluster.get(path, at=standby))
    assert await waits(asked)
    come_to(cluster, active, 12)
    assert (await answered(cluster, requiring_active(path), standby)).status_code == 200
    come_to(cluster, standby, 10)
    async with asyncio.timeout(UNHURRIED_S):
        assert (await asked).status_code == 200


@pytest.mark.parametrize("path", PATHS)
async def test_what_only_the_active_copy_may_answer_is_not_forgotten_for_others(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(told, "WITHIN_S", 0.1)
    monkeypatch.setattr(demand, "WITHIN_S", 0.1)
    cluster = cluster_of()
    tell_apart(cluster)
    active, standby, other = cluster.holders(1)
    come_to(cluster, other, 12)
    come_to(cluster, standby, 12)
    here = await answered_before_kafka_went(cluster, path, standby)
    of_active = await answered(cluster, requiring_active(path), standby)
    again = await answered(cluster, path, standby)
    assert (of_active.status_code, again.status_code, again.content) == (200, 200, here.content)
    assert cluster.hosts[active] in {host for host, _ in cluster.network.requests}


class EndsWhenWaitedFor(Network):
    """Carries requests to instances that end when a copy is to come to a position."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request, or fail as a host that has ended."""
        if b"once_at" in request.url.query:
            raise httpx.ReadError("it has ended")
        return await super().handle_async_request(request)


@pytest.mark.parametrize("path", MANY)
async def test_what_a_peer_has_answered_stands_when_it_ends_while_it_is_waited_for(path: str) -> None:
    cluster = cluster_of(nearest=False, network=EndsWhenWaitedFor())
    active, _, other = cluster.holders(1)
    first = await answered(cluster, path, other)
    view, partition = cluster.views[active], cluster.views[active].partition_for(1)
    view.statuses[partition] = view.statuses[partition]._replace(position=9)
    again = await answered(cluster, path, other)
    assert (again.status_code, again.content) == (200, first.content)


@pytest.mark.parametrize("path", PATHS)
async def test_a_copy_that_cannot_answer_is_not_waited_for(path: str) -> None:
    cluster = cluster_of(nearest=False)
    active, standby, _ = cluster.holders(1)
    assert (await cluster.get(path, at=standby)).status_code == 200
    cluster.kill(active)
    for number in range(3):
        come_to(cluster, number, 10)
    view = cluster.views[standby]
    view.statuses = {each: status._replace(can_answer=False, position=7) for each, status in view.statuses.items()}
    assert (await answered(cluster, path, standby)).status_code == 503


@pytest.mark.parametrize("path", PATHS)
async def test_a_topic_that_was_created_anew_begins_anew(path: str) -> None:
    cluster = cluster_of()
    _, _, other = cluster.holders(1)
    assert (await cluster.get(path, at=other)).status_code == 200
    for number in range(3):
        come_to(cluster, number, 2, OTHER_TOPIC)
    assert (await answered(cluster, path, other)).status_code == 200


@pytest.mark.parametrize("path", PATHS)
async def test_peers_are_asked_once_while_all_go_on(path: str) -> None:
    cluster = cluster_of()
    _, _, other = cluster.holders(1)
    for offset in (10, 11, 12):
        for number in range(3):
            come_to(cluster, number, offset)
        before = len(cluster.network.requests)
        assert (await cluster.get(path, at=other)).status_code == 200
        hosts = [host for host, _ in cluster.network.requests[before:]]
        assert len(hosts) == len(set(hosts))


@pytest.mark.parametrize("positions", ["", "none", "\u00e4,"])
@pytest.mark.parametrize("path", MANY)
async def test_a_peer_of_another_version_tells_no_positions(
    path: str, positions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.reads.internal.Position.text", lambda *_: positions)
    cluster = cluster_of()
    _, _, other = cluster.holders(1)
    assert (await cluster.get(path, at=other)).status_code == 200

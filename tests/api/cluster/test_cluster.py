"""Three instances in one process: any of them answers any key, and losing one is not noticed."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from runtime.cluster.host_metadata import HostInfo
from runtime.serving.view import NotMade
from tests.drivers.cluster import Cluster
from tests.drivers.fake_view import ABSENT, board_of

IDS = [-3, *range(1, 30)]
MISSING = [0, 77, 78, 79, 80]
INSTANCES = [0, 1, 2]


@pytest.fixture
def cluster() -> Cluster:
    """Three instances, four partitions, one standby each."""
    return Cluster({each: board_of(each) for each in IDS})


async def everywhere(cluster: Cluster, target: str, instances: list[int] = INSTANCES) -> httpx.Response:
    """Return the answer to `target` after checking that every instance gives the same one."""
    answers = [await cluster.get(target, at=number) for number in instances]
    assert len({(answer.status_code, answer.content) for answer in answers}) == 1
    assert len({answer.headers["content-type"] for answer in answers}) == 1
    return answers[0]


@pytest.mark.parametrize("query", ["", "?limit=1", "?limit=10"])
async def test_every_key_has_the_same_answer_at_every_instance(cluster: Cluster, query: str) -> None:
    for product_id in IDS:
        assert (await everywhere(cluster, f"/leaderboard/{product_id}{query}")).status_code == 200
    for product_id in MISSING:
        assert (await everywhere(cluster, f"/leaderboard/{product_id}{query}")).status_code == 404


@pytest.mark.parametrize("product_id", [*IDS[:8], *MISSING])
async def test_the_active_copy_answers_wherever_it_is(cluster: Cluster, product_id: int) -> None:
    active = cluster.holders(product_id)[0]
    for number in INSTANCES:
        response = await cluster.get(f"/leaderboard/{product_id}", at=number)
        assert response.headers["x-served-by"] == str(cluster.hosts[active])
        assert response.headers["x-store-role"] == "active"
        assert response.headers["x-store-lag"] == "0"
    assert len(cluster.network.requests) == len(INSTANCES) - 1


@pytest.mark.parametrize("number", INSTANCES)
async def test_a_forwarded_board_is_304_for_a_client_that_has_it(cluster: Cluster, number: int) -> None:
    tag = (await cluster.get("/leaderboard/1", at=number)).headers["etag"]
    response = await cluster.get("/leaderboard/1", at=number, if_none_match=tag)
    assert (response.status_code, response.content, response.headers["etag"]) == (304, b"", tag)
    assert response.headers["x-store-role"] == "active"
    refused = await cluster.get("/leaderboard/1", at=number, if_none_match="\x01")
    assert refused.status_code == 200


async def test_all_range_and_count_are_the_same_at_every_instance(cluster: Cluster) -> None:
    whole = await everywhere(cluster, "/leaderboard")
    assert list(whole.json()) == [str(each) for each in sorted(IDS)]
    part = await everywhere(cluster, "/leaderboard/-3/12?limit=1")
    assert list(part.json()) == [str(each) for each in sorted(IDS) if each <= 12]
    assert (await everywhere(cluster, "/leaderboard/count")).content == b"30"
    assert (await everywhere(cluster, "/leaderboard/100/200")).content == b"{}"


async def test_local_counts_sum_up_to_the_count(cluster: Cluster) -> None:
    counts = [(await cluster.get("/leaderboard/count/local", at=number)).json() for number in INSTANCES]
    assert sum(counts) == len(IDS)
    assert all(counts)


async def test_a_gather_asks_each_host_once(cluster: Cluster) -> None:
    await cluster.get("/leaderboard")
    assert sorted(cluster.network.requests) == [
        (cluster.hosts[1], "/internal/stores/leader-boards/range?partitions=1&limit=3&most=1000"),
        (cluster.hosts[2], "/internal/stores/leader-boards/range?partitions=2&limit=3&most=1000"),
    ]


FAILURES = [
    httpx.ConnectError("refused"),
    httpx.ConnectTimeout("slow"),
    httpx.ReadTimeout("frozen"),
    httpx.ReadError("killed"),
]


@pytest.mark.parametrize("killed", INSTANCES)
@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
async def test_losing_an_instance_is_not_noticed(cluster: Cluster, killed: int, error: Exception) -> None:
    before = {target: (await cluster.get(target)).content for target in targets()}
    cluster.kill(killed, error)
    survivors = [number for number in INSTANCES if number != killed]
    for target, content in before.items():
        response = await everywhere(cluster, target, survivors)
        assert response.content == content
        assert "x-missing-partitions" not in response.headers


def targets() -> list[str]:
    """Return a path of every kind."""
    return [f"/leaderboard/{each}" for each in (*IDS[:8], *MISSING)] + [
        "/leaderboard", "/leaderboard/-3/12", "/leaderboard/count",
    ]  # fmt: skip


async def test_a_standby_answers_for_a_lost_instance_and_says_so(cluster: Cluster) -> None:
    active, standby, other = cluster.holders(1)
    cluster.kill(active)
    for number in (standby, other):
        response = await cluster.get("/leaderboard/1", at=number)
        assert response.headers["x-served-by"] == str(cluster.hosts[standby])
        assert response.headers["x-store-role"] == "standby"
        assert response.headers["x-store-lag"] == str(standby)


async def test_a_lost_instance_is_asked_last_until_a_short_time_has_passed(cluster: Cluster) -> None:
    active, standby, other = cluster.holders(1)
    cluster.kill(active)

    async def asked() -> list[HostInfo]:
        cluster.network.requests.clear()
        assert (await cluster.get("/leaderboard/1", at=other)).status_code == 200
        return [host for host, _ in cluster.network.requests]

    assert await asked() == [cluster.hosts[active], cluster.hosts[standby]]
    assert await asked() == [cluster.hosts[standby]]
    cluster.clock.now += 2.1
    assert await asked() == [cluster.hosts[active], cluster.hosts[standby]]
    cluster.revive(active)
    cluster.clock.now += 2.1
    assert await asked() == [cluster.hosts[active]]
    assert await asked() == [cluster.hosts[active]]


async def test_hosts_that_are_down_are_still_asked_when_nobody_else_is_left(cluster: Cluster) -> None:
    active, standby, other = cluster.holders(1)
    cluster.kill(active)
    cluster.kill(standby)
    assert (await cluster.get("/leaderboard/1", at=other)).status_code == 503
    cluster.revive(standby)
    assert (await cluster.get("/leaderboard/1", at=other)).status_code == 200


async def test_a_holder_that_is_not_restored_yet_is_passed_over(cluster: Cluster) -> None:
    active, standby, other = cluster.holders(1)
    cluster.views[active].statuses[cluster.views[0].partition_for(1)] = ABSENT
    for number in (active, standby, other):
        response = await cluster.get("/leaderboard/1", at=number)
        assert response.status_code == 200
        assert response.headers["x-served-by"] == str(cluster.hosts[standby])
    assert (await everywhere(cluster, "/leaderboard/count")).content == b"30"


@pytest.mark.parametrize("broken", INSTANCES)
async def test_a_holder_whose_store_cannot_be_read_is_passed_over(cluster: Cluster, broken: int) -> None:
    before = {target: (await cluster.get(target)).content for target in targets()}
    cluster.views[broken].unreadable = True
    for target, content in before.items():
        response = await everywhere(cluster, target)
        assert response.content == content
        assert "x-missing-partitions" not in response.headers


async def test_what_another_copy_answered_for_a_store_that_cannot_be_read_is_not_kept() -> None:
    cluster = Cluster({1: board_of(1)}, size=2, partitions=1)
    cluster.views[0].unreadable = True
    for entries in (board_of(1, 3), board_of(1, 2)):
        cluster.change(1, entries, at=[1])
        assert (await cluster.get("/leaderboard")).content == (await cluster.get("/leaderboard", at=1)).content


async def test_a_store_that_cannot_be_read_is_503_where_there_is_no_other_and_tells_no_internals(
    cluster: Cluster,
) -> None:
    for view in cluster.views:
        view.unreadable = True
    paths = ["/leaderboard/1", "/leaderboard/1?limit=5", "/leaderboard", "/leaderboard/1/6", "/leaderboard/count"]
    for target in [*paths, "/leaderboard/count/local"]:
        for number in INSTANCES:
            response = await cluster.get(target, at=number)
            assert response.status_code == 503, target
            assert "secret" not in response.text
    assert "its store cannot be read now" in (await cluster.get("/leaderboard/count/local")).json()["detail"]


async def test_whoever_cannot_count_yet_is_no_worse_to_ask_for_rows(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def making(*_: object) -> int:
        raise NotMade("rows are being made")

    for view in cluster.views:
        monkeypatch.setattr(view, "count", making)
    refused = await cluster.get("/leaderboard/count")
    assert (refused.status_code, "rows are being made" in refused.json()["detail"]) == (503, True)
    for product_id in IDS:
        answer = await cluster.get(f"/leaderboard/{product_id}")
        assert answer.headers["x-served-by"] == str(cluster.hosts[cluster.holders(product_id)[0]])
        assert answer.headers["x-store-role"] == "active"
    assert "leaderboard_hosts_down 0.0" in (await cluster.get("/metrics")).text


async def test_a_part_is_never_passed_off_as_the_whole(cluster: Cluster) -> None:
    cluster.kill(1)
    cluster.kill(2)
    # Instance 0 is active for partitions 0 and 3 and standby for 2; the copies of partition 1 are on 1 and 2.
    for target in ("/leaderboard", "/leaderboard/-3/12", "/leaderboard/count"):
        refused = await cluster.get(target)
        assert refused.status_code == 503
        assert refused.json()["partitions"] == [1]
        assert "partial=true" in refused.json()["detail"]
        assert refused.headers["retry-after"] == "1"
        part = await cluster.get(f"{target}?partial=true")
        assert part.status_code == 200
        assert part.headers["x-missing-partitions"] == "1"
    held = {str(each) for each in IDS if cluster.views[0].partition_for(each) != 1}
    assert set((await cluster.get("/leaderboard?partial=true")).json()) == held
    assert (await cluster.get("/leaderboard/count?partial=true")).json() == len(held)


async def test_a_key_without_a_copy_is_503_with_every_reason(cluster: Cluster) -> None:
    product_id = next(each for each in IDS if cluster.views[0].partition_for(each) == 1)
    cluster.kill(1)
    cluster.kill(2, httpx.ReadTimeout("frozen"))
    response = await cluster.get(f"/leaderboard/{product_id}")
    assert response.status_code == 503
    assert "instance-1:7000: it refused the connection" in response.json()["detail"]
    assert "instance-2:7000: it did not answer in time" in response.json()["detail"]
    assert response.json()["partitions"] == [1]


@pytest.mark.parametrize(
    "target", ["/leaderboard/1", "/leaderboard/1?foo", "/leaderboard", "/leaderboard/1/9", "/leaderboard/count"]
)
async def test_a_hop_header_from_outside_never_forwards(cluster: Cluster, target: str) -> None:
    for number in INSTANCES:
        response = await cluster.get(target, at=number, x_leaderboard_hop="1")
        assert response.status_code in (200, 503)
    assert cluster.network.requests == []


async def test_a_map_that_everybody_reads_wrongly_does_not_loop(cluster: Cluster) -> None:
    for view in cluster.views:
        view.statuses.clear()
    for number in INSTANCES:
        cluster.network.requests.clear()
        assert (await cluster.get("/leaderboard/1", at=number)).status_code == 503
        assert len(cluster.network.requests) <= 2


@pytest.mark.parametrize("body", [b"", b"x", b"\x00" * 12 + b"\xff", b"<html>"])
@pytest.mark.parametrize(
    "headers",
    [{}, {"x-partitions": "1"}, {"x-served-by": "me"}, {"x-served-by": "me", "x-partitions": "1,,99999999999"}],
)
async def test_a_stranger_at_a_members_address_is_passed_over(
    cluster: Cluster, body: bytes, headers: dict[str, str]
) -> None:
    async def stranger(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(body, headers=headers)(scope, receive, send)

    whole = {target: (await cluster.get(target, at=1)).content for target in ("/leaderboard", "/leaderboard/count")}
    cluster.network.apps[cluster.hosts[0]] = stranger
    for target, content in whole.items():
        assert (await cluster.get(target, at=1)).content == content
        assert (await cluster.get(target, at=1)).content == (await cluster.get(target, at=2)).content
        assert (await cluster.get(target, at=2)).status_code == 200


async def test_a_member_of_another_depth_is_passed_over(cluster: Cluster) -> None:
    shallow = Cluster({each: board_of(each) for each in IDS}, depth=2)
    active, standby, other = cluster.holders(1)
    cluster.network.apps[cluster.hosts[active]] = shallow.network.apps[shallow.hosts[active]]
    response = await cluster.get("/leaderboard/1?limit=5", at=other)
    assert len(response.json()) == 5
    assert response.headers["x-served-by"] == str(cluster.hosts[standby])


async def test_reads_at_the_same_time_do_not_mix(cluster: Cluster) -> None:
    expected = {each: (await cluster.get(f"/leaderboard/{each}")).content for each in IDS}
    async with cluster.client(2) as client:
        answers = await asyncio.gather(*(client.get(f"/leaderboard/{each}") for each in IDS * 3))
    assert [answer.content for answer in answers] == [expected[each] for each in IDS * 3]

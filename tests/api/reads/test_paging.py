"""Pages of all boards: ascending, each board once, the same at every instance."""

from __future__ import annotations

import httpx
import pytest

from runtime.records import ID_MAX, ID_MIN
from tests.drivers.cluster import Cluster
from tests.drivers.fake_view import board_of

IDS = [ID_MIN, -3, 0, *range(1, 30), 100, ID_MAX]
INSTANCES = [0, 1, 2]


@pytest.fixture
def cluster() -> Cluster:
    """Three instances, four partitions, one standby each."""
    return Cluster({each: board_of(each) for each in IDS})


async def pages(cluster: Cluster, target: str, at: int) -> list[httpx.Response]:
    """Follow the links from a page to the last one."""
    found = []
    next_target: str | None = target
    while next_target is not None:
        response = await cluster.get(next_target, at=at)
        assert response.status_code == 200
        found.append(response)
        link = response.headers.get("link")
        next_target = None if link is None else link.removeprefix("<").removesuffix('>; rel="next"')
    return found


@pytest.mark.parametrize("size", [1, 2, 7, len(IDS) - 1, len(IDS), len(IDS) + 1, 1000])
@pytest.mark.parametrize("query", ["", "&limit=1", "&limit=10&partial=true"])
async def test_all_pages_together_are_all_boards(cluster: Cluster, size: int, query: str) -> None:
    whole = (await cluster.get(f"/leaderboard?{query.removeprefix('&')}")).json()
    for number in INSTANCES:
        found = await pages(cluster, f"/leaderboard?page_size={size}{query}", number)
        assert [len(each.json()) for each in found[:-1]] == [size] * (len(found) - 1)
        assert 1 <= len(found[-1].json()) <= size
        together = [pair for each in found for pair in each.json().items()]
        assert together == list(whole.items())


async def test_a_page_is_the_same_at_every_instance(cluster: Cluster) -> None:
    answers = [await cluster.get("/leaderboard?page_size=3&after=-3", at=number) for number in INSTANCES]
    assert len({answer.content for answer in answers}) == 1
    assert len({answer.headers["link"] for answer in answers}) == 1
    assert list(answers[0].json()) == ["0", "1", "2"]
    assert answers[0].headers["link"] == '</leaderboard?page_size=3&after=2>; rel="next"'


@pytest.mark.parametrize(
    ("after", "first"), [(50, "100"), (100, str(ID_MAX)), (ID_MIN, "-3"), (ID_MAX - 1, str(ID_MAX))]
)
async def test_a_page_begins_after_any_id_whether_it_has_a_board_or_not(
    cluster: Cluster, after: int, first: str
) -> None:
    assert next(iter((await cluster.get(f"/leaderboard?page_size=1&after={after}")).json())) == first


async def test_after_the_last_board_there_is_an_empty_page(cluster: Cluster) -> None:
    response = await cluster.get(f"/leaderboard?page_size=5&after={ID_MAX}")
    assert (response.status_code, response.json()) == (200, {})
    assert "link" not in response.headers


async def test_each_holder_is_asked_for_no_more_than_a_page_and_one(cluster: Cluster) -> None:
    await cluster.get("/leaderboard?page_size=2&after=4")
    assert sorted(target for _, target in cluster.network.requests) == [
        "/internal/stores/leader-boards/range?partitions=1&limit=3&first=5&most=3",
        "/internal/stores/leader-boards/range?partitions=2&limit=3&first=5&most=3",
    ]


async def test_boards_that_come_and_go_between_pages_shift_none(cluster: Cluster) -> None:
    first = await cluster.get("/leaderboard?page_size=5")
    assert list(first.json())[-1] == "2"
    cluster.change(2, [])
    cluster.change(-2, board_of(-2))
    second = await cluster.get("/leaderboard?page_size=5&after=2")
    assert list(second.json()) == ["3", "4", "5", "6", "7"]


async def test_a_page_is_never_a_part_passed_off_as_the_whole(cluster: Cluster) -> None:
    cluster.kill(1)
    cluster.kill(2)
    refused = await cluster.get("/leaderboard?page_size=2")
    assert refused.status_code == 503
    assert refused.headers["cache-control"] == "no-store"
    part = await cluster.get("/leaderboard?page_size=2&partial=true")
    assert part.headers["x-missing-partitions"] == "1"
    assert "partial=true" in part.headers["link"]


@pytest.mark.parametrize(
    "query",
    [
        "page_size=0", "page_size=1001", "page_size=-1", "page_size=x", "page_size=", "page_size=01",
        "after=1", "page_size=1&after=", "page_size=1&after=x", "page_size=1&after=1.0",
        f"page_size=1&after={ID_MAX + 1}",
    ],
)  # fmt: skip
async def test_what_cannot_be_is_refused(cluster: Cluster, query: str) -> None:
    refused = await cluster.get(f"/leaderboard?{query}")
    assert refused.status_code == 400
    assert query.partition("=")[0] in refused.json()["detail"] or "after" in refused.json()["detail"]

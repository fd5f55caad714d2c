"""The routes of players' ranks, at instances that hold the product and at those that do not."""

from __future__ import annotations

import random
import re
import time
from typing import Any

import httpx
import pytest

from api.live.follower import Follower
from runtime.keys import KeyPair, KeyValue
from runtime.serving.ranked_view import RankedView
from tests.api.leaderboard.test_routes import is_problem
from tests.drivers.cluster import Cluster
from tests.drivers.eventually import eventually
from tests.drivers.ranks import RankedInstances, best, expected
from topology.leaderboard.topics import PLAYERS, PRODUCTS

INSTANCES = [0, 1, 2]
SEED = 20261127
PRODUCT = 6
PLAYING = range(1, 40)
NAMES = {player: f"{PLAYERS} {player}" for player in PLAYING}
PATH = f"/leaderboard/{PRODUCT}/players"

_seeded = random.Random(SEED)
SCORES = {
    (product, player): best(float(_seeded.randrange(8)), offset=player * 7919 % 101, partition=player % 2)
    for product in (PRODUCT, 1)
    for player in [*PLAYING, 99]
}
RANKING = expected(SCORES, NAMES, PRODUCT)


@pytest.fixture
def ranked() -> RankedInstances:
    """Three instances; player 99 plays and is unknown, product 7 has no scores."""
    ranked = RankedInstances()
    ranked.names(PLAYING, [1, PRODUCT, 7])
    for (product, player), score in SCORES.items():
        ranked.publish(product, player, score)
    return ranked


async def everywhere(ranked: RankedInstances, target: str) -> httpx.Response:
    """Return the answer that every instance gives."""
    answers = [await ranked.cluster.get(target, at=number) for number in INSTANCES]
    assert (
        len({(each.status_code, each.content, each.headers.get("etag"), each.headers.get("link")) for each in answers})
        == 1
    )
    return answers[0]


def place_of(player: int) -> int:
    return next(at for at, rank in enumerate(RANKING) if rank["playerId"] == player)


@pytest.mark.parametrize("player", [1, 17, 39])
async def test_a_rank_is_the_same_at_every_instance_and_as_it_has_to_be(ranked: RankedInstances, player: int) -> None:
    answer = await everywhere(ranked, f"{PATH}/{player}")
    assert answer.status_code == 200
    assert answer.json() == RANKING[place_of(player)]
    assert answer.headers["x-store-role"] in ("active", "standby")
    assert answer.headers["x-store-position"]
    again = await ranked.cluster.get(f"{PATH}/{player}", if_none_match=answer.headers["etag"])
    assert again.status_code == 304


@pytest.mark.parametrize("around", [0, 1, 5, 50])
async def test_those_around_a_player(ranked: RankedInstances, around: int) -> None:
    for player in (RANKING[0]["playerId"], RANKING[20]["playerId"], RANKING[-1]["playerId"]):
        at = place_of(player)
        answer = await everywhere(ranked, f"{PATH}/{player}?around={around}")
        assert answer.json() == RANKING[max(0, at - around) : at + around + 1]


@pytest.mark.parametrize("player", [99, 100, -1])
async def test_who_is_unknown_or_has_not_played_holds_no_rank(ranked: RankedInstances, player: int) -> None:
    answer = await everywhere(ranked, f"{PATH}/{player}")
    assert is_problem(answer, 404)
    assert answer.json()["type"].endswith("no-such-rank")
    assert answer.json()["instance"] == f"{PATH}/{player}"


@pytest.mark.parametrize("rest", ["", "/1", "/count", "?ids=1", "?page_size=3&from_rank=2"])
async def test_an_unknown_product_has_no_ranks(ranked: RankedInstances, rest: str) -> None:
    answer = await everywhere(ranked, f"/leaderboard/1234/players{rest}")
    assert is_problem(answer, 404)
    assert "1234" in answer.json()["detail"]


async def test_a_product_that_nobody_plays_has_an_empty_ranking(ranked: RankedInstances) -> None:
    path = "/leaderboard/7/players"
    assert (await everywhere(ranked, path)).json() == (await everywhere(ranked, f"{path}?ids=1,2")).json() == []
    assert (await everywhere(ranked, f"{path}/count")).json() == 0


async def test_friends_come_best_first_each_once_and_only_those_who_play(ranked: RankedInstances) -> None:
    answer = await everywhere(ranked, f"{PATH}?ids=30,2,99,2,1234,7")
    assert answer.json() == [rank for rank in RANKING if rank["playerId"] in (2, 7, 30)]


async def test_how_many_hold_a_rank(ranked: RankedInstances) -> None:
    answer = await everywhere(ranked, f"{PATH}/count")
    assert answer.content == str(len(RANKING)).encode()


async def pages(cluster: Cluster, first: str, at: int) -> list[list[Any]]:
    """Follow the links from a page to the last one."""
    found = []
    target: str | None = first
    while target is not None:
        answer = await cluster.get(target, at=at)
        assert answer.status_code == 200
        found.append(answer.json())
        link = re.fullmatch(r'<(.+)>; rel="next"', answer.headers.get("link", ""))
        target = link[1] if link else None
    return found


@pytest.mark.parametrize("size", [1, 7, 38, 39, 40])
async def test_pages_are_the_whole_ranking(ranked: RankedInstances, size: int) -> None:
    for at in INSTANCES:
        found = await pages(ranked.cluster, f"{PATH}?page_size={size}", at)
        assert [rank for page in found for rank in page] == RANKING
        assert {len(page) for page in found[:-1]} <= {size}


async def test_a_ranking_is_read_from_any_rank_on(ranked: RankedInstances) -> None:
    for at in INSTANCES:
        found = await pages(ranked.cluster, f"{PATH}?page_size=10&from_rank=12", at)
        assert [rank for page in found for rank in page] == RANKING[11:]
    assert (await everywhere(ranked, f"{PATH}?from_rank=40")).json() == []
    assert len((await everywhere(ranked, PATH)).json()) == len(RANKING)


async def test_the_next_page_asks_for_what_the_first_one_did(ranked: RankedInstances) -> None:
    position = (await ranked.cluster.get(f"{PATH}/1")).headers["x-store-position"]
    for at in INSTANCES:
        answer = await ranked.cluster.get(f"{PATH}?page_size=2&min_position={position}&max_lag=5", at=at)
        assert f"min_position={position}" in answer.headers["link"]
        assert "max_lag=5" in answer.headers["link"]


async def test_a_page_goes_on_behind_its_last_player_whatever_has_become_of_them(ranked: RankedInstances) -> None:
    first = await ranked.cluster.get(f"{PATH}?page_size=5")
    link = re.fullmatch(r'<(.+)>; rel="next"', first.headers["link"])
    assert link
    seen = [rank["playerId"] for rank in first.json()]
    ranked.name(PLAYERS, seen[-1], None)
    ranked.publish(PRODUCT, seen[0])
    ranked.publish(PRODUCT, 50, best(1000.0, 1))
    ranked.name(PLAYERS, 50, "new and best")
    rest = [rank["playerId"] for page in await pages(ranked.cluster, link[1], 1) for rank in page]
    assert rest == [rank["playerId"] for rank in RANKING[5:]]


async def test_names_ranks_and_counts_follow_the_tables_at_once(ranked: RankedInstances) -> None:
    ranked.name(PLAYERS, 99, "late")
    names = {**NAMES, 99: "late"}
    assert (await everywhere(ranked, PATH)).json() == expected(SCORES, names, PRODUCT)
    ranked.name(PLAYERS, 3, "renamed")
    names[3] = "renamed"
    assert (await everywhere(ranked, PATH)).json() == expected(SCORES, names, PRODUCT)
    ranked.name(PLAYERS, 4, None)
    del names[4]
    assert (await everywhere(ranked, PATH)).json() == expected(SCORES, names, PRODUCT)
    assert is_problem(await everywhere(ranked, f"{PATH}/4"), 404)
    ranked.name(PRODUCTS, PRODUCT, None)
    assert is_problem(await everywhere(ranked, PATH), 404)
    ranked.name(PRODUCTS, PRODUCT, "back")
    assert (await everywhere(ranked, f"{PATH}/count")).json() == len(names)


BAD = [
    f"{PATH}/01", f"{PATH}/x", f"{PATH}/1?around=51", f"{PATH}/1?around=-1", f"{PATH}/1?around=x",
    f"{PATH}?ids=", f"{PATH}?ids=1,,2", f"{PATH}?ids=1,x", f"{PATH}?ids=1&page_size=3", f"{PATH}?ids=1&after=x",
    f"{PATH}?ids={','.join(map(str, range(1001)))}", f"{PATH}?page_size=0", f"{PATH}?page_size=1001",
    f"{PATH}?from_rank=0", f"{PATH}?from_rank=-3", f"{PATH}?after=x", f"{PATH}?after=", f"{PATH}?after=%FF",
    f"{PATH}?after={'A' * 200}", f"{PATH}?page_size=3&page_size=4", f"{PATH}/1?max_lag=-1", f"{PATH}/1?min_position=x",
    f"{PATH}?period=week", f"{PATH}/1?period=day&at=2026-11-25", f"{PATH}/1/events?period=x", f"{PATH}/count?period=",
    "/leaderboard/x/players", "/leaderboard/x/players/1", "/leaderboard/01/players/count",
]  # fmt: skip


@pytest.mark.parametrize("target", BAD, ids=lambda target: target[:60])
async def test_what_cannot_be_is_a_bad_request(ranked: RankedInstances, target: str) -> None:
    assert is_problem(await everywhere(ranked, target), 400)


async def test_ranks_may_be_asked_for_by_what_they_are_of(ranked: RankedInstances) -> None:
    assert (await everywhere(ranked, f"{PATH}/count?period=all")).json() == (
        await everywhere(ranked, f"{PATH}/count")
    ).json()


async def test_a_cursor_is_of_the_product_that_it_was_given_out_for(ranked: RankedInstances) -> None:
    link = (await ranked.cluster.get(f"{PATH}?page_size=5")).headers["link"]
    cursor = re.search(r"after=([\w-]+)", link)
    assert cursor
    assert is_problem(await everywhere(ranked, f"/leaderboard/1/players?after={cursor[1]}"), 400)
    answer = await ranked.cluster.get(f"{PATH}?after={cursor[1]}&from_rank=2")
    assert is_problem(answer, 400)


async def test_a_thousand_friends_can_be_asked_for_at_once(ranked: RankedInstances) -> None:
    ids = ",".join(str(each) for each in [*PLAYING, *(2**62 + at for at in range(1000 - len(PLAYING)))])
    assert (await everywhere(ranked, f"{PATH}?ids={ids}")).json() == RANKING


async def test_when_nobody_can_answer_the_reason_is_said(ranked: RankedInstances) -> None:
    for instance in ranked.instances:
        instance.copies.tables[PLAYERS].copies[0].begin("another topic", 0)
        instance.copies.progressed()
    for at in INSTANCES:
        answer = await ranked.cluster.get(f"{PATH}/1", at=at)
        assert is_problem(answer, 503)
        assert answer.headers["retry-after"]


async def test_another_copy_answers_when_the_first_choice_is_away(ranked: RankedInstances) -> None:
    ranked.cluster.kill(0)
    for at in (1, 2):
        assert (await ranked.cluster.get(f"{PATH}/1", at=at)).json() == RANKING[place_of(1)]


async def test_whoever_makes_an_order_is_no_worse_to_ask_for_others(
    ranked: RankedInstances, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = ranked.views[0]
    other = next(product for product in range(1, 8) if product != PRODUCT and _lie_together(view, product, PRODUCT))
    ranked.name(PRODUCTS, other, "another game")
    partition = view.partition_for(KeyPair(PRODUCT, 0))
    active = partition % len(INSTANCES)
    (without,) = (at for at, each in enumerate(ranked.instances) if partition not in each.copies.held)
    why = RankedView.why_not_made
    is_made = {"that": False}

    def making(view: RankedView, first: KeyValue) -> str:
        return "it is being made" if first == PRODUCT and not is_made["that"] else why(view, first)

    monkeypatch.setattr(RankedView, "why_not_made", making)
    answer = await ranked.cluster.get(f"{PATH}/1", at=without)
    assert is_problem(answer, 503)
    assert "it is being made" in answer.json()["detail"]
    assert (await ranked.cluster.get(f"/leaderboard/{other}/players", at=without)).status_code == 200
    assert ranked.cluster.network.requests[-1][0] == ranked.cluster.hosts[active]
    is_made["that"] = True
    assert (await ranked.cluster.get(f"{PATH}/1", at=without)).json() == RANKING[place_of(1)]


def _lie_together(view: RankedView, *products: int) -> bool:
    return len({view.partition_for(KeyPair(product, 0)) for product in products}) == 1


# Live


async def test_a_rank_is_told_at_once_and_when_others_change_it_at_most_once_a_second(ranked: RankedInstances) -> None:
    player = RANKING[10]["playerId"]
    streams = [await ranked.cluster.events(f"{PATH}/{player}/events", at=number) for number in INSTANCES]
    for events in streams:
        assert (event := await events.next()) is not None
        assert (event.name, event.data) == ("rank", RANKING[10])
    began_s = time.monotonic()
    scores, names = dict(SCORES), dict(NAMES)
    for other in range(50, 60):
        names[other] = f"new {other}"
        ranked.name(PLAYERS, other, names[other])
        scores[PRODUCT, other] = best(9.0, other)
        ranked.publish(PRODUCT, other, scores[PRODUCT, other])
    right = next(rank for rank in expected(scores, names, PRODUCT) if rank["playerId"] == player)
    assert right["rank"] == 21
    for events in streams:
        # All of them in one: none says a rank in between.
        assert (event := await events.next()) is not None
        assert (event.name, event.data) == ("rank", right)
    assert time.monotonic() - began_s >= 1
    ranked.name(PLAYERS, player, None)
    for events in streams:
        assert (event := await events.next()) is not None
        assert event.name == "gone"
        await events.stream.leave()


async def test_a_score_that_comes_while_ranks_are_told_waits_for_the_next_second(
    ranked: RankedInstances, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = await ranked.cluster.events(f"{PATH}/{RANKING[10]['playerId']}/events")
    assert (await events.next()) is not None
    told_s: list[float] = []
    tell = Follower.changed

    def changed(follower: Follower, key: Any) -> None:
        tell(follower, key)
        told_s.append(time.monotonic())
        if len(told_s) < 3:
            ranked.publish(PRODUCT, RANKING[0]["playerId"], best(10.0 + len(told_s), 1))

    monkeypatch.setattr(Follower, "changed", changed)
    ranked.publish(PRODUCT, RANKING[0]["playerId"], best(10.0, 1))
    await eventually(lambda: len(told_s) == 3)
    assert told_s[1] - told_s[0] >= 1
    assert told_s[2] - told_s[1] >= 1
    await events.stream.leave()


async def test_changes_of_other_products_are_not_told(ranked: RankedInstances) -> None:
    best_player, last_player = RANKING[0]["playerId"], RANKING[-1]["playerId"]
    events = await ranked.cluster.events(f"{PATH}/{best_player}/events")
    assert (await events.next()) is not None
    ranked.publish(1, last_player, best(100.0, 3))
    ranked.publish(PRODUCT, last_player, best(100.0, 3))
    assert (event := await events.next()) is not None
    assert event.data["rank"] == 2
    assert event.data == (await ranked.cluster.get(f"{PATH}/{best_player}")).json()
    await events.stream.leave()


async def test_ranks_are_off_by_default_and_the_answer_names_the_setting() -> None:
    cluster = Cluster({}, size=1)
    for rest in ("", "/3", "/count", "/3/events", "?ids=1"):
        answer = await cluster.get(f"/leaderboard/1/players{rest}")
        assert is_problem(answer, 404)
        assert "LEADERBOARD_RANKS=true" in answer.json()["detail"]

"""The routes of boards with a period, at instances that hold the product and at those that do not."""

from __future__ import annotations

import asyncio
import gc
from datetime import date, timedelta
from typing import Any

import httpx
import pytest

from api.live.feeds import Feeds
from runtime.serving.part_view import PartView
from runtime.serving.rendered_view import RenderedView
from tests.drivers.cluster import Cluster, Network
from tests.drivers.eventually import eventually
from tests.drivers.period_instances import PeriodInstances
from tests.drivers.periods import ms
from tests.drivers.streams import Event
from topology.leaderboard.board import PERIOD_STORE
from topology.leaderboard.topics import PLAYERS, PRODUCTS

INSTANCES = [0, 1, 2]
NOW_MS = ms("2026-11-25T23:59:59")
PRODUCT_IDS = range(1, 8)
TODAY, TOMORROW, WEEK = "day/2026-11-25", "day/2026-11-26", "week/2026-11-23"


@pytest.fixture
def instances() -> PeriodInstances:
    """Three instances; product 7 has no board of the day, product 8 is unknown."""
    instances = PeriodInstances(NOW_MS)
    for player in range(1, 4):
        instances.name(PLAYERS, player, f"Player {player}")
    for product in PRODUCT_IDS:
        instances.name(PRODUCTS, product, f"Game {product}")
        instances.publish(product, WEEK, (50.0 + product, 1), (40.0, 2), (30.0, 3), (20.0, 1))
        instances.publish(product, "day/2026-11-20", (5.0, 3))
        if product != 7:
            instances.publish(product, TODAY, (10.0 * product, 2))
    instances.publish(8, TODAY, (1.0, 1))
    return instances


def entry(product: int, score: float, player: int) -> dict[str, Any]:
    return {
        "playerId": player,
        "productId": product,
        "playerName": f"Player {player}",
        "gameName": f"Game {product}",
        "score": score,
    }


OF_TODAY = {str(product): [entry(product, 10.0 * product, 2)] for product in range(1, 7)}


def refuses(answer: httpx.Response, status: int, kind: str) -> None:
    assert (answer.status_code, answer.json()["type"]) == (status, f"urn:problem-type:leaderboard:{kind}")


async def everywhere(instances: PeriodInstances, target: str) -> httpx.Response:
    """Return the answer that every instance gives."""
    answers = [await instances.cluster.get(target, at=number) for number in INSTANCES]
    said = {(each.status_code, each.content, each.headers.get("etag"), each.headers.get("link")) for each in answers}
    assert len(said) == 1
    return answers[0]


@pytest.mark.parametrize("product", range(1, 7))
async def test_a_board_is_the_same_at_every_instance(instances: PeriodInstances, product: int) -> None:
    assert (await everywhere(instances, f"/leaderboard/{product}?period=day")).json() == OF_TODAY[str(product)]
    week = await everywhere(instances, f"/leaderboard/{product}?period=week&at=2026-11-29&limit=2")
    assert week.json() == [entry(product, 50.0 + product, 1), entry(product, 40.0, 2)]
    past = await everywhere(instances, f"/leaderboard/{product}?at=2026-11-20&period=day")
    assert past.json() == [entry(product, 5.0, 3)]


async def test_all_boards_of_a_period_come_by_product_in_pages_ranges_and_counts(instances: PeriodInstances) -> None:
    assert (await everywhere(instances, "/leaderboard?period=day")).json() == OF_TODAY
    assert (await everywhere(instances, "/leaderboard/count?period=day")).json() == 6
    assert (await everywhere(instances, "/leaderboard/count?period=week")).json() == 7
    assert (await everywhere(instances, "/leaderboard/count?period=month")).json() == 0
    some = (await everywhere(instances, "/leaderboard/3/5?period=day")).json()
    assert some == {product: OF_TODAY[product] for product in "345"}
    seen: dict[str, Any] = {}
    target: str | None = "/leaderboard?period=day&page_size=4"
    while target is not None:
        page = await everywhere(instances, target)
        seen |= page.json()
        link = page.headers.get("link")
        target = None if link is None else link.partition(">")[0].removeprefix("<")
        assert target is None or "at=2026-11-25" in target
    assert seen == OF_TODAY


async def test_boards_of_a_period_are_counted_as_they_come_and_go_without_going_through_them(
    instances: PeriodInstances, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in instances.instances:
        view = each.views[PERIOD_STORE]
        assert isinstance(view, RenderedView)
        await view.warm_up()

    def not_gone_through(*_: Any, **__: Any) -> Any:
        raise AssertionError("boards are gone through")

    monkeypatch.setattr(PartView, "rows", not_gone_through)

    async def counted(period: str) -> int:
        count: int = (await everywhere(instances, f"/leaderboard/count?{period}")).json()
        return count

    assert (await counted("period=day"), await counted("period=day&at=2026-11-20")) == (6, 7)
    instances.publish(7, TODAY, (1.0, 1))
    instances.publish(9, TODAY, (1.0, 1))
    assert await counted("period=day") == 7
    instances.name(PRODUCTS, 9, "Game 9")
    assert await counted("period=day") == 8
    instances.publish(3, TODAY)
    assert (await counted("period=day"), await counted("period=week")) == (7, 7)
    monkeypatch.setattr("runtime.serving.rendered_view._AT_ONCE", 0)
    instances.name(PRODUCTS, 9, None)
    assert (await counted("period=day"), await counted("period=week")) == (6, 7)


async def test_an_answer_is_not_sent_again_to_who_has_it(instances: PeriodInstances) -> None:
    tag = (await everywhere(instances, "/leaderboard/3?period=day")).headers["etag"]
    for number in INSTANCES:
        again = await instances.cluster.get("/leaderboard/3?period=day", at=number, if_none_match=tag)
        assert again.status_code == 304


async def test_all_time_is_as_without_a_period(instances: PeriodInstances) -> None:
    for target in ("/leaderboard/3", "/leaderboard/3?period=all", "/leaderboard/3?period=all&at=2020-01-01"):
        answer = await everywhere(instances, target)
        assert (answer.status_code, answer.json()["detail"][:24]) == (404, "Product 3 has no board: ")
    assert (await everywhere(instances, "/leaderboard?at=2026-11-25")).json() == {}


@pytest.mark.parametrize("product", [7, 8, 99])
async def test_a_product_without_a_score_in_the_period_has_no_board(instances: PeriodInstances, product: int) -> None:
    answer = await everywhere(instances, f"/leaderboard/{product}?period=day")
    refuses(answer, 404, "no-such-board")
    assert "of the day that began on 2026-11-25" in answer.json()["detail"]


async def test_a_period_that_has_passed_is_refused_at_once(instances: PeriodInstances) -> None:
    assert (await everywhere(instances, "/leaderboard?period=day&at=2026-11-17")).json() == {}
    for target in ("/leaderboard", "/leaderboard/1", "/leaderboard/1/2", "/leaderboard/count", "/leaderboard/events"):
        answer = await everywhere(instances, f"{target}?period=day&at=2026-11-16")
        refuses(answer, 404, "period-has-passed")
        assert "the oldest one that is began on 2026-11-17" in answer.json()["detail"]
    instances.now_ms += 1_000
    refuses(await everywhere(instances, "/leaderboard?period=day&at=2026-11-17"), 404, "period-has-passed")


async def test_of_two_clocks_that_of_the_instance_that_was_asked_says_what_has_passed(
    instances: PeriodInstances, monkeypatch: pytest.MonkeyPatch
) -> None:
    instances.publish(3, "day/2026-11-17", (7.0, 1))
    handle = Network.handle_async_request

    async def a_second_ahead(network: Network, request: httpx.Request) -> httpx.Response:
        instances.now_ms += 1_000
        try:
            return await handle(network, request)
        finally:
            instances.now_ms -= 1_000

    monkeypatch.setattr(Network, "handle_async_request", a_second_ahead)
    answer = await everywhere(instances, "/leaderboard/3?period=day&at=2026-11-17")
    assert answer.json() == [entry(3, 7.0, 1)]


async def test_boards_of_a_period_at_one_instance_are_counted(instances: PeriodInstances) -> None:
    counts = [await instances.cluster.get("/leaderboard/count/local?period=day", at=number) for number in INSTANCES]
    assert sum(count.json() for count in counts) == 6
    refuses(await instances.cluster.get("/leaderboard/count/local?period=year"), 400, "invalid-request")
    passed = await instances.cluster.get("/leaderboard/count/local?period=day&at=2026-11-16")
    refuses(passed, 404, "period-has-passed")


@pytest.mark.parametrize(
    "query",
    [
        "period=year",
        "period=",
        "at=2026-13-01&period=day",
        "at=yesterday",
        "at=20261125",
        "at=2026-1-1",
        "at=2026-11- 5",
        "at=\uff12\uff10\uff12\uff16-11-25",
    ],
)
async def test_what_is_no_period_and_no_date_is_refused(instances: PeriodInstances, query: str) -> None:
    refuses(await everywhere(instances, f"/leaderboard/1?{query}"), 400, "invalid-request")


async def test_what_is_off_says_which_setting_turns_it_on() -> None:
    for cluster, name, setting in (
        (Cluster({}), "day", "all,day"),
        (PeriodInstances(NOW_MS, ["day"]).cluster, "month", "all,day,month"),
    ):
        for target in (
            "/leaderboard",
            "/leaderboard/1",
            "/leaderboard/1/2",
            "/leaderboard/count",
            "/leaderboard/1/events",
        ):
            answer = await cluster.get(f"{target}?period={name}")
            refuses(answer, 404, "periods-are-off")
            assert f"LEADERBOARD_PERIODS={setting} turns them on" in answer.json()["detail"]


async def test_a_position_is_that_of_the_boards_of_periods(instances: PeriodInstances) -> None:
    position = (await instances.cluster.get("/leaderboard/3?period=day")).headers["x-store-position"]
    again = await everywhere(instances, f"/leaderboard/3?period=week&min_position={position}")
    assert again.status_code == 200
    refuses(await instances.cluster.get(f"/leaderboard/3?min_position={position}"), 400, "invalid-request")


@pytest.mark.parametrize("at", INSTANCES)
@pytest.mark.parametrize("query", ["period=day", "period=day&at=2026-11-25", "period=week&at=2026-11-29"])
async def test_all_boards_of_a_period_are_no_older_than_those_that_were_told(
    instances: PeriodInstances, query: str, at: int
) -> None:
    position = (await instances.cluster.get("/leaderboard/3?period=day")).headers["x-store-position"]
    target = f"/leaderboard?{query}"
    first = await instances.cluster.get(target, at=at)
    assert first.json()
    # Peers are asked for copies that have come as far; this one takes no position of another store for one of this.
    again = [await instances.cluster.get(each, at=at) for each in (target, f"{target}&min_position={position}")]
    assert [(answer.status_code, answer.json()) for answer in again] == [(200, first.json())] * 2


@pytest.mark.parametrize("at", INSTANCES)
async def test_one_board_follows_the_period_that_runs(instances: PeriodInstances, at: int) -> None:
    events = await instances.cluster.events("/leaderboard/3/events?period=day", at=at)
    first = await events.next()
    assert first is not None
    assert (first.name, first.data) == ("board", OF_TODAY["3"])
    instances.now_ms += 2_000
    gone = await events.next()
    assert gone is not None
    assert (gone.name, gone.data) == ("gone", None)
    instances.publish(3, TODAY, (99.0, 1))
    instances.publish(3, TOMORROW, (7.0, 1))
    new = await events.next()
    assert new is not None
    assert (new.name, new.data) == ("board", [entry(3, 7.0, 1)])
    await events.stream.leave()


@pytest.mark.parametrize("at", INSTANCES)
async def test_one_board_of_a_date_stays_with_it(instances: PeriodInstances, at: int) -> None:
    events = await instances.cluster.events("/leaderboard/3/events?period=day&at=2026-11-25", at=at)
    assert await events.next() is not None
    instances.now_ms += 2_000
    instances.publish(3, TOMORROW, (7.0, 1))
    instances.publish(3, TODAY, (99.0, 1))
    late = await events.next()
    assert late is not None
    assert (late.name, late.data) == ("board", [entry(3, 99.0, 1), entry(3, 30.0, 2)])
    await events.stream.leave()


@pytest.mark.parametrize("at", INSTANCES)
async def test_all_boards_follow_the_period_that_runs(instances: PeriodInstances, at: int) -> None:
    events = await instances.cluster.events("/leaderboard/events?period=day", at=at)
    found = await until(events, "complete")
    assert {each.data["productId"]: each.data["entries"] for each in found if each.name == "board"} == {
        int(product): board for product, board in OF_TODAY.items()
    }
    instances.now_ms += 2_000
    gone = await events.take(6)
    assert {(each.name, each.data["productId"]) for each in gone} == {("gone", product) for product in range(1, 7)}
    instances.publish(5, TOMORROW, (7.0, 1))
    [new] = await events.take(1)
    assert (new.name, new.data["productId"], new.data["entries"]) == ("board", 5, [entry(5, 7.0, 1)])
    await events.stream.leave()


@pytest.mark.parametrize("at", INSTANCES)
async def test_all_boards_of_today_by_its_date_stay_with_it(instances: PeriodInstances, at: int) -> None:
    events = await instances.cluster.events("/leaderboard/events?period=day&at=2026-11-25", at=at)
    await until(events, "complete")
    instances.now_ms += 2_000
    instances.publish(5, TOMORROW, (7.0, 1))
    instances.publish(3, TODAY, (99.0, 1))
    [late] = await events.take(1)
    assert (late.name, late.data["productId"]) == ("board", 3)
    assert late.data["entries"] == [entry(3, 99.0, 1), entry(3, 30.0, 2)]
    await events.stream.leave()


async def until(events: Any, name: str) -> list[Event]:
    """Return the events up to the first of a name."""
    found: list[Event] = []
    while not found or found[-1].name != name:
        found += await events.take(1)
    return found


@pytest.mark.parametrize("at", INSTANCES)
async def test_all_boards_of_a_day_that_has_passed_are_followed(instances: PeriodInstances, at: int) -> None:
    events = await instances.cluster.events("/leaderboard/events?period=day&at=2026-11-24", at=at)
    await until(events, "complete")
    instances.publish(5, "day/2026-11-24", (7.0, 1))
    [late] = await events.take(1)
    assert (late.name, late.data["productId"], late.data["entries"]) == ("board", 5, [entry(5, 7.0, 1)])
    await events.stream.leave()


async def test_of_days_that_were_followed_once_nothing_goes_on(instances: PeriodInstances) -> None:
    tasks, feeds = len(asyncio.all_tasks()), every_feeds()
    for number in range(150):
        day = date(2027, 1, 1) + timedelta(number)
        events = await instances.cluster.events(f"/leaderboard/events?period=day&at={day}", at=0)
        await until(events, "complete")
        await events.stream.leave()
    # Sooner than those end that are kept for who comes again.
    await eventually(lambda: len(asyncio.all_tasks()) <= tasks, "nobody looks after these days", deadline_s=20)
    # Of so many days each instance knows what answers, and a peer what it told.
    assert every_feeds() - feeds <= 64 * len(INSTANCES)


def every_feeds() -> int:
    """Return how many there are of what live updates come from."""
    gc.collect()
    return sum(isinstance(each, Feeds) for each in gc.get_objects())

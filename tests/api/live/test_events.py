"""Live updates in a cluster in one process: from any instance, through failovers, for clients that leave and return."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from unittest.mock import Mock

import httpx
import pytest

from runtime.cluster.host_metadata import ClusterMap
from tests.drivers.cluster import Cluster
from tests.drivers.declared import boards_view
from tests.drivers.eventually import eventually
from tests.drivers.fake_view import ABSENT, RESTORING, Entry, board_of
from tests.drivers.streams import AppStream, Event, Events

IDS = [-3, *range(1, 12)]
INSTANCES = [0, 1, 2]


@pytest.fixture
def cluster() -> Cluster:
    """Three instances, four partitions, one standby each."""
    return Cluster({each: board_of(each) for each in IDS})


async def first_all(events: Events) -> dict[int, object]:
    """Return the boards until they are complete."""
    boards: dict[int, object] = {}
    while (event := await events.next()) is not None and event.name != "complete":
        if event.name == "board":
            boards[event.data["productId"]] = event.data["entries"]
        elif event.name == "gone":
            boards.pop(event.data["productId"], None)
        else:
            assert event.name == "reset"
            boards.clear()
    assert event is not None
    assert event.data == {"boards": len(boards)}
    return boards


async def body(cluster: Cluster, target: str) -> object:
    """Return what a route answers."""
    return (await cluster.get(target)).json()


async def nothing_comes(events: Events) -> asyncio.Task[Event | None]:
    """See that no event comes for some turns of the event loop; return what waits for the next one."""
    waiting = asyncio.create_task(events.next())
    for _ in range(50):
        await asyncio.sleep(0)
    assert not waiting.done()
    return waiting


@pytest.mark.parametrize("number", INSTANCES)
@pytest.mark.parametrize("query", ["", "?limit=1", "?limit=10"])
async def test_one_board_comes_at_once_and_at_each_change(cluster: Cluster, number: int, query: str) -> None:
    for product_id in IDS[:5]:
        events = await cluster.events(f"/leaderboard/{product_id}/events{query}", at=number)
        assert events.stream.status == 200
        assert events.stream.headers["content-type"] == "text/event-stream"
        assert events.stream.headers["cache-control"] == "no-store"
        response = await cluster.get(f"/leaderboard/{product_id}{query}", at=number)
        tag = response.headers["etag"].removeprefix("W/").strip('"')
        assert await events.next() == Event("board", f"{tag}.{response.headers['x-store-position']}", response.json())
        assert 0 < events.retry_ms < 5000
        cluster.change(product_id, board_of(product_id)[1:])
        changed = await events.next()
        assert changed is not None
        assert changed.data == await body(cluster, f"/leaderboard/{product_id}{query}")
        await events.stream.leave()


async def test_the_data_is_exactly_the_body_of_the_route(cluster: Cluster) -> None:
    stream = await AppStream(cluster.network.apps[cluster.hosts[0]], "/leaderboard/1/events").open()
    text = b""
    while b"data:" not in text:
        text += await stream.read()
    expected = (await cluster.get("/leaderboard/1")).content
    assert text.partition(b"data: ")[2] == expected + b"\n\n"
    await stream.leave()


@pytest.mark.parametrize("number", INSTANCES)
async def test_a_board_that_is_not_there_yet_is_gone_until_it_comes(cluster: Cluster, number: int) -> None:
    events = await cluster.events("/leaderboard/77/events", at=number)
    position = (await cluster.get("/leaderboard/77", at=number)).headers["x-store-position"]
    assert await events.next() == Event("gone", f"none.{position}", None)
    cluster.change(77, board_of(77))
    assert (await events.take(1))[0].data == await body(cluster, "/leaderboard/77")
    cluster.change(77, [])
    position = (await cluster.get("/leaderboard/77", at=number)).headers["x-store-position"]
    assert await events.next() == Event("gone", f"none.{position}", None)
    await events.stream.leave()


@pytest.mark.parametrize("number", INSTANCES)
async def test_what_does_not_change_what_is_shown_is_not_sent(cluster: Cluster, number: int) -> None:
    events = await cluster.events("/leaderboard/1/events?limit=2", at=number)
    await events.next()
    cluster.change(1, board_of(1, 4))
    # On its own: two changes in one turn of the event loop would be one event in any case.
    waiting = await nothing_comes(events)
    cluster.change(1, board_of(1, 1))
    event = await waiting
    assert event is not None
    assert len(event.data) == 1
    await events.stream.leave()


@pytest.mark.parametrize("number", INSTANCES)
async def test_who_comes_again_is_sent_the_board_only_when_it_is_another_one(cluster: Cluster, number: int) -> None:
    events = await cluster.events("/leaderboard/1/events", at=number)
    await events.next()
    had = events.last_event_id
    await events.stream.leave()
    again = await cluster.events("/leaderboard/1/events", at=(number + 1) % 3, last_event_id=had)
    waiting = await nothing_comes(again)
    cluster.change(1, board_of(1, 2))
    event = await waiting
    assert event is not None
    assert len(event.data) == 2
    await again.stream.leave()
    changed = await cluster.events("/leaderboard/1/events", at=number, last_event_id=had)
    assert len((await changed.take(1))[0].data) == 2
    await changed.stream.leave()


@pytest.mark.parametrize("number", INSTANCES)
async def test_all_boards_come_from_every_instance_and_then_each_change(cluster: Cluster, number: int) -> None:
    events = await cluster.events("/leaderboard/events", at=number)
    boards = await first_all(events)
    assert {str(each): entries for each, entries in boards.items()} == await body(cluster, "/leaderboard")
    for product_id in [*IDS, 500]:
        cluster.change(product_id, board_of(product_id, 2))
        (event,) = await events.take(1)
        assert event.name == "board"
        answer = await cluster.get(f"/leaderboard/{product_id}", at=number)
        position = answer.headers["x-store-position"]
        assert event.data == {"productId": product_id, "entries": answer.json(), "position": position}
    cluster.change(500, [])
    (gone,) = await events.take(1)
    position = (await cluster.get("/leaderboard/500", at=number)).headers["x-store-position"]
    assert (gone.name, gone.data) == ("gone", {"productId": 500, "position": position})
    await events.stream.leave()


async def test_all_boards_go_on_where_they_were_while_the_feed_is_there(cluster: Cluster) -> None:
    stays = await cluster.events("/leaderboard/events")
    await first_all(stays)
    leaves = await cluster.events("/leaderboard/events")
    await first_all(leaves)
    await leaves.stream.leave()
    cluster.change(1, board_of(1, 1))
    await stays.next()
    again = await cluster.events("/leaderboard/events", last_event_id=leaves.last_event_id)
    board, complete = await again.take(2)
    assert (board.name, board.data["productId"], complete.name) == ("board", 1, "complete")
    elsewhere = await cluster.events("/leaderboard/events", at=1, last_event_id=leaves.last_event_id)
    assert len(await first_all(elsewhere)) == len(IDS)
    for each in (stays, again, elsewhere):
        await each.stream.leave()


@pytest.mark.parametrize("number", INSTANCES)
async def test_who_watches_all_boards_alone_goes_on_where_it_was(cluster: Cluster, number: int) -> None:
    for product_id in (1, 2):
        # The second time from a feed that has been kept once already.
        events = await cluster.events("/leaderboard/events", at=number)
        await first_all(events)
        await events.stream.leave()
        cluster.change(product_id, board_of(product_id, 1))
        again = await cluster.events("/leaderboard/events", at=number, last_event_id=events.last_event_id)
        # In either order: what a peer holds may come a moment later.
        board, complete = sorted(await again.take(2), key=lambda event: event.name)
        assert (board.name, complete.name) == ("board", "complete")
        assert board.data["productId"] == product_id
        await again.stream.leave()
    cluster.stopping[number].begin()
    assert cluster.views[number].watchers == []
    await eventually(lambda: cluster.network.open_streams() == [])


async def test_boards_that_nobody_watches_are_not_kept_for_long(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.live.feeds._KEPT_S", 0.5)
    left, stays = [await cluster.events(f"/leaderboard/events?limit={limit}") for limit in (1, 2)]
    for events in (left, stays):
        await first_all(events)
        await events.stream.leave()
    stays = await cluster.events("/leaderboard/events?limit=2", last_event_id=stays.last_event_id)
    await asyncio.sleep(1.0)
    cluster.change(1, board_of(1, 1))
    assert [event.name for event in await stays.take(2)] == ["complete", "board"]
    again = await cluster.events("/leaderboard/events?limit=1", last_event_id=left.last_event_id)
    assert [event.name for event in await again.take(1)] == ["reset"]
    for events in (stays, again):
        await events.stream.leave()
    await eventually(lambda: cluster.views[0].watchers == [])


async def test_of_boards_that_nobody_watches_few_are_kept(cluster: Cluster) -> None:
    ids = {}
    for limit in range(1, 7):
        events = await cluster.events(f"/leaderboard/events?limit={limit}")
        await first_all(events)
        await events.stream.leave()
        ids[limit] = events.last_event_id
    names = {}
    # The latest first: each that begins anew takes the place of another one.
    for limit in reversed(ids):
        again = await cluster.events(f"/leaderboard/events?limit={limit}", last_event_id=ids[limit])
        names[limit] = [event.name for event in await again.take(1)]
        await again.stream.leave()
    assert names == {limit: ["reset"] if limit <= 2 else ["complete"] for limit in ids}


async def test_many_clients_of_a_board_elsewhere_share_one_stream(cluster: Cluster) -> None:
    active, _, other = cluster.holders(1)
    clients = [await cluster.events("/leaderboard/1/events", at=other) for _ in range(250)]
    for each in clients:
        await each.next()
    assert cluster.network.open_streams() == [cluster.hosts[active]]
    cluster.change(1, board_of(1, 1))
    assert {len((await each.take(1))[0].data) for each in clients} == {1}
    for each in clients:
        await each.stream.leave()
    await eventually(lambda: cluster.network.open_streams() == [])


@pytest.mark.parametrize("target", ["/leaderboard/1/events", "/leaderboard/events"])
async def test_a_client_that_leaves_leaves_nothing_behind(
    cluster: Cluster, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.live.feeds._KEPT_S", 0.0)
    await asyncio.sleep(0)
    before = asyncio.all_tasks()
    for number in INSTANCES:
        for _ in range(3):
            events = await cluster.events(target, at=number)
            await events.next()
            await events.stream.leave()
    await eventually(lambda: asyncio.all_tasks() == before)
    assert [view.watchers for view in cluster.views] == [[], [], []]
    assert cluster.network.open_streams() == []


@pytest.mark.parametrize("error", [httpx.ConnectError("refused"), httpx.ReadTimeout("frozen")])
async def test_a_failover_is_not_noticed(cluster: Cluster, error: Exception) -> None:
    active, standby, other = cluster.holders(1)
    clients = [await cluster.events("/leaderboard/1/events", at=number) for number in (standby, other)]
    for each in clients:
        await each.next()
    cluster.kill(active, error)
    cluster.change(1, board_of(1, 2), at=[standby])
    for each in clients:
        assert len((await each.take(1))[0].data) == 2
    cluster.change(1, board_of(1, 1), at=[standby])
    for each in clients:
        assert len((await each.take(1))[0].data) == 1
        await each.stream.leave()


async def test_holders_that_are_away_are_named_once_and_asked_less_and_less(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("api.live.follower.AGAIN_S", 0.02)
    caplog.set_level(logging.INFO, "api.live.follower")

    def told() -> list[str]:
        return [each for each in caplog.messages if each.startswith("the stream of partition")]

    active, standby, other = cluster.holders(1)
    for number in (active, standby):
        cluster.kill(number)
    began_s = time.monotonic()
    events = await cluster.events("/leaderboard/1/events", at=other)
    # Each holder once, then with pauses of 20, 40, 80, 160 and 320 ms.
    await eventually(lambda: len(cluster.network.requests) >= 8)
    assert time.monotonic() - began_s > 0.5
    assert len(told()) == 1
    cluster.revive(active)
    await events.take(1)
    cluster.kill(active)
    asked = len(cluster.network.requests)
    # As after the first failure: 4 s if the pauses went on where they were.
    await eventually(lambda: len(cluster.network.requests) >= asked + 4, deadline_s=3)
    assert len(told()) == 3
    await events.stream.leave()


async def test_a_holder_that_stops_is_not_asked_without_a_pause(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.live.follower.AGAIN_S", 0.05)
    active, standby, other = cluster.holders(1)
    cluster.kill(standby)
    events = await cluster.events("/leaderboard/1/events", at=other)
    await events.next()
    began_s = time.monotonic()
    cluster.stopping[active].begin()
    # Each holder once, then with pauses of 50, 100 and 200 ms.
    await eventually(lambda: len(cluster.network.requests) >= 6)
    assert time.monotonic() - began_s > 0.3
    await events.stream.leave()


async def test_an_error_with_one_change_keeps_back_no_others(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, errors = asyncio.get_running_loop(), list[str]()
    # Else the error of a callback fails the test.
    monkeypatch.setattr(loop, "call_exception_handler", lambda context: errors.append(str(context["exception"])))
    active = cluster.holders(1)[0]
    events = await cluster.events("/leaderboard/1/events", at=active)
    await events.next()
    with monkeypatch.context() as patch:
        patch.setattr(cluster.views[active], "get", Mock(side_effect=RuntimeError("unforeseen")))
        cluster.change(1, board_of(1, 2), at=[active])
        await eventually(lambda: errors == ["unforeseen"])
    cluster.change(1, board_of(1, 1), at=[active])
    assert len((await events.take(1))[0].data) == 1
    await events.stream.leave()


async def test_after_an_error_that_nobody_foresaw_a_board_is_read_again_less_and_less_often(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("api.live.follower.AGAIN_S", 0.02)
    active = cluster.holders(1)[0]
    clients = [await cluster.events(f"/leaderboard/1/events?limit={limit}", at=active) for limit in (1, 2)]
    for each in clients:
        await each.next()
    failing = Mock(side_effect=RuntimeError("unforeseen"))
    with monkeypatch.context() as patch:
        patch.setattr(cluster.views[active], "get", failing)
        began_s = time.monotonic()
        cluster.views[active].changed(None)
        # Each of the two feeds at once, then with pauses of 20, 40, 80, 160 and 320 ms.
        await eventually(lambda: failing.call_count >= 12)
        assert time.monotonic() - began_s > 0.5
    assert {each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR} == {
        f"following partition {cluster.views[0].partition_for(1)} failed"
    }
    cluster.change(1, [scored(9000)], at=[active])
    for each in clients:
        assert (await each.take(1))[0].data[0]["score"] == 9000.0
        await each.stream.leave()


@pytest.mark.parametrize("target", ["/leaderboard/1/events", "/leaderboard/events"])
async def test_live_updates_go_on_when_a_store_can_be_read_again(cluster: Cluster, target: str) -> None:
    active, _, _ = cluster.holders(1)
    events = await cluster.events(target, at=active)
    await events.next()
    cluster.views[active].unreadable = True
    cluster.change(1, board_of(1, 2))
    late = await cluster.events(target, at=active)
    await asyncio.sleep(0)
    cluster.views[active].unreadable = False
    for each in (events, late):
        while (event := await each.next()) is not None:
            entries = event.data if target != "/leaderboard/events" else (event.data or {}).get("entries", [])
            if entries == await body(cluster, "/leaderboard/1"):
                break
        assert event is not None
    cluster.change(1, board_of(1, 1))
    for each in (events, late):
        await each.take(1)
        await each.stream.leave()


async def test_all_boards_go_on_through_a_failover(cluster: Cluster) -> None:
    events = await cluster.events("/leaderboard/events", at=0)
    await first_all(events)
    cluster.kill(1)
    for product_id in IDS:
        cluster.change(product_id, board_of(product_id, 1), at=[0, 2])
    seen = {(await events.take(1))[0].data["productId"] for _ in IDS}
    assert seen == set(IDS)
    await events.stream.leave()


@pytest.mark.parametrize("asked", ["standby", "other"])
async def test_a_failover_never_brings_an_older_board(cluster: Cluster, asked: str) -> None:
    active, standby, other = cluster.holders(1)
    partition = cluster.views[0].partition_for(1)
    events = await cluster.events("/leaderboard/1/events", at=standby if asked == "standby" else other)
    await events.next()
    # The standby has not read this one yet.
    cluster.change(1, board_of(1, 2), at=[active])
    assert len((await events.take(1))[0].data) == 2
    cluster.kill(active)
    waiting = asyncio.create_task(events.next())
    await eventually(lambda: len(cluster.network.streams) >= (2 if asked == "other" else 1))
    cluster.views[standby].changed(1)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    cluster.views[standby].shared_rows = {**cluster.views[standby].shared_rows, 1: board_of(1, 1)}
    cluster.views[standby].advance(partition)
    event = await waiting
    assert event is not None
    assert len(event.data) == 1
    await events.stream.leave()


async def test_a_copy_that_cannot_be_read_once_it_is_as_far_is_read_again(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    active, standby, _ = cluster.holders(1)
    partition = cluster.views[0].partition_for(1)
    events = await cluster.events("/leaderboard/1/events", at=standby)
    await events.next()
    cluster.change(1, board_of(1, 2), at=[active])
    await events.take(1)
    cluster.views[standby].unreadable = True
    cluster.kill(active)
    await eventually(lambda: any("_wait_for_position" in repr(task) for task in asyncio.all_tasks()))
    cluster.views[standby].advance(partition)
    await eventually(lambda: any("cannot be read" in each for each in caplog.messages))
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []
    cluster.views[standby].unreadable = False
    cluster.change(1, board_of(1, 1), at=[standby])
    assert len((await events.take(1))[0].data) == 1
    await events.stream.leave()


async def test_who_becomes_active_is_followed(cluster: Cluster) -> None:
    active, standby, other = cluster.holders(1)
    partition = cluster.views[0].partition_for(1)
    events = await cluster.events("/leaderboard/1/events", at=other)
    await events.next()
    this = frozenset({partition})
    moved = {each.info: each for each in cluster.map.hosts}
    gives, takes = moved[cluster.hosts[active]], moved[cluster.hosts[standby]]
    moved[gives.info] = replace(gives, active=gives.active - this, standby=gives.standby | this)
    moved[takes.info] = replace(takes, active=takes.active | this, standby=takes.standby - this)
    cluster.map = ClusterMap(tuple(moved.values()), 4, generation=2)
    await eventually(lambda: cluster.network.open_streams() == [cluster.hosts[standby]])
    cluster.change(1, board_of(1, 1), at=[standby])
    assert len((await events.take(1))[0].data) == 1
    await events.stream.leave()


async def test_a_holder_that_loses_its_copy_hands_over(cluster: Cluster) -> None:
    active, standby, other = cluster.holders(1)
    clients = [await cluster.events("/leaderboard/1/events", at=number) for number in (active, other)]
    for each in clients:
        await each.next()
    cluster.views[active].statuses[cluster.views[0].partition_for(1)] = RESTORING
    cluster.views[active].changed(None)
    # What the emptied store does not have is not gone.
    cluster.change(1, [], at=[active])
    cluster.views[active].statuses[cluster.views[0].partition_for(1)] = RESTORING
    cluster.change(1, board_of(1, 1), at=[standby])
    for each in clients:
        (event,) = await each.take(1)
        assert (event.name, len(event.data)) == ("board", 1)
        await each.stream.leave()


async def test_a_stream_waits_for_a_copy_that_can_answer(cluster: Cluster) -> None:
    partition = cluster.views[0].partition_for(1)
    held = [dict(view.statuses) for view in cluster.views]
    for view in cluster.views:
        view.statuses[partition] = ABSENT
    one, every = await cluster.events("/leaderboard/1/events"), await cluster.events("/leaderboard/events")
    there = [each for each in IDS if cluster.views[0].partition_for(each) != partition]
    names = [event.name for event in await every.take(1 + len(there))]
    assert names == ["reset", *["board"] * len(there)]
    waiting = [asyncio.create_task(one.next()), asyncio.create_task(every.next())]
    for _ in range(50):
        await asyncio.sleep(0)
    assert not any(each.done() for each in waiting)
    for view, statuses in zip(cluster.views, held, strict=True):
        view.statuses = statuses
        view.changed(None)
    cluster.clock.now += 3
    first = [await each for each in waiting]
    assert [each.name for each in first if each is not None] == ["board", "board"]
    for events in (one, every):
        await events.stream.leave()


async def test_partitions_that_become_known_are_followed(cluster: Cluster) -> None:
    for view in cluster.views:
        view.partition_count = 0
    one, every = await cluster.events("/leaderboard/2/events", at=1), await cluster.events("/leaderboard/events", at=1)
    for view in cluster.views:
        view.partition_count = 4
        view.changed(None)
    assert (await one.take(1))[0].name == "board"
    assert len(await first_all(every)) == len(IDS)
    for events in (one, every):
        await events.stream.leave()


@pytest.mark.parametrize("target", ["/leaderboard/1/events", "/leaderboard/events"])
@pytest.mark.parametrize("number", INSTANCES)
async def test_an_instance_that_stops_ends_its_streams(cluster: Cluster, number: int, target: str) -> None:
    events = await cluster.events(target, at=number)
    await events.next()
    cluster.stopping[number].begin()
    while await events.next() is not None:
        pass
    late = await cluster.events(target, at=number)
    assert await late.next() is None
    assert cluster.views[number].watchers == []


async def test_a_client_that_does_not_read_gets_the_newest_board(cluster: Cluster) -> None:
    active = cluster.holders(1)[0]
    stream = await AppStream(cluster.network.apps[cluster.hosts[active]], "/leaderboard/1/events").open()
    for number in range(2_000):
        cluster.change(1, [scored(number)], at=[active])
        await asyncio.sleep(0)
    events = Events(stream)
    scores: list[float] = []
    while not scores or scores[-1] != 1999.0:
        scores.append((await events.take(1))[0].data[0]["score"])
    # One is on its way, one waits to be sent.
    assert len(scores) <= 4
    await stream.leave()


def scored(score: float) -> Entry:
    """Return an entry of product 1."""
    return board_of(1, 1)[0] | {"score": float(score)}


async def test_a_change_is_sent_within_turns_of_the_event_loop(cluster: Cluster) -> None:
    active = cluster.holders(1)[0]
    events = await cluster.events("/leaderboard/1/events", at=active)
    await events.next()
    cluster.change(1, board_of(1, 1), at=[active])
    turns = 0
    waiting = asyncio.create_task(events.next())
    while not waiting.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns < 10
    await events.stream.leave()


@pytest.mark.parametrize(
    "target",
    [
        "/leaderboard/x/events",
        "/leaderboard/01/events",
        "/leaderboard/1/events?limit=0",
        "/leaderboard/events?limit=11",
    ],
)
async def test_what_cannot_be_is_refused(cluster: Cluster, target: str) -> None:
    refused = await cluster.get(target)
    assert refused.status_code == 400
    assert refused.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("target", ["/leaderboard/1/events", "/leaderboard/events"])
async def test_head_is_the_headers_alone(cluster: Cluster, target: str) -> None:
    stream = await AppStream(cluster.network.apps[cluster.hosts[0]], target, method="HEAD").open()
    assert stream.headers["content-type"] == "text/event-stream"
    assert await stream.read() == b""
    assert cluster.views[0].watchers == []


async def test_peers_streams_are_not_for_clients_and_never_forwarded(cluster: Cluster) -> None:
    assert (await cluster.get("/internal/stores/leader-boards/events?partition=0&at_least=0")).status_code == 404
    refused = await cluster.get("/internal/stores/leader-boards/events?partition=1&at_least=0", x_leaderboard_hop="1")
    assert refused.status_code == 503
    assert cluster.network.requests == []


async def test_a_peer_that_sends_something_else_is_passed_over(cluster: Cluster) -> None:
    active, standby, other = cluster.holders(1)

    async def stranger(scope: object, receive: object, send: object) -> None:
        head = {"type": "http.response.start", "status": 200, "headers": [(b"x-served-by", b"me")]}
        await send(head)  # type: ignore[operator]
        await send({"type": "http.response.body", "body": b"<html>\n"})  # type: ignore[operator]

    expected = await body(cluster, "/leaderboard/1")
    cluster.network.apps[cluster.hosts[active]] = stranger
    events = await cluster.events("/leaderboard/1/events", at=other)
    assert (await events.take(1))[0].data == expected
    assert cluster.network.open_streams() == [cluster.hosts[standby]]
    await events.stream.leave()


async def test_a_silent_stream_gives_signs_of_life(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.live.event_stream.OneKey.heartbeat_s", 0.01)
    stream = await AppStream(cluster.network.apps[cluster.hosts[0]], "/leaderboard/1/events").open()
    text = b""
    while not text.endswith(b"\n\n:\n\n:\n\n"):
        text += await stream.read()
    await stream.leave()


def test_fakes_that_are_told_of_positions_keep_the_rest() -> None:
    view = boards_view({})
    view.hold([1], "standby", lag=3)
    before = view.status(1)
    view.advance(1, 7)
    assert view.status(1) == before._replace(position=7)

"""What a client may want of the copy that answers, and who answers then."""

from __future__ import annotations

import asyncio

import pytest

from runtime.serving.position import Position
from tests.drivers.cluster import Cluster
from tests.drivers.fake_view import TOPIC_ID, board_of

STORE = "leader-boards"
ONE, COUNTED = "/leaderboard/1", f"/stores/{STORE}/keys/1"


def at(cluster: Cluster, offset: int, topic_id: str = TOPIC_ID, store: str = STORE) -> str:
    """Return a position of the partition of key 1, as text."""
    return Position(topic_id, cluster.views[0].partition_for(1), offset).text(store)


@pytest.fixture
def cluster() -> Cluster:
    """Three instances; the copies of all are current."""
    return current(Cluster({each: board_of(each) for each in range(1, 30)}))


def current(cluster: Cluster) -> Cluster:
    """Have all copies current, at offset 10."""
    for view in cluster.views:
        for partition, status in view.statuses.items():
            view.statuses[partition] = status._replace(lag=0, is_current=True, position=10)
    return cluster


def behind(cluster: Cluster, number: int, position: int = 7) -> None:
    """Have an instance's copies somewhere before the others, without an answer of Kafka's for a while."""
    view = cluster.views[number]
    for partition, status in view.statuses.items():
        view.statuses[partition] = status._replace(position=position, is_current=False, is_followed=False, lag=3)


@pytest.mark.parametrize("path", [ONE, COUNTED])
async def test_a_current_copy_answers_where_it_is_asked(cluster: Cluster, path: str) -> None:
    active, standby, other = cluster.holders(1)
    for number, by in ((active, active), (standby, standby), (other, active)):
        answer = await cluster.get(path, at=number)
        assert answer.headers["x-served-by"] == str(cluster.hosts[by])
        assert answer.headers["x-store-role"] == ("active" if by == active else "standby")
        assert answer.headers["x-store-position"] == at(cluster, 10)
    assert len(cluster.network.requests) == 1


async def test_the_active_copy_answers_where_that_is_wanted_of_all(cluster: Cluster) -> None:
    asked = current(Cluster(cluster.views[0].shared_rows, nearest=False))
    active, standby, _ = asked.holders(1)
    assert (await asked.get(ONE, at=standby)).headers["x-served-by"] == str(asked.hosts[active])


async def test_a_copy_that_is_not_current_leaves_the_answer_to_the_active_one(cluster: Cluster) -> None:
    active, standby, _ = cluster.holders(1)
    behind(cluster, standby)
    assert (await cluster.get(ONE, at=standby)).headers["x-served-by"] == str(cluster.hosts[active])


@pytest.mark.parametrize("path", [ONE, COUNTED])
async def test_who_hands_a_position_back_gets_a_copy_that_has_come_so_far(cluster: Cluster, path: str) -> None:
    active, standby, other = cluster.holders(1)
    behind(cluster, standby)
    for number in (active, standby, other):
        answer = await cluster.get(f"{path}?min_position={at(cluster, 10)}", at=number)
        assert answer.status_code == 200
        assert answer.headers["x-served-by"] == str(cluster.hosts[active])
    assert (await cluster.get(f"{path}?min_position={at(cluster, 7)}", at=standby)).status_code == 200


async def test_a_copy_is_waited_for(cluster: Cluster) -> None:
    active, standby, _ = cluster.holders(1)
    view, partition = cluster.views[standby], cluster.views[standby].partition_for(1)
    asked = asyncio.create_task(cluster.get(f"{ONE}?min_position={at(cluster, 11)}", at=standby))
    await asyncio.sleep(0.05)
    assert not asked.done()
    view.advance(partition)
    answer = await asked
    assert (answer.status_code, answer.headers["x-store-position"]) == (200, at(cluster, 11))
    assert answer.headers["x-served-by"] == str(cluster.hosts[standby])
    assert cluster.views[active].status(partition).position == 10
    assert not cluster.network.requests


async def test_a_position_that_no_copy_has_come_to_is_503_and_nobody_is_blamed(cluster: Cluster) -> None:
    active, standby, other = cluster.holders(1)
    for number in (active, other):
        refused = await cluster.get(f"{ONE}?min_position={at(cluster, 13)}", at=number)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert "3 records before the position" in refused.json()["detail"]
        assert "x-store-unmet" not in refused.headers
    asked = [host for host, _ in cluster.network.requests]
    assert asked == [cluster.hosts[standby], cluster.hosts[active], cluster.hosts[standby]]
    # They are asked in the same order as before.
    assert (await cluster.get(ONE, at=other)).headers["x-served-by"] == str(cluster.hosts[active])


async def test_a_position_of_a_topic_that_is_no_more_is_met_by_any_current_copy(cluster: Cluster) -> None:
    active, standby, _ = cluster.holders(1)
    old = at(cluster, 10**6, topic_id="c5a1f0de-0000-4000-8000-000000000099")
    assert (await cluster.get(f"{ONE}?min_position={old}", at=standby)).status_code == 200
    behind(cluster, standby)
    answer = await cluster.get(f"{ONE}?min_position={old}", at=standby)
    assert answer.headers["x-served-by"] == str(cluster.hosts[active])
    behind(cluster, active)
    assert (await cluster.get(f"{ONE}?min_position={old}", at=standby)).status_code == 503


@pytest.mark.parametrize("path", [ONE, COUNTED, "/leaderboard", "/leaderboard/count", f"/stores/{STORE}/keys?key=1"])
async def test_the_active_copy_answers_who_requires_it_and_nobody_else(cluster: Cluster, path: str) -> None:
    sign = "&" if "?" in path else "?"
    active, standby, _ = cluster.holders(1)
    answer = await cluster.get(f"{path}{sign}require=active", at=standby)
    assert answer.status_code == 200
    assert cluster.network.requests[0][0] == cluster.hosts[active] or path.startswith("/leaderboard")
    cluster.kill(active)
    assert (await cluster.get(f"{path}{sign}require=active", at=standby)).status_code == 503
    assert (await cluster.get(path, at=standby)).status_code == 200


@pytest.mark.parametrize(("most", "answers"), [(0, False), (2, False), (3, True), (100, True)])
async def test_a_copy_is_at_most_so_far_behind(cluster: Cluster, most: int, *, answers: bool) -> None:
    active, standby, _ = cluster.holders(1)
    behind(cluster, standby)
    cluster.kill(active)
    view = cluster.views[standby]
    for partition, status in view.statuses.items():
        view.statuses[partition] = status._replace(is_followed=True)
    assert (await cluster.get(f"{ONE}?max_lag={most}", at=standby)).status_code == (200 if answers else 503)
    # A copy that has not heard from Kafka does not know how far it is behind.
    behind(cluster, standby)
    assert (await cluster.get(f"{ONE}?max_lag={most}", at=standby)).status_code == 503


async def test_a_page_waits_for_its_partition_alone(cluster: Cluster) -> None:
    active, standby, _ = cluster.holders(1)
    behind(cluster, standby)
    answer = await cluster.get(f"/leaderboard?page_size=5&min_position={at(cluster, 10)}", at=standby)
    assert answer.status_code == 200
    assert "min_position=" in answer.headers["link"]
    refused = await cluster.get(f"/leaderboard?min_position={at(cluster, 12)}", at=active)
    assert refused.status_code == 503
    assert refused.json()["partitions"] == [cluster.views[0].partition_for(1)]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("min_position=17", "min_position: it is no position that was given out for leader-boards"),
        ("min_position=", "min_position: "),
        ("require=standby", "require"),
        ("max_lag=-1", "max_lag: -1 is below 0"),
        ("max_lag=few", "max_lag"),
        ("max_lag=1&max_lag=2", "max_lag: it stands in the query more than once"),
    ],
)
@pytest.mark.parametrize("path", [ONE, COUNTED, "/leaderboard", f"/stores/{STORE}/count", f"/stores/{STORE}/keys"])
async def test_a_demand_that_cannot_be_is_400(cluster: Cluster, path: str, query: str, why: str) -> None:
    answer = await cluster.get(f"{path}?{query}")
    assert answer.status_code == 400
    assert why in answer.json()["detail"]


async def test_a_position_of_another_store_is_400(cluster: Cluster) -> None:
    answer = await cluster.get(f"{ONE}?min_position={at(cluster, 1, store='others')}")
    assert answer.status_code == 400


async def test_an_event_of_one_row_has_its_position_behind_its_tag(cluster: Cluster) -> None:
    for number in cluster.holders(1):
        events = await cluster.events(f"{ONE}/events", at=number)
        (board,) = await events.take(1)
        tag, _, position = board.id.partition(".")
        assert position == at(cluster, 10)
        assert f'"{tag}"' == (await cluster.get(ONE, at=number)).headers["etag"]
        await events.stream.leave()


async def test_an_event_among_all_rows_names_its_position(cluster: Cluster) -> None:
    for number in cluster.holders(1):
        events = await cluster.events("/leaderboard/events", at=number)
        boards = [each.data for each in await events.take(30) if each.name == "board"]
        assert {each["position"] for each in boards if each["productId"] == 1} == {at(cluster, 10)}
        await events.stream.leave()


async def test_who_follows_again_from_a_position_is_told_of_changes_alone(cluster: Cluster) -> None:
    for number in cluster.holders(1):
        events = await cluster.events(
            f"{ONE}/events", at=number, last_event_id=f"{await tag_of(cluster, ONE)}.{at(cluster, 10)}"
        )
        cluster.change(1, board_of(2))
        (changed,) = await events.take(1)
        assert changed.id.partition(".")[2] == at(cluster, 11)
        await events.stream.leave()
        cluster.change(1, board_of(1))
        current(cluster)


@pytest.mark.parametrize("others", [0, 1], ids=["nobody else follows it there", "others follow it there"])
async def test_who_follows_again_elsewhere_is_not_told_of_an_older_row(cluster: Cluster, others: int) -> None:
    _, standby, _ = cluster.holders(1)
    view = cluster.views[standby]
    behind(cluster, standby)
    view.statuses = {each: status._replace(is_current=True) for each, status in view.statuses.items()}
    cluster.change(1, board_of(1, 2), at=[standby])
    there = [await cluster.events(f"{ONE}/events", at=standby) for _ in range(others)]
    for events in there:
        await events.take(1)
    came = await cluster.events(f"{ONE}/events", at=standby, last_event_id=f"none.{at(cluster, 10)}")
    waiting = asyncio.create_task(came.next())
    for _ in range(50):
        await asyncio.sleep(0)
    assert not waiting.done(), "the copy has two records to read"
    view.advance(view.partition_for(1), 10)
    cluster.change(1, board_of(1, 1), at=[standby])
    event = await waiting
    assert event is not None
    assert len(event.data) == 1
    for events in (*there, came):
        await events.stream.leave()


@pytest.mark.parametrize("path", ["/leaderboard", "/leaderboard/count", f"/stores/{STORE}/keys?key=1"])
async def test_nobody_is_blamed_for_a_demand_that_many_rows_do_not_meet(cluster: Cluster, path: str) -> None:
    sign = "&" if "?" in path else "?"
    active, _, other = cluster.holders(1)
    for number in range(3):
        behind(cluster, number)
    refused = await cluster.get(f"{path}{sign}max_lag=0", at=other)
    assert refused.status_code == 503
    assert "may be more than 0 records behind" in refused.text
    # They are asked in the same order as before.
    assert (await cluster.get(ONE, at=other)).headers["x-served-by"] == str(cluster.hosts[active])


async def test_a_position_says_nothing_of_other_partitions(cluster: Cluster) -> None:
    for number in range(3):
        behind(cluster, number, position=10)
    for path in ("/leaderboard", "/leaderboard/count", f"/stores/{STORE}/keys"):
        assert (await cluster.get(f"{path}?min_position={at(cluster, 10)}")).status_code == 200


async def test_a_copy_that_comes_so_far_while_others_are_asked_answers(cluster: Cluster) -> None:
    active, standby, _ = cluster.holders(1)
    view = cluster.views[active]

    async def later() -> None:
        while not cluster.network.requests:
            await asyncio.sleep(0.01)
        view.advance(view.partition_for(1))

    comes = asyncio.create_task(later())
    answer = await cluster.get(f"{ONE}?min_position={at(cluster, 11)}", at=active)
    await comes
    assert (answer.status_code, answer.headers["x-served-by"]) == (200, str(cluster.hosts[active]))
    assert [host for host, _ in cluster.network.requests] == [cluster.hosts[standby]]


async def tag_of(cluster: Cluster, path: str) -> str:
    """Return the entity tag of a row, without quotes."""
    return (await cluster.get(path)).headers["etag"].strip('"')

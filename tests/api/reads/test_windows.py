"""The routes of a store with windows: a key is a list of its windows, many rows are windows one by one."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.own import no_own_routes
from api.reads.gather import KEYS_OF_WINDOWS_AT_ONCE
from runtime.declaration import Json, Store, Stream, Topology
from runtime.keys import Int64, Key, KeyValue
from runtime.serving.view import Cut, Rendered
from runtime.serving.windowed_view import WindowedView
from runtime.values import Count
from runtime.windows import Hopping, WindowKey, Windows, time_text
from tests.drivers.cluster import Cluster
from topology.browser_windows import BROWSER_WINDOWS
from topology.word_count import WORD_COUNT

INSTANCES = [0, 1, 2]
STORE = "/stores/counterStore"
NINE = 1_764_061_200_000
"""2025-11-25T09:00:00Z: a window begins."""
KEYS = [
    "b1", "b2", "b", "b1@", "@", "@1764061200000", "b1@1764061200000", "a/b", "a b", "%2F", "\0", "b\0", "ü", "🎲",
    "...", "\uffff", "\U0010ffff",
]  # fmt: skip
STARTS = [0, 2_000, 4_000, 10_000]


def row_of(key: Any, start_ms: int, actions: int = 1, window: Windows | None = BROWSER_WINDOWS.stores[0].window) -> Any:
    """Return a row as it is shown."""
    assert window is not None
    times = {"windowStart": time_text(start_ms), "windowEnd": time_text(window.end_ms(start_ms))}
    return {"browserHash": key, **times, "actions": actions}


ROWS = {
    WindowKey(key, NINE + start): row_of(key, NINE + start, number + 1)
    for key in KEYS
    for number, start in enumerate(STARTS)
}
IN_ORDER = [ROWS[key] for key in sorted(ROWS)]


def windows(rows: dict[Any, Any] = ROWS, **settings_of: Any) -> Cluster:
    """Return three instances that count what browsers do."""
    return Cluster(rows, topology=BROWSER_WINDOWS, own=no_own_routes, **settings_of)


@pytest.fixture
def cluster() -> Cluster:
    return windows()


def path_of(key: str) -> str:
    """Return the path of a key."""
    return f"{STORE}/keys/{quote(key, safe='')}"


def of(key: str, *starts: int) -> list[Any]:
    """Return the rows of a key whose windows begin so many milliseconds after nine."""
    return [ROWS[WindowKey(key, NINE + start)] for start in starts]


async def everywhere(cluster: Cluster, target: str) -> httpx.Response:
    """Return the answer that every instance gives."""
    answers = [await cluster.get(target, at=number) for number in INSTANCES]
    assert len({(each.status_code, each.content) for each in answers}) == 1
    return answers[0]


async def pages(cluster: Cluster, first: str, at: int = 0, size: int = 1000) -> list[Any]:
    """Follow the links from a page to the last one; return the rows of all."""
    found: list[Any] = []
    target: str | None = first
    while target is not None:
        answer = await cluster.get(target, at=at)
        assert answer.status_code == 200, answer.json()
        assert len(answer.json()) <= size
        found += answer.json()
        link = answer.headers.get("link")
        target = None if link is None else link.removeprefix("<").removesuffix('>; rel="next"')
    return found


# One key


@pytest.mark.parametrize("key", KEYS)
async def test_a_key_is_the_list_of_its_windows_at_every_instance(cluster: Cluster, key: str) -> None:
    answer = await everywhere(cluster, path_of(key))
    assert (answer.status_code, answer.json()) == (200, of(key, *STARTS))
    active = cluster.holders(WindowKey(key, NINE))[0]
    assert answer.headers["x-served-by"] == str(cluster.hosts[active])
    assert answer.headers["x-store-position"]
    assert (await cluster.get(path_of(key), if_none_match=answer.headers["etag"])).status_code == 304
    host = await everywhere(cluster, f"{path_of(key)}/host")
    assert host.json()["partition"] == cluster.views[0].partition_for(WindowKey(key, NINE))


@pytest.mark.parametrize("query", ["", "?since=0", "?until=2025-11-25T09:00:00Z"])
async def test_a_key_without_windows_is_not_there(cluster: Cluster, query: str) -> None:
    answer = await everywhere(cluster, f"{path_of('nobody@0')}{query}")
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:problem-type:leaderboard:no-such-key")
    assert "nobody@0" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("query", "starts"),
    [
        ("since=2025-11-25T09:00:02Z", [2_000, 4_000, 10_000]),
        ("until=2025-11-25T09:00:02Z", [0, 2_000]),
        ("since=2025-11-25T09:00:02Z&until=2025-11-25T09:00:04Z", [2_000, 4_000]),
        ("since=2025-11-25T09:00:04Z&until=2025-11-25T09:00:04Z", [4_000]),
        (f"since={NINE + 2_000}&until={NINE + 4_000}", [2_000, 4_000]),
        (f"since={NINE + 2_001}&until={NINE + 9_999}", [4_000]),
        ("since=2025-11-25T10:00:02.000%2B01:00", [2_000, 4_000, 10_000]),
        ("since=2025-11-25T09:00:05Z&until=2025-11-25T09:00:09Z", []),
        ("until=1999-12-31T23:59:59Z", []),
        ("until=-1", []),
        ("since=0001-01-01T00:00:00Z&until=9999-12-31T23:59:59.999Z", STARTS),
    ],
)
async def test_a_span_leaves_the_windows_that_begin_in_it(cluster: Cluster, query: str, starts: list[int]) -> None:
    for key in ("b1", "a/b", "🎲"):
        answer = await everywhere(cluster, f"{path_of(key)}?{query}")
        assert (answer.status_code, answer.json()) == (200, of(key, *starts))
        assert answer.headers["etag"]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("since=yesterday", "since"),
        ("until=2025-11-25", "until"),
        ("since=2025-11-25T09:00:00", "since"),
        ("since=2025-02-30T09:00:00Z", "since"),
        ("until=1e3", "until"),
        ("since=", "since"),
        ("until=%2B1", "until"),
        ("since=²", "since"),
        ("since=--1", "since"),
        ("until=99999999999999999999", "until"),
    ],
)
async def test_what_is_no_time_is_refused_with_what_one_is(cluster: Cluster, query: str, named: str) -> None:
    for path in (path_of("b1"), f"{path_of('b1')}/events"):
        answer = await cluster.get(f"{path}?{quote(query, safe='=&%-:')}")
        assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
        detail = answer.json()["detail"]
        assert detail.startswith(f"{named}: ")
        assert "ISO 8601 with a zone, or milliseconds from 1970" in detail


async def test_times_that_cannot_be_a_span_are_refused(cluster: Cluster) -> None:
    answer = await everywhere(cluster, f"{path_of('b1')}?since={NINE + 1}&until={NINE}")
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        "since: it is after until; the earlier time comes first",
    )
    answer = await cluster.get(f"{path_of('b1')}?since={NINE}&since={NINE}")
    assert (answer.status_code, answer.json()["detail"].partition(":")[0]) == (400, "since")
    answer = await cluster.get(f"{path_of('b1')}?limit=1")
    assert (answer.status_code, answer.json()["detail"].partition(":")[0]) == (400, "limit")


async def test_a_peer_is_asked_for_the_span_that_was_parsed(cluster: Cluster) -> None:
    key = next(each for each in KEYS if cluster.holders(WindowKey(each, NINE))[0] != 0)
    await cluster.get(f"{path_of(key)}?since=2025-11-25T10:00:02%2B01:00&x=1")
    ((_, target),) = cluster.network.requests
    assert target == f"{path_of(key)}?since={NINE + 2_000}"


async def test_losing_an_instance_is_not_noticed(cluster: Cluster) -> None:
    targets = [path_of("b1"), f"{STORE}/keys", f"{STORE}/keys?from=a&page_size=3", f"{STORE}/count"]
    before = {target: (await cluster.get(target)).content for target in targets}
    cluster.kill(1)
    for target, content in before.items():
        for number in (0, 2):
            assert (await cluster.get(target, at=number)).content == content


# Many rows


async def test_all_rows_come_by_key_and_then_by_window(cluster: Cluster) -> None:
    assert (await everywhere(cluster, f"{STORE}/keys")).json() == IN_ORDER
    assert (await everywhere(cluster, f"{STORE}/keys?order=desc")).json() == IN_ORDER[::-1]
    assert (await everywhere(cluster, f"{STORE}/count")).json() == len(ROWS)
    assert (await everywhere(cluster, STORE)).json()["count"] == len(ROWS)


@pytest.mark.parametrize("size", [1, 3, 4, 5, len(ROWS) - 1, len(ROWS), 1000])
@pytest.mark.parametrize(
    "query", ["", "&order=desc", "&from=a&to=b1", "&order=desc&from=a&to=b1", "&prefix=b1", "&prefix=b&order=desc"]
)
async def test_all_pages_together_are_all_rows(cluster: Cluster, size: int, query: str) -> None:
    whole = (await cluster.get(f"{STORE}/keys?{query.removeprefix('&')}")).json()
    assert whole
    for number in INSTANCES:
        assert await pages(cluster, f"{STORE}/keys?page_size={size}{query}", number, size) == whole


async def test_a_page_ends_within_a_key_and_the_next_one_goes_on_there(cluster: Cluster) -> None:
    first = await everywhere(cluster, f"{STORE}/keys?page_size=2&prefix=b2")
    assert first.json() == of("b2", 0, 2_000)
    target = first.headers["link"].removeprefix("<").removesuffix('>; rel="next"')
    second = await everywhere(cluster, target)
    assert second.json() == of("b2", 4_000, 10_000)
    assert "link" not in second.headers


async def test_after_is_the_row_that_a_page_ended_with_also_when_it_is_gone(cluster: Cluster) -> None:
    after = quote(f"b2@{NINE + 2_000}", safe="")
    cluster.change(WindowKey("b2", NINE + 2_000), {})
    up = f"{STORE}/keys?page_size=2&after={after}"
    assert (await everywhere(cluster, up)).json() == of("b2", 4_000, 10_000)
    assert (await everywhere(cluster, f"{up}&order=desc")).json() == [*of("b2", 0), *of("b1@1764061200000", 10_000)]


@pytest.mark.parametrize("after", ["b2", "b2@", "b2@x", "@", "b2@1764061200001", "@1764061200000"])
async def test_after_is_refused_where_it_is_no_row(cluster: Cluster, after: str) -> None:
    answer = await everywhere(cluster, f"{STORE}/keys?page_size=2&after={quote(after, safe='')}")
    assert (answer.status_code, answer.json()["detail"].partition(":")[0]) == (400, "after")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("from=b1&to=b1", lambda key: key == "b1"),
        ("from=b1", lambda key: key >= "b1"),
        ("to=b1", lambda key: key <= "b1"),
        ("from=%40&to=b", lambda key: "@" <= key <= "b"),
        ("from=b%00&to=b1%40", lambda key: "b\0" <= key <= "b1@"),
        ("prefix=b1", lambda key: key.startswith("b1")),
        ("prefix=%40", lambda key: key.startswith("@")),
        ("prefix=", lambda _: True),
        ("prefix=%F4%8F%BF%BF", lambda key: key.startswith("\U0010ffff")),
        ("from=c&to=d", lambda _: False),
    ],
)
async def test_ranges_are_of_keys_with_all_their_windows(cluster: Cluster, query: str, expected: Any) -> None:
    rows = [row for row in IN_ORDER if expected(row["browserHash"])]
    assert (await everywhere(cluster, f"{STORE}/keys?{query}")).json() == rows
    assert (await everywhere(cluster, f"{STORE}/keys?{query}&order=desc")).json() == rows[::-1]


async def test_named_keys_are_lists_in_the_order_of_their_names(cluster: Cluster) -> None:
    asked = ["b2", "nobody", *KEYS, "b2"]
    query = "&".join(f"key={quote(key, safe='')}" for key in asked)
    answer = await everywhere(cluster, f"{STORE}/keys?{query}")
    assert answer.json() == [of(key, *STARTS) if key in KEYS else None for key in asked]


async def test_others_are_answered_between_named_keys_of_which_each_has_many_windows(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = "&".join(f"key={quote(key, safe='')}" for key in KEYS)
    lists_made: list[int] = []
    get = WindowedView.get

    def counted(view: WindowedView, key: KeyValue, cut: Cut = None) -> Rendered | None:
        lists_made[-1] += 1
        return get(view, key, cut)

    monkeypatch.setattr(WindowedView, "get", counted)

    async def take_turns() -> None:
        while True:
            lists_made.append(0)
            await asyncio.sleep(0)

    others = asyncio.create_task(take_turns())
    await asyncio.sleep(0)
    try:
        for instance in INSTANCES:
            await cluster.get(f"{STORE}/keys?{asked}", at=instance)
    finally:
        others.cancel()
    assert sum(lists_made) == len(INSTANCES) * len(KEYS)
    assert max(lists_made) <= KEYS_OF_WINDOWS_AT_ONCE


async def test_named_keys_are_refused_at_once_where_they_are_too_long_or_nobody_has_them(cluster: Cluster) -> None:
    long = "&".join(f"key={str(number) + '/' * 30}" for number in range(1000))
    refused = await everywhere(cluster, f"{STORE}/keys?{long}")
    assert (refused.status_code, "several requests" in refused.json()["detail"]) == (400, True)
    assert cluster.network.requests == []
    cluster.kill(1)
    cluster.kill(2)
    asked = "&".join(f"key={quote(key, safe='')}" for key in KEYS)
    refused = await cluster.get(f"{STORE}/keys?{asked}")
    assert (refused.status_code, refused.json()["partitions"]) == (503, [1])
    assert "partial=true" in refused.json()["detail"]
    part = await cluster.get(f"{STORE}/keys?{asked}&partial=true")
    assert part.headers["x-missing-partitions"] == "1"
    assert {row is None for row in part.json()} == {True, False}


@pytest.mark.parametrize("name", ["since", "until"])
async def test_a_span_is_of_one_key_with_windows(cluster: Cluster, name: str) -> None:
    # Where a route has no such parameter it says nothing, as any other that it does not know.
    assert (await cluster.get(f"{STORE}/keys?{name}={NINE}")).json() == IN_ORDER


# Live


async def test_a_key_is_followed_as_its_list(cluster: Cluster) -> None:
    for key in ("b1", "@", "a/b", "🎲"):
        rows = of(key, *STARTS)
        active, _, other = cluster.holders(WindowKey(key, NINE))
        events = await cluster.events(f"{path_of(key)}/events", at=other)
        (event,) = await events.take(1)
        assert (event.name, event.data) == ("row", rows)
        assert event.id.partition(".")[0] == (await cluster.get(path_of(key))).headers["etag"].strip('"')
        fresh = row_of(key, NINE + 12_000, 9)
        cluster.change(WindowKey(key, NINE + 12_000), fresh, at=[active])
        assert (await events.take(1))[0].data == [*rows, fresh]
        cluster.change(WindowKey(key, NINE), {}, at=[active])
        assert (await events.take(1))[0].data == [*rows[1:], fresh]
        await events.stream.leave()


async def test_a_key_is_gone_with_its_last_window() -> None:
    cluster = windows({WindowKey("b1", NINE): row_of("b1", NINE)})
    active, _, other = cluster.holders(WindowKey("b1", NINE))
    events = await cluster.events(f"{path_of('b1')}/events", at=other)
    assert (await events.take(1))[0].data == [row_of("b1", NINE)]
    cluster.change(WindowKey("b1", NINE), {}, at=[active])
    assert (await events.take(1))[0].name == "gone"
    await events.stream.leave()


async def test_a_span_of_a_key_is_followed(cluster: Cluster) -> None:
    active, _, other = cluster.holders(WindowKey("b1", NINE))
    events = await cluster.events(f"{path_of('b1')}/events?since={NINE + 11_000}", at=other)
    assert (await events.take(1))[0].data == []
    # One outside of it is no news.
    cluster.change(WindowKey("b1", NINE), row_of("b1", NINE, 100), at=[active])
    fresh = row_of("b1", NINE + 12_000)
    cluster.change(WindowKey("b1", NINE + 12_000), fresh, at=[active])
    assert (await events.take(1))[0].data == [fresh]
    await events.stream.leave()


async def test_of_a_long_list_what_changes_soon_after_it_was_sent_comes_together() -> None:
    many = 8_000
    cluster = windows({WindowKey("b1", NINE + 2_000 * each): row_of("b1", NINE + 2_000 * each) for each in range(many)})
    active, _, other = cluster.holders(WindowKey("b1", NINE))
    events = await cluster.events(f"{path_of('b1')}/events", at=other)
    assert len((await events.take(1))[0].data) == many

    def change(number: int, actions: int) -> None:
        start_ms = NINE + 2_000 * number
        cluster.change(WindowKey("b1", start_ms), row_of("b1", start_ms, actions), at=[active])

    change(0, 2)
    assert [row["actions"] for row in (await events.take(1))[0].data[:2]] == [2, 1], "the first change comes at once"
    for number in range(50):
        change(number, 3)
        await asyncio.sleep(0)
    assert [row["actions"] for row in (await events.take(1))[0].data[:51]] == [3] * 50 + [1], "the others come together"
    await events.stream.leave()


async def test_all_rows_come_live_named_by_key_and_window(cluster: Cluster) -> None:
    events = await cluster.events(f"{STORE}/events", at=2)
    found = {}
    while (event := (await events.take(1))[0]).name != "complete":
        if event.name == "row":
            found[event.data["key"]] = event.data["row"]
    assert found == {f"{key}@{start}": row for (key, start), row in ROWS.items()}
    assert event.data == {"rows": len(ROWS)}

    key = WindowKey("a/b@c", NINE)
    cluster.change(key, row_of("a/b@c", NINE))
    (event,) = await events.take(1)
    assert (event.name, event.data["key"]) == ("row", f"a/b@c@{NINE}")
    assert event.data["row"] == row_of("a/b@c", NINE)
    last_event_id = events.last_event_id
    await events.stream.leave()

    # Who comes again is told what has changed meanwhile, and nothing else.
    cluster.change(key, {})
    cluster.change(WindowKey("b1", NINE), row_of("b1", NINE, 50))
    events = await cluster.events(f"{STORE}/events", at=2, last_event_id=last_event_id)
    told = {(each.name, each.data.get("key")) for each in await events.take(3)}
    assert told == {("gone", f"a/b@c@{NINE}"), ("row", f"b1@{NINE}"), ("complete", None)}
    await events.stream.leave()


# Keys of any kind


def numbered(window: Windows) -> Topology:
    """Return a topology with windows of numbers."""
    store = Store("numbers", topic="n", key=Key("number", Int64), values={"count": Count()}, window=window)
    return Topology("numbered", source=Stream("logs", Json({"number": Int64})), stores=[store])


@given(
    st.dictionaries(
        st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-3, 3).map(lambda each: each * 2_000)),
        st.integers(1, 5),
        max_size=10,
    ),
    st.integers(1, 4),
    st.booleans(),
)
@settings(max_examples=40, deadline=None)
async def test_pages_of_numbers_are_in_order_of_key_and_window(
    counts: dict[tuple[int, int], int], size: int, descending: bool
) -> None:
    topology = numbered(Hopping("5 seconds", "2 seconds"))
    rows = {WindowKey(*key): {"number": key[0], "at": key[1], "count": count} for key, count in counts.items()}
    cluster = Cluster(rows, topology=topology, own=no_own_routes)
    order = "desc" if descending else "asc"
    found = await pages(cluster, f"/stores/numbers/keys?page_size={size}&order={order}", at=1, size=size)
    assert [(row["number"], row["at"]) for row in found] == sorted(counts, reverse=descending)
    for number in {key for key, _ in counts}:
        answer = await everywhere(cluster, f"/stores/numbers/keys/{number}")
        assert [row["at"] for row in answer.json()] == sorted(at for key, at in counts if key == number)
        answer = await everywhere(cluster, f"/stores/numbers/keys?from={number}&to={number}")
        assert [row["at"] for row in answer.json()] == sorted(at for key, at in counts if key == number)


# Where a key has one row


@pytest.mark.parametrize("name", ["since", "until"])
async def test_a_span_is_refused_where_rows_are_of_no_windows(name: str) -> None:
    cluster = Cluster({"hello": {"word": "hello", "count": 2}}, topology=WORD_COUNT, own=no_own_routes)
    for path in ("/stores/counts-store/keys/hello", "/stores/counts-store/keys/hello/events"):
        answer = await cluster.get(f"{path}?{name}={NINE}")
        assert (answer.status_code, answer.json()["detail"]) == (
            400,
            f"{name}: rows of this store are of no windows; leave it out",
        )


async def test_a_store_says_what_its_windows_are(cluster: Cluster) -> None:
    (facts,) = (await everywhere(cluster, "/stores")).json()
    windows_of = {"size": "5 seconds", "every": "2 seconds", "keep": "1 hour", "grace": "10 seconds"}
    assert facts["window"] == windows_of
    assert facts["columns"] == [{"name": "actions", "type": "integer"}]
    (declared,) = (await everywhere(cluster, "/topology")).json()["stores"]
    assert declared["window"] == windows_of

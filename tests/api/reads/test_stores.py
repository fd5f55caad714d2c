"""The routes that every topology has for its stores, on one with text keys: alike at every instance."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.http.schemas import JoinFacts
from api.live import follower
from api.operate.declared import facts_of
from api.own import no_own_routes
from api.reads import gather
from runtime.declaration import PlainText, Store, Stream, Topology
from runtime.keys import Int64, Key, Text
from runtime.records import ID_MAX, ID_MIN
from runtime.values import Count
from tests.drivers.cluster import Cluster
from tests.drivers.streams import Event
from topology.paid_orders import PAID_ORDERS
from topology.word_count import WORD_COUNT

WORDS = [
    "hello", "world", "kafka", "a/b", "/", "//", "a b", "@", "...", "%", "%2F", "100%", "ü", "Ü", "日本", "👍🏽",
    "count", "host", "keys", "a?b", "a#b", "a&b=c", "a+b", "\n", "\0", '"', "\\", "'", "x" * 200, "~",
    "\U0010ffff", "\uffff",
]  # fmt: skip
ROWS = {word: {"word": word, "count": number + 1} for number, word in enumerate(WORDS)}
INSTANCES = [0, 1, 2]
STORE = "/stores/counts-store"


def words(rows: dict[str, Any] = ROWS, **settings_of: Any) -> Cluster:
    """Return three instances that count words."""
    return Cluster(rows, topology=WORD_COUNT, own=no_own_routes, **settings_of)


@pytest.fixture
def cluster() -> Cluster:
    return words()


def path_of(word: str) -> str:
    """Return the path of a word's row."""
    return f"{STORE}/keys/{quote(word, safe='')}"


async def everywhere(cluster: Cluster, target: str) -> httpx.Response:
    """Return the answer that every instance gives."""
    answers = [await cluster.get(target, at=number) for number in INSTANCES]
    assert len({(each.status_code, each.content) for each in answers}) == 1
    return answers[0]


@pytest.mark.parametrize("word", WORDS)
async def test_a_row_is_the_same_at_every_instance_whatever_its_key(cluster: Cluster, word: str) -> None:
    answer = await everywhere(cluster, path_of(word))
    assert (answer.status_code, answer.json()) == (200, ROWS[word])
    active = cluster.holders(word)[0]
    assert answer.headers["x-served-by"] == str(cluster.hosts[active])
    assert answer.headers["x-store-role"] == "active"
    assert answer.headers["x-store-lag"] == "0"
    assert (await cluster.get(path_of(word), if_none_match=answer.headers["etag"])).status_code == 304
    host = await everywhere(cluster, f"{path_of(word)}/host")
    assert host.json()["partition"] == cluster.views[0].partition_for(word)


# Of a path with `.` or `..` as a part clients make another one: RFC 3986, section 5.2.4.
@given(st.text(min_size=1, max_size=20).filter(lambda word: word not in (".", "..")))
@settings(max_examples=50, deadline=None)
async def test_any_text_is_a_key(word: str) -> None:
    cluster = words({word: {"word": word, "count": 1}})
    for number in INSTANCES:
        answer = await cluster.get(path_of(word), at=number)
        assert (answer.status_code, answer.json()) == (200, {"word": word, "count": 1})


@pytest.mark.parametrize("text", ["%FF", "a%C3", "%ED%A0%80"])
async def test_a_key_that_is_no_utf_8_is_a_bad_request(cluster: Cluster, text: str) -> None:
    answer = await everywhere(cluster, f"{STORE}/keys/{text}")
    assert answer.status_code == 400
    assert "UTF-8" in answer.json()["detail"]


async def test_a_key_without_a_row_is_not_there(cluster: Cluster) -> None:
    answer = await everywhere(cluster, path_of("nobody said/this"))
    assert answer.status_code == 404
    assert answer.json()["type"] == "urn:problem-type:leaderboard:no-such-key"
    assert "nobody said/this" in answer.json()["detail"]
    assert answer.headers["x-store-role"] == "active"


@pytest.mark.parametrize("rest", ["", "/keys", "/keys/hello", "/keys/a%2Fb", "/count", "/keys/hello/host", "/else"])
async def test_an_unknown_store_names_those_there_are(cluster: Cluster, rest: str) -> None:
    answer = await everywhere(cluster, f"/stores/count-store{rest}")
    assert answer.status_code == 404
    assert answer.json()["type"] == "urn:problem-type:leaderboard:no-such-store"
    assert "counts-store" in answer.json()["detail"].partition("The stores are")[2]


@pytest.mark.parametrize(
    "path",
    [f"{STORE}/", f"{STORE}/keys/", f"{STORE}/keys/a/b", f"{STORE}/else", "/stores/", "/leaderboard", "/hosts/1"],
)
async def test_a_path_that_is_none_says_where_to_go(cluster: Cluster, path: str) -> None:
    answer = await cluster.get(path)
    assert answer.status_code == 404
    assert answer.json()["type"] == "about:blank"
    assert "/stores" in answer.json()["detail"]


@pytest.mark.parametrize("query", ["limit=1", "limit=x", "page_size=0", "page_size=1001", "after=a", "from=b&to=a",
                                   "from=a&from=b", "partial=1", "from=", "to=", "page_size=1&after=", "key=",
                                   "order=up", "order=", "prefix=a&from=a", "prefix=a&to=b", "prefix=a&prefix=b",
                                   "key=a&from=a", "key=a&prefix=a", "key=a&order=asc", "key=a&page_size=1",
                                   "key=a&limit=1", "order=asc&order=desc"])  # fmt: skip
async def test_what_cannot_be_is_a_bad_request(cluster: Cluster, query: str) -> None:
    answer = await cluster.get(f"{STORE}/keys?{query}")
    assert answer.status_code == 400
    named = answer.json()["detail"].partition(":")[0]
    assert f"{named}=" in query


@pytest.mark.parametrize("query", ["from=%FF", "key=a%C3", "prefix=%ED%A0%80", "x=%FF"])
async def test_a_query_that_is_no_utf_8_is_a_bad_request(cluster: Cluster, query: str) -> None:
    answer = await cluster.get(f"{STORE}/keys?{query}")
    assert answer.status_code == 400
    assert "UTF-8" in answer.json()["detail"]


async def test_rows_are_no_lists_here_so_they_have_no_limit(cluster: Cluster) -> None:
    for number in INSTANCES:
        assert (await cluster.get(f"{STORE}/keys/hello?limit=1", at=number)).status_code == 400


async def test_all_rows_ascend_by_the_bytes_of_their_keys(cluster: Cluster) -> None:
    answer = await everywhere(cluster, f"{STORE}/keys")
    assert answer.json() == [ROWS[word] for word in sorted(WORDS, key=str.encode)]
    assert (await everywhere(cluster, f"{STORE}/count")).json() == len(WORDS)


@pytest.mark.parametrize(
    ("first", "last"), [("a", "b"), ("hello", "hello"), ("", "/"), ("ü", ""), ("b", "c"), ("", "")]
)
async def test_a_range_is_inclusive(cluster: Cluster, first: str, last: str) -> None:
    given_bounds = {name: text for name, text in (("from", first), ("to", last)) if text}
    query = "&".join(f"{name}={quote(text)}" for name, text in given_bounds.items())
    answer = await everywhere(cluster, f"{STORE}/keys?{query}")
    expected = [word for word in sorted(WORDS) if word >= first and (not last or word <= last)]
    assert [row["word"] for row in answer.json()] == expected


@pytest.mark.parametrize(
    "prefix",
    ["", "h", "a", "a/", "%", "x" * 200, "x" * 201, "\U0010ffff", "\uffff", "\ud7ff", "日", "👍", "👍🏽", "\0", "zz"],
)
async def test_a_prefix_gives_the_keys_that_begin_with_it(cluster: Cluster, prefix: str) -> None:
    expected = [word for word in sorted(WORDS, key=str.encode) if word.startswith(prefix)]
    answer = await everywhere(cluster, f"{STORE}/keys?prefix={quote(prefix)}")
    assert [row["word"] for row in answer.json()] == expected
    answer = await everywhere(cluster, f"{STORE}/keys?prefix={quote(prefix)}&order=desc")
    assert [row["word"] for row in answer.json()] == expected[::-1]


EDGES = st.sampled_from(["a", "b", "\ud7ff", "\ue000", "\uffff", "\U0010fffe", "\U0010ffff"])
KEYS = st.lists(EDGES, min_size=1, max_size=4).map("".join)
EDGED = words({})


@given(st.sets(KEYS, max_size=12), st.lists(EDGES, max_size=3).map("".join), st.integers(1, 4), st.booleans())
@settings(max_examples=60, deadline=None)
async def test_pages_of_any_prefix_in_any_order_are_what_begins_with_it(
    keys: set[str], prefix: str, size: int, descending: bool
) -> None:
    cluster = EDGED
    for view in cluster.views:
        view.shared_rows = {key: {"word": key, "count": 1} for key in keys}
    order = "desc" if descending else "asc"
    found = await pages(cluster, f"{STORE}/keys?page_size={size}&prefix={quote(prefix)}&order={order}")
    expected = sorted((key for key in keys if key.startswith(prefix)), reverse=descending)
    assert [row["word"] for row in found] == expected


@pytest.mark.parametrize("size", [1, 2, 7, len(WORDS), 1000])
@pytest.mark.parametrize("query", ["", "&from=a&to=z", "&partial=true", "&order=desc", "&order=desc&from=a&to=z"])
async def test_all_pages_together_are_all_rows(cluster: Cluster, size: int, query: str) -> None:
    whole = (await cluster.get(f"{STORE}/keys?{query.removeprefix('&')}")).json()
    for number in INSTANCES:
        assert await pages(cluster, f"{STORE}/keys?page_size={size}{query}", number, size) == whole


@pytest.mark.parametrize("at_once", [1, 2, 3, 7, len(WORDS)])
@pytest.mark.parametrize("query", ["", "from=a&to=z", "order=desc", "order=desc&from=a&to=z"])
async def test_a_long_list_is_read_some_rows_at_a_time(
    cluster: Cluster, query: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await everywhere(cluster, f"{STORE}/keys?{query}")
    asked = len(cluster.network.requests)
    monkeypatch.setattr(gather, "AT_ONCE", at_once)
    assert (await everywhere(cluster, f"{STORE}/keys?{query}")).content == whole.content
    assert at_once > 1 or len(cluster.network.requests) > 3 * asked
    cluster.kill(1)
    cluster.kill(2)
    part = await cluster.get(f"{STORE}/keys?{query}&partial=true")
    assert (part.status_code, part.headers["x-missing-partitions"]) == (200, "1")
    there = [row for row in whole.json() if cluster.views[0].partition_for(row["word"]) != 1]
    assert part.json() == there


async def pages(cluster: Cluster, first: str, at: int = 0, size: int = 1000) -> list[Any]:
    """Follow the links from a page to the last one; return the rows of all."""
    found: list[Any] = []
    target: str | None = first
    while target is not None:
        answer = await cluster.get(target, at=at)
        assert answer.status_code == 200
        assert len(answer.json()) <= size
        found += answer.json()
        link = answer.headers.get("link")
        target = None if link is None else link.removeprefix("<").removesuffix('>; rel="next"')
    return found


async def test_after_goes_down_where_the_order_does(cluster: Cluster) -> None:
    keys = f"{STORE}/keys?page_size=2&order=desc"
    assert [row["word"] for row in (await everywhere(cluster, f"{keys}&after=b")).json()] == ["a?b", "a/b"]
    assert [row["word"] for row in (await everywhere(cluster, f"{keys}&to=count&after=z")).json()] == ["count", "a?b"]
    assert (await everywhere(cluster, f"{keys}&from=hello&after=hello")).json() == []
    assert (await everywhere(cluster, f"{keys}&after=%00")).json() == []


async def test_named_rows_come_in_the_order_of_their_names(cluster: Cluster) -> None:
    asked = ["world", "nobody", *WORDS, "world", "\U0010ffff\U0010ffff"]
    query = "&".join(f"key={quote(word, safe='')}" for word in asked)
    answer = await everywhere(cluster, f"{STORE}/keys?{query}")
    assert answer.json() == [ROWS.get(word) for word in asked]


async def test_a_peer_is_asked_only_for_the_names_that_it_holds(cluster: Cluster) -> None:
    word, other = (next(each for each in WORDS if cluster.holders(each)[0] == number) for number in (1, 0))
    await cluster.get(f"{STORE}/keys?key={quote(other, safe='')}&key={quote(word, safe='')}")
    partition = cluster.views[0].partition_for(word)
    target = f"/internal{STORE}/named?partitions={partition}&key={quote(word, safe='')}"
    assert cluster.network.requests == [(cluster.hosts[1], target)]


async def test_names_are_few_and_short_enough_to_pass_on(cluster: Cluster) -> None:
    many = "&".join(f"key={number}" for number in range(1000))
    assert (await everywhere(cluster, f"{STORE}/keys?{many}")).json() == [None] * 1000
    refused = await everywhere(cluster, f"{STORE}/keys?{many}&key=1000")
    assert (refused.status_code, refused.json()["detail"]) == (
        400,
        "key: 1001 keys are more than 1000; ask for them in several requests",
    )
    long = "&".join(f"key={str(number) + '/' * 30}" for number in range(1000))
    refused = await everywhere(cluster, f"{STORE}/keys?{long}")
    assert refused.status_code == 400
    assert "several requests" in refused.json()["detail"]


async def test_names_whose_partitions_nobody_has_are_not_passed_off_as_missing(cluster: Cluster) -> None:
    cluster.kill(1)
    cluster.kill(2)
    lost = next(word for word in WORDS if cluster.views[0].partition_for(word) == 1)
    kept = next(word for word in WORDS if cluster.views[0].partition_for(word) == 0)
    target = f"{STORE}/keys?key={quote(lost, safe='')}&key={quote(kept, safe='')}"
    refused = await cluster.get(target)
    assert (refused.status_code, refused.json()["partitions"]) == (503, [1])
    part = await cluster.get(f"{target}&partial=true")
    assert (part.json(), part.headers["x-missing-partitions"]) == ([None, ROWS[kept]], "1")
    assert (await cluster.get(f"{STORE}/keys?key={quote(lost, safe='')}&partial=true")).status_code == 503
    assert (await cluster.get(f"{STORE}/keys?key={quote(kept, safe='')}")).json() == [ROWS[kept]]


async def test_losing_an_instance_is_not_noticed(cluster: Cluster) -> None:
    targets = [path_of("hello"), path_of("a/b"), f"{STORE}/keys", f"{STORE}/keys?from=a&page_size=3", f"{STORE}/count"]
    before = {target: (await cluster.get(target)).content for target in targets}
    cluster.kill(1)
    for target, content in before.items():
        for number in (0, 2):
            assert (await cluster.get(target, at=number)).content == content


async def test_a_part_is_never_passed_off_as_the_whole(cluster: Cluster) -> None:
    cluster.kill(1)
    cluster.kill(2)
    for target in (f"{STORE}/keys", f"{STORE}/count"):
        refused = await cluster.get(target)
        assert (refused.status_code, refused.json()["partitions"]) == (503, [1])
        part = await cluster.get(f"{target}?partial=true")
        assert (part.status_code, part.headers["x-missing-partitions"]) == (200, "1")
    assert (await cluster.get(STORE)).json()["count"] is None


async def test_requests_to_peers_are_made_of_what_was_parsed(cluster: Cluster) -> None:
    word = next(each for each in WORDS if "/" in each and cluster.holders(each)[0] != 0)
    await cluster.get(f"{path_of(word)}?x=1")
    active = cluster.holders(word)[0]
    assert cluster.network.requests == [(cluster.hosts[active], path_of(word))]
    cluster.network.requests.clear()
    await cluster.get(f"{STORE}/keys?from=a%26b%3Dc")
    assert {target.partition("&")[2] for _, target in cluster.network.requests} == {"first=a%26b%3Dc&most=1000"}


async def test_what_was_forwarded_is_forwarded_no_more(cluster: Cluster) -> None:
    word = next(each for each in WORDS if 0 in cluster.holders(each)[2:])
    assert (await cluster.get(path_of(word), x_leaderboard_hop="1")).status_code == 503
    assert (await cluster.get(f"{STORE}/keys", x_leaderboard_hop="1")).status_code == 503
    assert cluster.network.requests == []


async def test_a_store_says_what_it_is(cluster: Cluster) -> None:
    facts = (await everywhere(cluster, "/stores")).json()
    assert facts == [
        {
            "name": "counts-store",
            "topic": "counts",
            "key": {"name": "word", "type": "text"},
            "columns": [{"name": "count", "type": "integer"}],
            "window": None,
            "partitions": 4,
            "count": len(WORDS),
        }
    ]
    assert [(await everywhere(cluster, STORE)).json()] == facts


async def test_the_topology_is_told_as_it_is_declared(cluster: Cluster) -> None:
    facts = (await everywhere(cluster, "/topology")).json()
    assert (facts["name"], facts["pace"], facts["tables"]) == ("word-count", "real time", [])
    assert facts["source"] == {"topic": "lines", "columns": [{"name": "text", "type": "text"}]}
    assert facts["sources"] == ["lines"]
    assert [store["name"] for store in facts["stores"]] == ["counts-store"]
    parts = {part for flow in facts["flows"] for part in flow}
    assert {"lines", "counts", "counts-store"} <= parts


def test_of_two_streams_it_is_told_how_they_are_joined() -> None:
    facts = facts_of(PAID_ORDERS, ())
    assert facts.sources == ["orders-topic", "payments-topic"]
    assert {column.name for column in facts.source.columns} > {"order_id", "amount", "method"}
    assert facts.join == JoinFacts(on="order_id", within="5 minutes", grace="1 minute")


async def test_a_list_is_served_as_that_list_by_both_routes() -> None:
    board = [{"playerId": number} for number in range(5)]
    boards = Cluster({7: board, -3: board[:1]})
    for number in INSTANCES:
        for query in ("", "?limit=1", "?limit=10"):
            own, every = [await boards.get(f"{path}/7{query}", at=number)
                          for path in ("/leaderboard", "/stores/leader-boards/keys")]  # fmt: skip
            assert (own.content, own.headers["etag"]) == (every.content, every.headers["etag"])
        listed = await boards.get("/stores/leader-boards/keys?limit=2", at=number)
        assert listed.json() == [board[:1], board[:2]]
        assert (await boards.get("/stores/leader-boards/keys/007", at=number)).status_code == 400
        assert (await boards.get("/stores/leader-boards/keys/7%2F8", at=number)).status_code == 400


async def test_the_front_gives_every_row_as_the_router_does(cluster: Cluster) -> None:
    for word in WORDS:
        plain = await cluster.get(path_of(word), x_request_id="given")
        # What the front does not know by its form goes to the router.
        routed = await cluster.get(f"{path_of(word)}?unknown=1", x_request_id="given")
        assert (plain.content, plain.headers) == (routed.content, routed.headers)


async def test_rows_are_counted_by_route_and_not_by_key(cluster: Cluster) -> None:
    for word in WORDS:
        await cluster.get(path_of(word))
    await cluster.get("/stores/x/keys/1")
    lines = (await cluster.get("/metrics")).text.splitlines()
    counted = {line.partition('route="')[2].partition('"')[0] for line in lines if "http_requests_total{" in line}
    assert counted == {f"{STORE}/keys/{{key}}", "/stores/{store}/{rest:path}"}


TWO = Topology(
    "letters-and-numbers",
    source=Stream("lines", PlainText()),
    stores=[
        Store("letters", topic="letters-topic", rows=lambda source: source, key=Key("letter", Text),
              values={"count": Count()}),
        Store("numbers", topic="numbers-topic", rows=lambda source: source, key=Key("number", Int64),
              values={"count": Count()}),
    ],
)  # fmt: skip

ONE = replace(TWO, stores=[TWO.stores[1]])


async def test_each_store_of_a_topology_has_its_own_rows_and_keys() -> None:
    cluster = Cluster({"a": {"letter": "a", "count": 1}}, topology=TWO, own=no_own_routes)
    assert [each["name"] for each in (await cluster.get("/stores")).json()] == ["letters", "numbers"]
    assert (await everywhere(cluster, "/stores/letters/keys")).json() == [{"letter": "a", "count": 1}]
    assert (await everywhere(cluster, "/stores/numbers/keys")).json() == []
    assert (await everywhere(cluster, "/stores/letters/keys/a")).status_code == 200
    assert (await everywhere(cluster, "/stores/numbers/keys/a")).status_code == 400
    assert (await everywhere(cluster, "/stores/numbers/keys/1")).status_code == 404
    assert (await everywhere(cluster, "/stores/numbers/keys?key=1&key=-2")).json() == [None, None]
    assert (await everywhere(cluster, "/stores/numbers/keys?key=1&key=a")).json()["detail"].startswith("key: ")
    refused = await everywhere(cluster, "/stores/numbers/keys?prefix=1")
    assert (refused.status_code, "integer" in refused.json()["detail"]) == (400, True)


async def test_numbers_are_turned_over_from_end_to_end() -> None:
    numbers = [ID_MIN, ID_MIN + 1, -1, 0, 7, ID_MAX - 1, ID_MAX]
    cluster = Cluster({each: {"number": each} for each in numbers}, topology=ONE, own=no_own_routes)
    keys = "/stores/numbers/keys"
    for order, expected in (("asc", numbers), ("desc", numbers[::-1])):
        for number in INSTANCES:
            found = await pages(cluster, f"{keys}?page_size=2&order={order}", number)
            assert [row["number"] for row in found] == expected
    last = f"{keys}?page_size=2&after={ID_MAX}"
    assert (await everywhere(cluster, last)).json() == []
    assert (await everywhere(cluster, f"{keys}?page_size=2&order=desc&after={ID_MIN}")).json() == []
    assert [row["number"] for row in (await everywhere(cluster, f"{keys}?from=0&to={ID_MAX}")).json()] == numbers[3:]


async def test_live_updates_between_instances_carry_keys_of_any_text() -> None:
    rows = {word: {"word": word, "count": 1} for word in WORDS}
    cluster = words(rows)
    for word in ("...", "@", "a b", "\n", "%2F", "ü"):
        active, _, other = cluster.holders(word)
        events = await cluster.events(f"{path_of(word)}/events", at=other)
        assert (await events.take(1))[0] == Event("row", events.last_event_id, rows[word])
        cluster.change(word, {"word": word, "count": 2}, at=[active])
        assert (await events.take(1))[0].data == {"word": word, "count": 2}
        cluster.change(word, {}, at=[active])
        assert (await events.take(1))[0].name == "gone"
        await events.stream.leave()
        rows[word] = {"word": word, "count": 1}


@pytest.mark.parametrize("at_once", [1, 3, 1000])
async def test_all_rows_come_live_each_with_its_key(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "AT_ONCE", at_once)
    rows = ROWS | {each: {"word": each, "count": 1} for each in (".", "..")}
    cluster = words(rows)
    events = await cluster.events(f"{STORE}/events", at=2)
    found = {}
    while (event := (await events.take(1))[0]).name != "complete":
        if event.name == "row":
            found[event.data["key"]] = event.data["row"]
    assert found == rows
    assert event.data == {"rows": len(rows)}
    await events.stream.leave()


@pytest.mark.parametrize("number", INSTANCES)
async def test_rows_that_change_while_all_are_read_come_as_they_are(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "AT_ONCE", 1)
    names = [f"w{each:03}" for each in range(200)]
    cluster = words({word: {"word": word, "count": 1} for word in names})
    events = await cluster.events(f"{STORE}/events", at=number)
    for position, word in enumerate(names[::7]):
        cluster.change(word, {} if position % 2 else {"word": word, "count": 2})
        await asyncio.sleep(0)
    expected = {word: row for word, row in cluster.views[0].shared_rows.items() if row}
    found: dict[str, Any] = {}
    is_complete = False
    async with asyncio.timeout(60):
        while not is_complete or found != expected:
            (event,) = await events.take(1)
            is_complete |= event.name == "complete"
            if event.name == "row":
                found[event.data["key"]] = event.data["row"]
            elif event.name == "gone":
                found.pop(event.data["key"], None)
    await events.stream.leave()

"""What is hidden leaves boards at once, and is back where it was when it is lifted."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from runtime.errors import InvalidRecord
from runtime.serving import rendered_view
from runtime.serving.in_memory import GivenRecord, InMemory
from runtime.serving.rendered_view import RenderedView
from runtime.table_records import parse_row
from topology.leaderboard.board import STORE, leaderboard
from topology.leaderboard.moderation import (
    MODERATION_TABLE,
    HiddenPlayer,
    ScoreName,
    hidden_by,
    key_of,
    named_by,
)
from topology.leaderboard.places import Board, Entry
from topology.leaderboard.topics import MODERATION, PLAYERS, PRODUCTS

HIDE: dict[str, Any] = {"hidden": True, "reason": "a cheat"}
SHOW: dict[str, Any] = {"hidden": False}
PLAYER_IDS = range(1, 6)
OF_TOOLS = "score/AAECAwQFBgcICQoLDA0ODw/0/7"
"""As Kafka's tools write the topic id of `score/00010203-0405-0607-0809-0a0b0c0d0e0f/0/7`."""
NO_NAMES = [
    "3",
    "player/",
    "player/3/product/",
    "player/3/6",
    "Player/3",
    "score/a/0",
    "score/a/00/1",
    "score//0/1",
    OF_TOOLS,
    "score/00010203-0405-0607-0809-0A0B0C0D0E0F/0/7",
    "score/000102030405060708090a0b0c0d0e0f/0/7",
]
TOO_GREAT = ["score/a/2147483648/0", "score/a/0/9223372036854775808"]
NO_NUMBERS = ["player/x", "player/+3", "player/03", "player/3/product/x"]


class Served:
    """The boards of products 1 and 6, as an instance shows them: player n has n * 10 points on each."""

    def __init__(self, products: tuple[int, ...] = (1, 6)) -> None:
        self.instance = InMemory(leaderboard(depth=3))
        self.view = self.instance.views[STORE]
        self.offsets: dict[str, int] = {}
        for player in PLAYER_IDS:
            self.row(PLAYERS, str(player), {"id": player, "name": f"player {player}"})
        for product in products:
            self.row(PRODUCTS, str(product), {"id": product, "name": f"game {product}"})
        for product in products:
            self.board(product, [Entry(player * 10.0, 1, 0, product * 10 + player, player) for player in PLAYER_IDS])

    def row(self, topic: str, key: str, value: dict[str, Any] | None) -> None:
        offset = self.offsets[topic] = self.offsets.get(topic, -1) + 1
        body = None if value is None else json.dumps(value).encode()
        self.instance.read_table(topic, 0, [GivenRecord(offset, key.encode(), body)])

    def board(self, product: int, known: list[Entry], hidden: Sequence[Entry] = (), topic: str | None = "T") -> None:
        board = Board(1, tuple(sorted(known, reverse=True)), (), hidden=tuple(hidden), topic=topic)
        self.instance.read_results(STORE, [GivenRecord(0, b"%d" % product, board.to_json())])

    def moderate(self, key: str, value: dict[str, Any] | None) -> None:
        self.row(MODERATION, key, value)

    def players(self, product: int) -> list[int]:
        rendered = self.view.get(product)
        return [] if rendered is None else [entry["playerId"] for entry in json.loads(rendered.body)]


@pytest.fixture(params=["cold", "warm"])
async def served(request: pytest.FixtureRequest) -> Served:
    found = Served()
    if request.param == "warm":
        assert isinstance(found.view, RenderedView)
        await found.view.warm_up()
    return found


def lift_by_null(served: Served, key: str) -> None:
    served.moderate(key, None)


def lift_by_false(served: Served, key: str) -> None:
    served.moderate(key, SHOW)


@pytest.mark.parametrize("lift", [lift_by_null, lift_by_false])
@pytest.mark.parametrize(
    ("key", "on_1", "on_6"),
    [
        ("player/5", [4, 3, 2], [4, 3, 2]),
        ("player/5/product/6", [5, 4, 3], [4, 3, 2]),
        ("player/99", [5, 4, 3], [5, 4, 3]),
    ],
)
async def test_what_is_hidden_leaves_its_boards_and_is_back_when_it_is_lifted(
    served: Served, lift: Callable[[Served, str], None], key: str, on_1: list[int], on_6: list[int]
) -> None:
    served.moderate(key, HIDE)
    assert (served.players(1), served.players(6)) == (on_1, on_6)
    lift(served, key)
    assert (served.players(1), served.players(6)) == ([5, 4, 3], [5, 4, 3])


@pytest.mark.parametrize("first", [HIDE, SHOW], ids=["lifted", "hidden"])
async def test_what_is_hidden_or_lifted_while_boards_are_searched_reads_so_on_all_of_them(
    monkeypatch: pytest.MonkeyPatch, first: dict[str, Any]
) -> None:
    monkeypatch.setattr(rendered_view, "SEARCHED_AT_ONCE", 0)
    monkeypatch.setattr(rendered_view, "_SLICE_S", 0)
    products = (1, 6)
    last = SHOW if first is HIDE else HIDE
    for product in products:
        for before in range(4):
            served = Served(products)
            assert isinstance(served.view, RenderedView)
            key = key_of(ScoreName("T", 0, product * 10 + 5))
            served.moderate(key, last)
            await served.view.warm_up()
            served.moderate(key, first)
            searching = served.view.warm_up()
            for step in range(10):
                if step == before:
                    served.moderate(key, last)
                with suppress(StopIteration, RuntimeError):
                    searching.send(None)
            assert served.players(product) == ([4, 3, 2] if last is HIDE else [5, 4, 3]), f"at step {before}"


async def test_who_is_hidden_before_the_first_score_is_hidden_from_then_on(served: Served) -> None:
    served.moderate("player/4", HIDE)
    served.row(PLAYERS, "9", {"id": 9, "name": "late"})
    served.moderate("player/9", HIDE)
    served.board(1, [Entry(90.0, 1, 0, 90, 9)])
    assert served.players(1) == [5, 3, 2]


async def test_whoever_follows_a_board_is_told_at_once_and_of_no_other(served: Served) -> None:
    assert served.players(1) == served.players(6)
    told: list[Any] = []
    served.view.watch(told.append)
    served.moderate("player/5/product/6", HIDE)
    assert 6 in told


async def test_of_hidden_players_alone_no_board_is_there(served: Served) -> None:
    for player in PLAYER_IDS:
        served.moderate(f"player/{player}/product/6", HIDE)
    assert served.view.get(6) is None
    assert served.view.count([0]) == 1


async def test_who_is_hidden_twice_and_shown_once_stays_hidden(served: Served) -> None:
    served.moderate("player/5", HIDE)
    served.moderate("score/T/0/65", HIDE)
    served.moderate("player/5", None)
    assert (served.players(1), served.players(6)) == ([5, 4, 3], [4, 3, 2])
    served.moderate("score/T/0/65", SHOW)
    assert served.players(6) == [5, 4, 3]


async def test_a_score_may_be_hidden_before_it_comes(served: Served) -> None:
    served.moderate("score/T/3/90", HIDE)
    served.board(1, [Entry(90.0, 1, 3, 90, 2), Entry(80.0, 1, 3, 91, 2)])
    assert served.players(1) == [2, 5, 4]


async def test_an_entry_of_an_older_topic_is_hidden_by_that(served: Served) -> None:
    served.board(1, [Entry(90.0, 1, 0, 15, 2, "older")])
    assert served.players(1) == [2, 5, 4]
    # Of the same partition and offset there is one of the topic of now: 50 points of player 5.
    served.moderate("score/older/0/15", HIDE)
    assert served.players(1) == [5, 4, 3]


async def test_entries_of_before_they_had_a_topic_are_hidden_by_no_name() -> None:
    served = Served()
    served.row(PRODUCTS, "8", {"id": 8, "name": "game 8"})
    served.board(8, [Entry(90.0, 1, 0, 15, 2)], topic=None)
    served.moderate("score/T/0/15", HIDE)
    assert served.players(8) == [2]


async def test_what_the_stream_keeps_apart_shows_once_it_is_lifted(served: Served) -> None:
    served.moderate("player/4", HIDE)
    served.board(1, [], hidden=[Entry(70.0, 1, 0, 99, 4)])
    assert served.players(1) == [5, 3, 2]
    served.moderate("player/4", None)
    assert served.players(1) == [4, 5, 4]


async def test_among_many_boards_a_score_is_hidden_at_once_and_followers_are_told() -> None:
    products = tuple(range(1, 1_202))
    served = Served(products)
    assert isinstance(served.view, RenderedView)
    await served.view.warm_up()
    told: list[Any] = []
    served.view.watch(told.append)
    served.moderate(f"score/T/0/{1_000 * 10 + 5}", HIDE)
    assert served.players(1_000) == [4, 3, 2]
    await served.view.warm_up()
    assert 1_000 in told
    assert 999 not in told
    assert (served.players(1_000), served.players(999)) == ([4, 3, 2], [5, 4, 3])
    served.moderate(f"score/T/0/{1_000 * 10 + 5}", None)
    assert served.view.count([0]) == 1_201
    assert served.players(1_000) == [5, 4, 3]


@pytest.mark.parametrize(
    ("key", "named"),
    [
        ("player/3", HiddenPlayer(3)),
        ("player/-3/product/6", HiddenPlayer(-3, 6)),
        ("score/zQ_-4fGh/0/17", ScoreName("zQ_-4fGh", 0, 17)),
    ],
)
def test_a_key_names_what_it_hides(key: str, named: HiddenPlayer | ScoreName) -> None:
    assert named_by(key) == named
    assert key_of(named) == key


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        *((key, b'{"hidden": true}', "names neither a player nor a score") for key in (*NO_NAMES, *TOO_GREAT)),
        *((key, b'{"hidden": true}', "64-bit integer") for key in NO_NUMBERS),
        ("player/3", b'{"reason": "?"}', "hidden is missing or no boolean"),
        ("player/3", b'{"hidden": "true"}', "hidden is missing or no boolean"),
        ("player/3", b'{"hidden": true, "reason": 7}', "reason is missing or no text"),
        ("player/3", b"hide", "JSON object"),
    ],
)
async def test_a_record_that_says_neither_hides_nobody(served: Served, key: str, value: bytes, reason: str) -> None:
    with pytest.raises(InvalidRecord, match=reason):
        parse_row(MODERATION_TABLE, key.encode(), value)
    served.instance.read_table(MODERATION, 0, [GivenRecord(0, key.encode(), value)])
    assert served.instance.copies.tables[MODERATION].copies[0].unusable == 1
    assert served.players(1) == [5, 4, 3]


def test_a_topic_id_as_kafkas_tools_write_it_is_refused_with_the_one_of_entries() -> None:
    with pytest.raises(InvalidRecord, match="write the topic id as 00010203-0405-0607-0809-0a0b0c0d0e0f, as `entry`"):
        named_by(OF_TOOLS)


def test_a_reason_may_be_left_out() -> None:
    assert parse_row(MODERATION_TABLE, b"player/3", b'{"hidden": true}') == ("player/3", {"hidden": True, "reason": ""})


def test_what_is_said_not_to_be_hidden_is_not() -> None:
    assert not hidden_by({"player/3": {"hidden": False, "reason": ""}})

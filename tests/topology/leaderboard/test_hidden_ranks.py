"""What is hidden holds no rank, from the moment at which it is said; what is left of a player's scores counts."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from runtime.keys import KeyPair
from runtime.results import Made
from runtime.serving.in_memory import GivenRecord, InMemory
from topology.leaderboard.board import leaderboard
from topology.leaderboard.ranks import STORE
from topology.leaderboard.topics import MODERATION, PLAYERS, PRODUCTS

HIDE = {"hidden": True, "reason": ""}
SEED = 20261127


class Ranked:
    """Players 1 to 5 with the scores n * 10, n * 10 - 15 and n * 10 - 25 on products 1 and 6."""

    def __init__(self) -> None:
        self.instance = InMemory(leaderboard(ranks=True))
        self.view = self.instance.rankings[STORE]
        self.offsets: dict[str, int] = {}
        for player in range(1, 6):
            self.row(PLAYERS, str(player), {"id": player, "name": f"player {player}"})
        for product in (1, 6):
            self.row(PRODUCTS, str(product), {"id": product, "name": f"game {product}"})
            for player in range(1, 6):
                self.play(product, player, *(player * 10.0 - less for less in (0, 15, 25)))

    def row(self, topic: str, key: str, value: dict[str, Any] | None) -> None:
        offset = self.offsets[topic] = self.offsets.get(topic, -1) + 1
        body = None if value is None else json.dumps(value).encode()
        self.instance.read_table(topic, 0, [GivenRecord(offset, key.encode(), body)])

    def play(
        self,
        product: int,
        player: int,
        *scores: float,
        first: int | None = None,
        apart: Sequence[float] = (),
        generation: int = 1,
    ) -> None:
        def listed(scores: Sequence[float], first: int) -> list[dict[str, Any]]:
            return [
                {"score": score, "timestamp": 1, "partition": product, "offset": first + at, "topic": "T"}
                for at, score in enumerate(scores)
            ]

        best = listed(scores, player * 10 if first is None else first)
        hidden = {"hidden": listed(apart, player * 10)} if apart else {}
        value = json.dumps({"best": best, **hidden}, separators=(",", ":")).encode()
        headers = Made(generation).to_headers()
        self.instance.read_results(STORE, [GivenRecord(0, b"%d/%d" % (product, player), value, headers=headers)])

    def moderate(self, key: str, value: dict[str, Any] | None) -> None:
        self.row(MODERATION, key, value)

    def ranking(self, product: int) -> list[tuple[int, float]]:
        page = self.view.page(product, 100)
        return [] if page is None else [(each["playerId"], each["score"]) for each in json.loads(page.rows)]


ALL = [(5, 50.0), (4, 40.0), (3, 30.0), (2, 20.0), (1, 10.0)]


@pytest.mark.parametrize("made", [True, False], ids=["made", "not made"])
@pytest.mark.parametrize(
    ("key", "on_1", "on_6"),
    [
        ("player/4", [each for each in ALL if each[0] != 4], [each for each in ALL if each[0] != 4]),
        ("player/4/product/6", ALL, [each for each in ALL if each[0] != 4]),
        ("score/T/6/40", ALL, [(5, 50.0), (3, 30.0), (4, 25.0), (2, 20.0), (1, 10.0)]),
        ("score/another/6/40", ALL, ALL),
        ("player/99", ALL, ALL),
    ],
)
def test_what_is_hidden_holds_no_rank_until_it_is_lifted(
    *, made: bool, key: str, on_1: list[tuple[int, float]], on_6: list[tuple[int, float]]
) -> None:
    ranked = Ranked()
    if made:
        assert (ranked.ranking(1), ranked.ranking(6)) == (ALL, ALL)
    ranked.moderate(key, HIDE)
    assert (ranked.ranking(1), ranked.ranking(6)) == (on_1, on_6)
    is_hidden = (4, 40.0) not in on_6 and not key.startswith("score")
    assert (ranked.view.get(KeyPair(6, 4)) is None) == is_hidden
    ranked.moderate(key, None)
    assert (ranked.ranking(1), ranked.ranking(6)) == (ALL, ALL)


def test_a_player_without_a_score_left_holds_no_rank() -> None:
    ranked = Ranked()
    for offset in (40, 41, 42):
        ranked.moderate(f"score/T/1/{offset}", HIDE)
    assert [player for player, _ in ranked.ranking(1)] == [5, 3, 2, 1]
    assert ranked.view.count_of(1) == 4


def test_what_the_query_took_for_hidden_counts_once_it_is_lifted() -> None:
    ranked = Ranked()
    ranked.moderate("score/T/1/40", HIDE)
    ranked.play(1, 4, 12.0, first=50, apart=(40.0,), generation=2)
    assert ranked.ranking(1) == [(5, 50.0), (3, 30.0), (2, 20.0), (4, 12.0), (1, 10.0)]
    ranked.moderate("score/T/1/40", None)
    assert ranked.ranking(1) == ALL
    ranked.moderate("player/4", HIDE)
    assert [player for player, _ in ranked.ranking(1)] == [5, 3, 2, 1]


def test_whoever_follows_a_hidden_player_is_told() -> None:
    ranked, told = Ranked(), list[Any]()
    ranked.view.watch(told.append)
    ranked.moderate("player/4/product/6", HIDE)
    assert KeyPair(6, 4) in told


def test_ranks_are_those_of_what_is_left_whatever_comes_in_which_order() -> None:
    dice, ranked = random.Random(SEED), Ranked()
    bests = {
        (product, player): [(player * 10.0 - less, player * 10 + at) for at, less in enumerate((0, 15, 25))]
        for product in (1, 6)
        for player in range(1, 6)
    }
    hidden: set[str] = set()
    for offset in range(100, 500):
        product, player = dice.choice((1, 6)), dice.randrange(1, 6)
        of_player = bests[product, player]
        if dice.random() < 0.3:
            score = dice.uniform(0, 60)
            ranked.play(product, player, score, first=offset)
            of_player[:] = sorted([*of_player, (score, offset)], reverse=True)[:3]
        else:
            score_name = f"score/T/{product}/{dice.choice(of_player)[1]}"
            name = dice.choice((f"player/{player}", f"player/{player}/product/{product}", score_name))
            hidden ^= {name}
            ranked.moderate(name, HIDE if name in hidden else None)
        for each in (1, 6):
            assert ranked.ranking(each) == _expected(bests, hidden, each)


def _expected(
    bests: dict[tuple[int, int], list[tuple[float, int]]], hidden: set[str], product: int
) -> list[tuple[int, float]]:
    found = []
    for player in range(1, 6):
        names = {f"player/{player}", f"player/{player}/product/{product}"}
        left = [score for score, offset in bests[product, player] if f"score/T/{product}/{offset}" not in hidden]
        if left and not names & hidden:
            found.append((player, left[0]))
    return sorted(found, key=lambda each: -each[1])

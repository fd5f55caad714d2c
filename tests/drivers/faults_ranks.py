"""Scores of players who have ranks: two streams of them, and the rankings that have to come of what the broker has.

The reference shares no code with the product: it sorts the best scores of all players.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

import httpx

from runtime.declaration import Topology
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.ids import topic_ids
from tests.drivers.faults_events import LIVE, PRODUCTS, Event, Events, Mix, Score, row, score_event
from tests.drivers.faults_ledger import Ledger, Place
from tests.drivers.instance import Instance
from topology.leaderboard.board import leaderboard

PAGE_SIZE: Final = 1000


class Rankings(Ledger):
    """Scores with ties, strangers, renames and deletes; what the broker has of them, and every player's rank.

    Args:
        seed: of the stream.
    """

    topology: Topology = leaderboard(ranks=True)
    settings: Mapping[str, object] = {"RANKS": "true"}
    """Of every instance."""
    identity = ("product", "playerId")
    """What tells its rows apart."""
    per_s = 200
    """How many events flow in a second."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        # Few enough come to exist for one page to hold them all.
        self._events = Events(seed, Mix(stranger=0.002))
        self._topic_id = ""
        self._deleted: set[int] = set()

    # What flows

    def beginning(self, kafka: KafkaConnection) -> Iterator[Event]:
        """Return what is there from the beginning; the topics are there already."""
        self._topic_id = asyncio.run(topic_ids(kafka, ["score-events"]))["score-events"].topic_id
        return self._events.beginning()

    def next(self) -> Event:
        """Return the next event."""
        event = self._events.next()
        if event.topic == "players" and event.means[1] is None:
            self._deleted.add(event.means[0])
        return event

    def closing(self) -> list[Event]:
        """Return nothing: ranks wait for no later event."""
        return []

    # What has to come of it

    def rankings(self) -> dict[int, list[dict[str, Any]]]:
        """Return by product what `GET /leaderboard/{product}/players` has to answer, all pages of it."""
        best: defaultdict[int, dict[int, tuple[float, Place]]] = defaultdict(dict)
        for taken in list(self.scores):
            said, of = taken.score, best[taken.score.product]
            if said.player in self.players and said.product in self.products:
                mine = -said.score, taken.place
                of[said.player] = min(mine, of.get(said.player, mine))
        return {product: self._ranking(of) for product, of in sorted(best.items()) if of}

    def _ranking(self, best: Mapping[int, tuple[float, Place]]) -> list[dict[str, Any]]:
        ranking: list[dict[str, Any]] = []
        for player, (negated, place) in sorted(best.items(), key=lambda each: each[1]):
            rank = len(ranking) + 1
            shared = ranking[-1]["sharedRank"] if ranking and ranking[-1]["score"] == -negated else rank
            ranking.append(
                {
                    "playerId": player,
                    "playerName": self.players[player],
                    "score": -negated,
                    "rank": rank,
                    "sharedRank": shared,
                    "of": len(best),
                    "percentile": round(100 * (len(best) - shared + 1) / len(best), 2),
                    "entry": f"{self._topic_id}/{place.partition}/{place.offset}",
                }
            )
        return ranking

    def rows(self) -> list[dict[str, Any]]:
        """Return what every instance has to serve: the ranking of each product, one after the other."""
        return [{"product": product} | each for product, ranking in self.rankings().items() for each in ranking]

    def went_back(self, before: dict[str, Any], after: dict[str, Any] | None) -> bool:
        """Return whether a best score is lower than before, or that of a player who was never deleted is gone."""
        if after is None:
            return before["playerId"] not in self._deleted
        return bool(after["score"] < before["score"])

    # What is served

    def are_at(self, instance: Instance) -> bool:
        """Return whether an instance serves exactly these."""
        return bool(self.served_by(instance) == self.rows())

    def served_by(self, instance: Instance) -> Any:
        """Return the ranks that an instance serves, None when it does not answer."""
        rows = []
        for product in (*PRODUCTS, LIVE):
            answer = instance.get(f"/leaderboard/{product}/players?page_size={PAGE_SIZE}")
            if answer.status_code == 200:
                assert "link" not in answer.headers, "it is one page"
                rows += [{"product": product} | each for each in answer.json()]
            elif answer.status_code != 404:
                return None
        return rows


class Crowd:
    """An endless stream of the scores of very many players, most of them on one product.

    Every event is a score, but for some that rename, delete or create a player; of those who play a share comes to
    exist later.

    Args:
        seed: of the random numbers.
        players: how many.
        products: how many; the first one is the one that most play.
    """

    giant = 1

    def __init__(self, seed: int, players: int, products: int) -> None:
        self.players = range(players)
        self.products = range(self.giant, self.giant + products)
        self._random = random.Random(seed)
        self._late = range(players - players // 100, players)
        self._come = 0

    def beginning(self) -> Iterator[Event]:
        """Yield the rows of the tables that are there from the beginning."""
        yield from (row("products", product, f"Game {product}") for product in self.products)
        yield from (row("players", player, f"Player {player}") for player in self.players[: self._late.start])

    def everybody(self) -> Iterator[Event]:
        """Yield a score of each player on the giant product, also of those who are yet to come."""
        return (self._score(player, self.giant) for player in self.players)

    def next(self) -> Event:
        """Return the next event."""
        drawn = self._random.random()
        player = self._random.choice(self.players)
        if drawn < 0.05:
            return row("players", player, f"Renamed {self._random.randrange(1_000)}")
        if drawn < 0.06:
            return row("players", player, None)
        if drawn < 0.10 and self._come < len(self._late):
            self._come += 1
            return row("players", self._late[self._come - 1], "Late")
        return self._score(player, self.giant if drawn < 0.6 else self._random.choice(self.products))

    def _score(self, player: int, product: int) -> Event:
        # Few numbers for so many players: most are equal to many others.
        return score_event(Score(float(self._random.randrange(5_000)), player, product), self._random.randrange(4))


class CrowdRankings(Rankings):
    """The ranks of a crowd.

    Args:
        crowd: what flows.
    """

    def __init__(self, crowd: Crowd) -> None:
        super().__init__(0)
        self._crowd = crowd

    def beginning(self, kafka: KafkaConnection) -> Iterator[Event]:
        """Return what is there from the beginning, with a score of each player."""
        super().beginning(kafka)
        return chain(self._crowd.beginning(), self._crowd.everybody())

    def next(self) -> Event:
        """Return the next event."""
        return self._crowd.next()

    def first_difference(self, instance: Instance, rankings: Mapping[int, list[dict[str, Any]]]) -> str | None:
        """Return where what an instance serves is something else first; None where it serves exactly these.

        It is asked for all pages of every product.
        """
        with httpx.Client(base_url=instance.url, trust_env=False, timeout=60) as client:
            for product in self._crowd.products:
                ranking = rankings.get(product, [])
                for first in range(0, len(ranking) or 1, PAGE_SIZE):
                    path = f"/leaderboard/{product}/players?page_size={PAGE_SIZE}&from_rank={first + 1}"
                    answer = client.get(path)
                    if answer.status_code != 200:
                        return f"{path}: {answer.text}"
                    if wrong := different(answer.json(), ranking[first : first + PAGE_SIZE]):
                        return f"{path}: {wrong}"
                    if ("link" in answer.headers) != (first + PAGE_SIZE < len(ranking)):
                        return f"{path}: there are {len(ranking)} ranks"
        return None


def different(found: Iterable[Any], expected: Iterable[Any]) -> str | None:
    """Return the first two that are not the same, None where all are."""
    pairs = zip([*found, None], [*expected, None], strict=False)
    return next((f"{json.dumps(a)} instead of {json.dumps(b)}" for a, b in pairs if a != b), None)

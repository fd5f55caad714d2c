"""Ranks at three instances: exact at every one, whoever is renamed, deleted or comes late, and whatever ends."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from app.java.broker import Broker
from runtime.kafka.ids import topic_ids
from tests.drivers.command import run_command
from tests.drivers.instance import Instance
from tests.drivers.producer import Inputs
from tests.drivers.ranks import expected
from tests.drivers.replicas import Replicas, until
from tests.drivers.topic_reader import read_topic
from topology.leaderboard.bests import Best
from topology.leaderboard.topics import PERSONAL_BESTS, SCORE_EVENTS

pytestmark = pytest.mark.system

SEED = 20261127
PRODUCTS = range(1, 6)
PLAYERS = range(1, 60)
STRANGERS = range(60, 70)


class Game:
    """What was sent, and the ranks that have to come of it."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.names: dict[int, str] = {}
        self._random = random.Random(SEED)

    def begin(self) -> None:
        self.inputs.create_topics()
        self.inputs.products({product: f"Game {product}" for product in PRODUCTS})
        self.name({player: f"Player {player}" for player in PLAYERS})

    def name(self, names: Mapping[int, str | None]) -> None:
        """Create, rename or (None) delete players."""
        self.inputs.players(names)
        for player, name in names.items():
            if name is None:
                self.names.pop(player, None)
            else:
                self.names[player] = name

    def play(self, events: int) -> None:
        """Send scores with many ties, some of players who do not exist."""
        everybody = [*PLAYERS, *STRANGERS]
        self.inputs.scores(
            (float(self._random.randrange(12)), self._random.choice(everybody), self._random.choice(PRODUCTS))
            for _ in range(events)
        )

    def ranks(self) -> dict[int, list[dict[str, Any]]]:
        """Return the ranking of each product, by all records that the broker has."""
        topic_id = asyncio.run(topic_ids(self.inputs.kafka, [SCORE_EVENTS]))[SCORE_EVENTS].topic_id
        bests: dict[tuple[int, int], Best] = {}
        for record in read_topic(self.inputs.kafka, SCORE_EVENTS):
            event = json.loads(record.value)
            key = event["product_id"], event["player_id"]
            new = Best(float(event["score"]), record.timestamp, record.partition, record.offset, topic_id)
            bests[key] = min(new, bests.get(key, new), key=lambda best: (-best.score, *best[1:4]))
        return {product: expected(bests, self.names, product) for product in PRODUCTS}

    def are_at(self, instance: Instance, ranks: dict[int, list[dict[str, Any]]]) -> bool:
        """Return whether an instance serves just these ranks."""
        return all(self.served(instance, product) == ranking for product, ranking in ranks.items())

    @staticmethod
    def served(instance: Instance, product: int) -> Any:
        return instance.json_of(f"/leaderboard/{product}/players?page_size=1000")


@pytest.fixture(scope="module")
def game(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Game]:
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        game = Game(Inputs(broker.connection))
        game.begin()
        yield game


@pytest.fixture(scope="module")
def replicas(game: Game, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    directory, servers = tmp_path_factory.mktemp("replicas"), game.inputs.kafka.bootstrap_servers
    with Replicas(directory, servers, RANKS="true", SESSION_TIMEOUT_MS=6000) as started:
        started.add(3)
        started.wait_until_settled()
        yield started


def wait_for_ranks(game: Game, replicas: Replicas) -> dict[int, list[dict[str, Any]]]:
    """Wait until every instance serves the ranks of all that was sent; return these."""
    ranks = game.ranks()
    until(
        lambda: all(game.are_at(member, ranks) for member in replicas.members),
        lambda: f"{ranks[1][:3]}: {[game.served(member, 1)[:3] for member in replicas.members]}",
    )
    return ranks


def test_every_instance_has_the_rank_of_every_player(game: Game, replicas: Replicas) -> None:
    game.play(600)
    ranks = wait_for_ranks(game, replicas)
    for member in replicas.members:
        for product in PRODUCTS:
            ranking = ranks[product]
            assert member.json_of(f"/leaderboard/{product}/players/count") == len(ranking)
            for at in (0, len(ranking) // 2, len(ranking) - 1):
                path = f"/leaderboard/{product}/players/{ranking[at]['playerId']}"
                assert member.json_of(path) == ranking[at]
                assert member.json_of(f"{path}?around=3") == ranking[max(0, at - 3) : at + 4]


def test_whoever_is_renamed_deleted_or_comes_late_is_so_at_once(game: Game, replicas: Replicas) -> None:
    game.name({1: "Renamed", 2: None, 3: None, 60: "Was a stranger", 61: "Another one"})
    game.name({3: "Back again"})
    wait_for_ranks(game, replicas)


def test_a_client_never_reads_backwards_whichever_instance_it_meets(game: Game, replicas: Replicas) -> None:
    path = f"/leaderboard/1/players/{game.ranks()[1][0]['playerId']}"
    position = replicas.members[0].get(path).headers["x-store-position"]
    answers = [member.get(f"{path}?min_position={position}") for member in replicas.members]
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1


def test_in_real_time_a_score_that_is_none_of_the_best_is_not_written(game: Game, replicas: Replicas) -> None:
    replicas.stream_holder.wait_for_log("stream of personal-bests: catching up ▸ running")
    game.inputs.scores([(1000.0 + at, 5, 1) for at in range(3)], partition=0)
    wait_for_ranks(game, replicas)
    before = len(read_topic(game.inputs.kafka, PERSONAL_BESTS))
    # In one partition, so in this order: what the last one has changed comes after what the others would have.
    game.inputs.scores([*((1.0, 5, 1) for _ in range(50)), (2000.0, 5, 1)], partition=0)
    wait_for_ranks(game, replicas)
    assert len(read_topic(game.inputs.kafka, PERSONAL_BESTS)) == before + 1


def test_ranks_are_exact_after_three_instances_were_killed(game: Game, replicas: Replicas) -> None:
    chosen = random.Random(SEED)
    for number in range(3):
        if number == 1:
            until(replicas.stream_is_held, lambda: "one has the stream")
        victim = replicas.stream_holder if number == 1 else chosen.choice(replicas.members)
        game.play(100)
        replicas.kill(victim)
        game.play(100)
        game.name({10 + number: f"Renamed after kill {number}", 20 + number: None})
        if number == 2:
            victim.lose_state()
        replicas.bring_back(victim)
    replicas.wait_until_settled()
    wait_for_ranks(game, replicas)


def test_a_batch_computes_the_same_ranks_at_all_instances(game: Game, replicas: Replicas, tmp_path: Path) -> None:
    urls = [argument for member in replicas.members for argument in ("--url", member.url)]
    settings = {"BOOTSTRAP_SERVERS": game.inputs.kafka.bootstrap_servers, "STATE_DIR": tmp_path}
    checked = run_command("verify", "--format", "json", *urls, **settings)
    assert checked.returncode == 0, (checked.stdout, checked.stderr[-2000:])
    assert json.loads(checked.stdout)["ranks"] == sum(map(len, game.ranks().values()))

"""What is hidden by the command line leaves the boards of three instances at once, and is back when it is lifted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from app.java.broker import Broker
from runtime.kafka.ids import topic_ids
from tests.drivers.command import run_command
from tests.drivers.instance import Instance
from tests.drivers.producer import Inputs
from tests.drivers.replicas import Replicas, until
from topology.leaderboard.topics import SCORE_EVENTS

pytestmark = pytest.mark.system

PRODUCT = 1
CHEAT = 9
HONEST = {1: 30.0, 2: 20.0, 3: 10.0}
BOARDS = ("all", "month")
ROOM_S = 5.0
"""For a machine that does much else."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inputs]:
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        inputs = Inputs(broker.connection)
        inputs.create_topics()
        inputs.products({PRODUCT: "Game"})
        inputs.players({player: f"Player {player}" for player in (*HONEST, CHEAT)})
        inputs.scores((score, player, PRODUCT) for player, score in HONEST.items())
        # More than a board of this depth keeps, so that the scores of nobody else are left on it.
        inputs.scores((1_000.0 + number, CHEAT, PRODUCT) for number in range(6))
        yield inputs


@pytest.fixture(scope="module")
def replicas(inputs: Inputs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    directory, servers = tmp_path_factory.mktemp("replicas"), inputs.kafka.bootstrap_servers
    settings = {"DEPTH": 2, "RANKS": "true", "PERIODS": "all,month", "SESSION_TIMEOUT_MS": 6000, "STREAM_STANDBYS": 0}
    with Replicas(directory, servers, **settings) as started:
        started.add(3)
        started.wait_until_settled()
        yield started


def moderate(inputs: Inputs, *words: str) -> str:
    done = run_command("moderate", *words, BOOTSTRAP_SERVERS=inputs.kafka.bootstrap_servers)
    assert done.returncode == 0, done.stderr
    return done.stdout


def players(instance: Instance) -> list[int]:
    """Return who is on the board of all time, and nobody while that of the month has others."""
    of_all_time, of_month = (players_of(instance, period) for period in BOARDS)
    return of_all_time if of_all_time == of_month else []


def is_off(instance: Instance) -> bool:
    return all(CHEAT not in players_of(instance, period) for period in BOARDS)


def players_of(instance: Instance, period: str) -> list[int]:
    answer = instance.get(f"/leaderboard/{PRODUCT}?limit=2&period={period}")
    return [entry["playerId"] for entry in answer.json()] if answer.status_code == 200 else []


def wait_everywhere(replicas: Replicas, holds: Callable[[Instance], bool]) -> float:
    """Wait until something holds at every instance; return after how many seconds it did."""
    began_s = time.monotonic()
    until(
        lambda: all(holds(member) for member in replicas.members),
        lambda: f"{[players(member) for member in replicas.members]}",
    )
    return time.monotonic() - began_s


def test_a_hidden_player_leaves_the_boards_and_the_next_ones_come_up(inputs: Inputs, replicas: Replicas) -> None:
    wait_everywhere(replicas, lambda member: players(member) == [CHEAT, CHEAT])
    said = moderate(inputs, "hide", "player", str(CHEAT), "--reason", "a script")
    assert said == f"hidden: player/{CHEAT}\n"
    # The command has waited for Kafka; then it is at every instance.
    assert wait_everywhere(replicas, is_off) < ROOM_S
    # All that the board kept was the cheat's: it fills again from what is in the topic.
    wait_everywhere(replicas, lambda member: players(member) == [1, 2])


def test_what_is_hidden_can_be_read_with_its_time_and_reason(inputs: Inputs, replicas: Replicas) -> None:
    for member in replicas.members:
        [row] = member.json_of("/leaderboard/moderation")
        assert (row["key"], row["playerId"], row["productId"], row["entry"]) == (f"player/{CHEAT}", CHEAT, None, None)
        assert row["reason"] == "a script"
        assert row["since"].endswith("Z")
        assert member.json_of(f"/tables/moderation/keys/player%2F{CHEAT}")["hidden"] is True
    assert moderate(inputs, "list").split("\t")[0] == f"player/{CHEAT}"


def test_verify_knows_what_is_hidden(inputs: Inputs, replicas: Replicas) -> None:
    verify(inputs, replicas)


def verify(inputs: Inputs, replicas: Replicas) -> None:
    """Have the command compare what the instances serve with what has to be."""
    urls = [f"--url=http://{member.address}" for member in replicas.members]
    settings = {"BOOTSTRAP_SERVERS": inputs.kafka.bootstrap_servers, "DEPTH": 2, "RANKS": "true"}
    done = run_command("verify", *urls, **settings)
    assert done.returncode == 0, done.stdout + done.stderr


def test_lifted_the_player_is_back_with_all_scores(inputs: Inputs, replicas: Replicas) -> None:
    # Also what came meanwhile.
    inputs.scores([(5_000.0, CHEAT, PRODUCT), (40.0, 3, PRODUCT)])
    wait_everywhere(replicas, lambda member: players(member) == [3, 1])
    moderate(inputs, "show", "player", str(CHEAT))
    assert wait_everywhere(replicas, lambda member: players(member) == [CHEAT, CHEAT]) < ROOM_S
    assert [best(member)["score"] for member in replicas.members] == [5_000.0] * 3
    assert moderate(inputs, "list") == ""


def best(instance: Instance) -> Any:
    return instance.json_of(f"/leaderboard/{PRODUCT}?limit=1")[0]


def test_one_score_is_hidden_by_its_record(inputs: Inputs, replicas: Replicas) -> None:
    entry = replicas.members[0].json_of(f"/leaderboard/{PRODUCT}/players/{CHEAT}")["entry"]
    topic_id = asyncio.run(topic_ids(inputs.kafka, [SCORE_EVENTS]))[SCORE_EVENTS].topic_id
    assert entry.startswith(f"{topic_id}/")
    moderate(inputs, "hide", "score", entry)
    assert wait_everywhere(replicas, lambda member: best(member)["score"] == 1_005.0) < ROOM_S
    moderate(inputs, "hide", "player", str(CHEAT), "--product", str(PRODUCT))
    wait_everywhere(replicas, is_off)
    # Hidden twice and shown once: the score stays hidden.
    moderate(inputs, "show", "player", str(CHEAT), "--product", str(PRODUCT))
    wait_everywhere(replicas, lambda member: best(member)["score"] == 1_005.0)
    moderate(inputs, "show", "score", entry)
    wait_everywhere(replicas, lambda member: best(member)["score"] == 5_000.0)


def test_scores_are_hidden_one_by_one_and_the_next_ones_come_up_in_boards_and_ranks(
    inputs: Inputs, replicas: Replicas
) -> None:
    entries = []
    # More than the row of ranks keeps, or the board.
    for next_one in (1_005.0, 1_004.0, 1_003.0, 1_002.0, 1_001.0):
        entries.append(rank_of_cheat(replicas.members[0])["entry"])
        moderate(inputs, "hide", "score", entries[-1])
        wait_everywhere(replicas, partial(has_as_best, next_one))
    verify(inputs, replicas)
    for entry in entries:
        moderate(inputs, "show", "score", entry)
    wait_everywhere(replicas, partial(has_as_best, 5_000.0))
    assert {rank_of_cheat(member)["entry"] for member in replicas.members} == {entries[0]}


def has_as_best(score: float, instance: Instance) -> bool:
    """Return whether it is the cheat's, by the board as by the rank."""
    return bool(rank_of_cheat(instance).get("score") == score == best(instance)["score"])


def rank_of_cheat(instance: Instance) -> dict[str, Any]:
    """Return the rank, without anything where there is none."""
    answer = instance.get(f"/leaderboard/{PRODUCT}/players/{CHEAT}")
    found: dict[str, Any] = answer.json() if answer.status_code == 200 else {}
    return found


@pytest.mark.parametrize("entry", ["", "7", "an-id/0", "an-id/0/x"])
def test_what_names_no_score_is_refused(inputs: Inputs, entry: str) -> None:
    done = run_command("moderate", "hide", "score", entry, BOOTSTRAP_SERVERS=inputs.kafka.bootstrap_servers)
    assert done.returncode == 2
    assert "names no score" in done.stderr

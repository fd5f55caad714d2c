"""Floors are renewed while the stream runs: scores that cannot reach a board are written to no topic."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.java.broker import Broker
from runtime.kafka.offsets import topic_offsets
from tests.drivers.instance import Instance
from tests.drivers.producer import Inputs
from tests.waiting import wait_until
from topology.leaderboard.places import UNCHANGED_WRITTEN
from topology.leaderboard.topics import HIGH_SCORES

pytestmark = pytest.mark.system

PLAYER, PRODUCT = 1, 1
PLACES = 20
PARTITIONS = 4
MANY = 1_000
"""So many scores that change nothing say that floors are old."""
LOW = 3 * MANY
"""A commit may come between any two of them: on one side of it are more than enough for floors to be old."""


def test_scores_below_a_full_board_are_written_by_samples_and_dropped_once_floors_are_new(tmp_path: Path) -> None:
    with Broker(tmp_path / "kafka") as broker:
        inputs = Inputs(broker.connection)
        inputs.create_topics()
        inputs.players({PLAYER: "Player"})
        inputs.products({PRODUCT: "Game"})
        with Instance(tmp_path / "instance", broker.bootstrap_servers) as instance:
            # The stream begins on an empty topic: no board has a floor.
            instance.wait_for_real_time()
            inputs.scores([(1_000.0 + number, PLAYER, PRODUCT) for number in range(PLACES)])
            wait_until(lambda: written(broker) >= PLACES, "each of these scores makes a board")
            inputs.scores([(1.0 + number / LOW, PLAYER, PRODUCT) for number in range(LOW)])
            instance.wait_for_log("refresh: many scores that reach a board change nothing")
            instance.wait_for_log("refreshing ▸ running")
            before = written(broker)
            # About one of so many, of those that came before the new floors were there.
            assert MANY / UNCHANGED_WRITTEN / 2 < before - PLACES < LOW / UNCHANGED_WRITTEN * 2

            inputs.scores([(1.0 + number / LOW, PLAYER, PRODUCT) for number in range(LOW)])
            inputs.scores([(5_000.0, PLAYER, PRODUCT)])
            wait_until(lambda: best(instance) == 5_000.0, "a score above the floor is shown")
            assert written(broker) - before < LOW / UNCHANGED_WRITTEN / 10


def written(broker: Broker) -> int:
    """Return how many boards have been written."""
    return sum(asyncio.run(topic_offsets(broker.connection, HIGH_SCORES, PARTITIONS)).end.values())


def best(instance: Instance) -> float | None:
    """Return the best score that is shown."""
    answer = instance.get(f"/leaderboard/{PRODUCT}?limit=1")
    return float(answer.json()[0]["score"]) if answer.status_code == 200 else None

"""One instance end to end: a real broker, real Spark, real HTTP."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.java.broker import Broker
from tests.drivers.instance import Instance
from tests.drivers.processes import descendants, is_java, running
from tests.drivers.producer import Inputs
from tests.drivers.reference import Reference
from tests.drivers.topic_reader import read_topic
from tests.waiting import wait_until
from topology.leaderboard.topics import HIGH_SCORES, SCORE_EVENTS

SEED = 20261121


@dataclass
class World:
    """A broker with the inputs, and what the boards have to be for all that was ever sent to it."""

    broker: Broker
    inputs: Inputs
    reference: Reference
    random: random.Random

    def send_scores(self, count: int) -> None:
        """Send distinct random scores of known and unknown players and products."""
        taken = len(self.reference.scores)
        scores = [
            (
                float(self.random.randrange(1_000_000)) + (taken + number) / 1_000_000,
                self.random.randrange(1, 40),
                self.random.randrange(1, 12),
            )
            for number in range(count)
        ]
        self.reference.add(scores)
        self.inputs.scores(scores)

    def abort_scores(self) -> None:
        """Send a score above all so far for each player and product, in a transaction that is aborted."""
        self.inputs.aborted_scores([(self.top_score(), player, 1 + player % 9) for player in range(1, 30)])

    def name_players(self, names: dict[int, str]) -> None:
        """Create or rename players."""
        self.reference.players.update(names)
        self.inputs.players(names)

    def delete_player(self, player: int) -> None:
        """Delete a player."""
        del self.reference.players[player]
        self.inputs.players({player: None})

    def top_score(self) -> float:
        """Return a score above all so far."""
        return max(score for score, _, _ in self.reference.scores) + 1


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One broker for the module. Each test adds to what is there, and begins with a checkpoint of its own."""
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield new_world(broker, scores=2_000)


def new_world(broker: Broker, scores: int) -> World:
    """Create the topics and fill them."""
    world = World(broker, Inputs(broker.connection), Reference(), random.Random(SEED))
    world.inputs.create_topics()
    world.name_players({player: f"Player {player}" for player in range(1, 30)})
    world.reference.products.update({product: f"Game {product}" for product in range(1, 10)})
    world.inputs.products(dict(world.reference.products))
    world.send_scores(scores)
    return world


def test_catching_up_and_real_time_give_the_boards_of_all_events(world: World, tmp_path: Path) -> None:
    world.abort_scores()
    with Instance(tmp_path, world.broker.bootstrap_servers) as instance:
        instance.wait_for_real_time()
        instance.wait_for_boards(world.reference.boards())
        world.abort_scores()
        world.send_scores(500)
        instance.wait_for_boards(world.reference.boards(10), limit=10)
        # Counted when the batch is committed, at the latest five seconds after its last event.
        wait_until(
            lambda: metric(instance, "leaderboard_score_events_total") >= len(world.reference.scores),
            "every score event is counted",
        )
        wait_until(lambda: metric(instance, "leaderboard_stream_state", state="running") == 1, "it runs")
        assert metric(instance, "leaderboard_stream_task_held") == 1
        assert metric(instance, "leaderboard_boards") == len(world.reference.boards())
        assert metric(instance, "leaderboard_board_delay_seconds_count") > 0
        assert metric(instance, "leaderboard_stream_batch_duration_seconds_count") >= 2
        assert metric(instance, "leaderboard_store_size_bytes", store="players") > 0
        assert metric(instance, "leaderboard_table_rows", table="players") == len(world.reference.players)
        # Each of the four partitions may end with the mark of a transaction, which Spark has not passed.
        wait_until(lambda: metric(instance, "leaderboard_stream_uncommitted_records") <= 4, "all is committed")


def metric(instance: Instance, name: str, **labels: str) -> float:
    """Return the sum of the samples that have this name and these labels; nothing that is equal to it without any."""
    families = text_string_to_metric_families(instance.get("/metrics").text)
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    found = [sample.value for sample in samples if labels.items() <= sample.labels.items()]
    return sum(found) if found else math.nan


def test_names_change_and_scores_appear_without_any_new_score(world: World, tmp_path: Path) -> None:
    with Instance(tmp_path, world.broker.bootstrap_servers) as instance:
        instance.wait_for_real_time()
        score = world.top_score()
        world.reference.add([(score, 777, 1)])
        world.inputs.scores([(score, 777, 1)])
        instance.wait_for_boards(world.reference.boards())
        world.name_players({777: "Sent before it existed"})
        instance.wait_for_boards(world.reference.boards())
        assert instance.get("/leaderboard/1").json()[0]["playerName"] == "Sent before it existed"
        world.name_players({777: "Renamed"})
        instance.wait_for_boards(world.reference.boards())
        world.delete_player(777)
        instance.wait_for_boards(world.reference.boards())


@pytest.mark.system
def test_an_open_transaction_keeps_back_what_lies_behind_it_in_its_partition_and_nothing_else(
    world: World, tmp_path: Path
) -> None:
    committed = Reference(dict(world.reference.players), dict(world.reference.products), list(world.reference.scores))
    top = world.top_score()
    opened, behind = [(top + 100, 1, 1), (top + 101, 2, 2)], [(top + 102, 3, 3), (top + 103, 1, 1)]
    with Instance(tmp_path, world.broker.bootstrap_servers) as instance:
        with world.inputs.uncommitted_scores(opened, partition=0):
            world.inputs.scores(behind[:1], partition=0)
            instance.wait_for_real_time()
            world.inputs.scores(behind[1:], partition=0)
            # One after the other: what lies behind the transaction has had time to show when the last of them does.
            for number in range(10):
                beside = [(top + number, 4, 1 + number % 3)]
                committed.add(beside)
                world.inputs.scores(beside, partition=1)
                instance.wait_for_boards(committed.boards(10), limit=10)
            assert instance.get("/health/ready").status_code == 200
        world.reference.scores = [*committed.scores, *opened, *behind]
        instance.wait_for_boards(world.reference.boards(10), limit=10)


@pytest.mark.faults
@pytest.mark.parametrize("meanwhile", ["runs", "is down"])
def test_boards_that_another_cluster_has_published_as_a_later_generation_keep_no_new_score_out(
    world: World, tmp_path: Path, meanwhile: str
) -> None:
    with Instance(tmp_path, world.broker.bootstrap_servers) as instance:
        instance.wait_for_real_time()
        instance.wait_for_boards(world.reference.boards())
        if meanwhile == "is down":
            instance.terminate()
        published = read_topic(world.broker.connection, HIGH_SCORES)
        board = json.loads(next(each.value for each in reversed(published) if each.key == b"1"))
        later = {**board, "generation": board["generation"] + 7}
        world.inputs.send(HIGH_SCORES, [(b"1", json.dumps(later).encode())])
        if meanwhile == "is down":
            instance.start()
        instance.wait_for_log(f"results of generation {later['generation']} are published")
        score = world.top_score()
        world.reference.add([(score, 1, 1)])
        world.inputs.scores([(score, 1, 1)])
        instance.wait_for_boards(world.reference.boards())


@pytest.mark.system
def test_a_restart_serves_the_boards_before_spark_has_started(world: World, tmp_path: Path) -> None:
    instance = Instance(tmp_path, world.broker.bootstrap_servers)
    with instance:
        instance.wait_for_real_time()
        instance.wait_for_boards(world.reference.boards())
        assert instance.terminate() == 0
        assert "stopped" in instance.log()
        instance.start()
        assert instance.boards() == world.reference.boards()
        assert "Spark started" not in instance.log()
        instance.wait_for_real_time()
        assert "a new generation begins" not in instance.log()
        world.send_scores(100)
        instance.wait_for_boards(world.reference.boards())


@pytest.mark.system
def test_a_wiped_state_directory_is_restored_from_kafka_without_reading_scores_again(
    world: World, tmp_path: Path
) -> None:
    checkpoint = (tmp_path / "checkpoint").as_uri()
    instance = Instance(tmp_path / "instance", world.broker.bootstrap_servers, CHECKPOINT_URI=checkpoint)
    with instance:
        instance.wait_for_real_time()
        instance.wait_for_boards(world.reference.boards())
        instance.terminate()
        instance.lose_state()
        instance.start()
        instance.wait_for_boards(world.reference.boards())
        instance.wait_for_real_time()
        assert "caught up: 0 events" in instance.log()


@pytest.mark.system
def test_a_lost_checkpoint_makes_no_board_worse_when_retention_has_taken_the_scores(tmp_path: Path) -> None:
    with Broker(tmp_path / "kafka") as broker:
        world = new_world(broker, scores=500)
        instance = Instance(tmp_path / "instance", broker.bootstrap_servers)
        with instance:
            instance.wait_for_real_time()
            instance.wait_for_boards(world.reference.boards())
            assert instance.terminate() == 0
            world.inputs.truncate(SCORE_EVENTS, 4)
            instance.lose_state()
            instance.start()
            instance.wait_for_real_time()
            assert "a new generation begins: no checkpoint" in instance.log()
            instance.wait_for_boards(world.reference.boards(10), limit=10)
            world.send_scores(100)
            instance.wait_for_boards(world.reference.boards())
            assert list((tmp_path / "instance/state").rglob("generation-2-*/seed-passed"))


@pytest.mark.faults
def test_another_depth_begins_a_new_generation(world: World, tmp_path: Path) -> None:
    with Instance(tmp_path, world.broker.bootstrap_servers) as first:
        first.wait_for_real_time()
        first.terminate()
    deeper = Instance(tmp_path, world.broker.bootstrap_servers, DEPTH=20)
    with deeper:
        deeper.wait_for_real_time()
        assert "a new generation begins: LEADERBOARD_DEPTH 20 instead of 10" in deeper.log()
        deeper.wait_for_boards(world.reference.boards(20), limit=20)


@pytest.mark.faults
def test_deletes_that_leave_places_are_filled_again_from_the_scores(world: World, tmp_path: Path) -> None:
    with Instance(tmp_path, world.broker.bootstrap_servers, DEPTH=2) as instance:
        scores = [(world.top_score() + number, 800 + number, 3) for number in range(8)]
        world.name_players({player: f"Soon gone {player}" for _, player, _ in scores})
        world.reference.add(scores)
        world.inputs.scores(scores)
        instance.wait_for_real_time()
        for _, player, _ in scores[2:]:
            world.delete_player(player)
        wait_until(
            lambda: bool(instance.get("/leaderboard/3?limit=2").json() == world.reference.board(3, 2)),
            "the places of the deleted players are taken by scores that had fallen off the board",
        )
        instance.wait_for_log("a new generation begins: what was deleted or hidden left", deadline_s=1)


@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_no_process_outlives_the_service(world: World, tmp_path: Path, how: str) -> None:
    with Instance(tmp_path, world.broker.bootstrap_servers) as instance:
        instance.wait_for_log("Spark started")
        children = descendants(instance.process.pid)
        assert any(map(is_java, children))
        if how == "terminate":
            assert instance.terminate(deadline_s=10) == 0
            assert running(children) == []
        else:
            instance.kill()
            wait_until(lambda: running(children) == [], "nothing that it started runs", deadline_s=60)


def test_missing_inputs_are_named_and_waited_for(tmp_path: Path) -> None:
    with Broker(tmp_path / "kafka") as broker, Instance(tmp_path / "instance", broker.bootstrap_servers) as instance:
        instance.wait_for_log("missing topics: players, products, score-events")
        inputs = Inputs(broker.connection)
        inputs.create_topics()
        inputs.players({1: "Elyse"})
        inputs.products({1: "Super Smash Bros"})
        inputs.scores([(5.0, 1, 1)])
        reference = Reference({1: "Elyse"}, {1: "Super Smash Bros"}, [(5.0, 1, 1)])
        instance.wait_for_boards(reference.boards())

"""Topics that are deleted, created anew, grown and truncated while events flow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.drivers.faults_events import Mix, row
from tests.drivers.faults_world import PROBER, World
from tests.faults.conftest import MakeWorld

pytestmark = pytest.mark.faults

NO_DELETES = Mix(delete=0)
"""Where scores are gone, places that deletes leave cannot be filled again."""


def test_high_scores_deleted_while_stopped(world: MakeWorld) -> None:
    fault = world()
    fault.start()
    fault.flow.wait_for(500)
    fault.instance.kill()
    fault.topics.delete("high-scores")
    fault.instance.start()
    fault.note(f"new scores shown after {fault.probe():.1f} s")
    fault.check()
    fault.check_dead_letters()


def test_high_scores_deleted_while_running(world: MakeWorld) -> None:
    fault = world()
    fault.start()
    fault.flow.wait_for(500)
    fault.topics.delete("high-scores")
    fault.note(f"new scores shown after {fault.probe():.1f} s")
    fault.check()
    fault.check_dead_letters()


def test_high_scores_created_anew_while_running(world: MakeWorld) -> None:
    fault = world()
    fault.start()
    fault.flow.wait_for(500)
    fault.topics.delete("high-scores")
    fault.topics.create("high-scores", cleanup_policy="compact")
    fault.note(f"new scores shown after {fault.probe():.1f} s")
    fault.check()


def test_high_scores_deleted_when_old_scores_are_gone(world: MakeWorld) -> None:
    fault = world(mix=NO_DELETES)
    fault.start()
    settle(fault)
    fault.topics.truncate("score-events")
    fault.topics.delete("high-scores")
    fault.flow.start()
    fault.note(f"new scores shown after {fault.probe():.1f} s")
    fault.check()


def test_dead_letters_deleted_while_running(world: MakeWorld) -> None:
    fault = world()
    fault.start()
    fault.flow.wait_for(500)
    fault.topics.delete("score-events-invalid")
    fault.wait_until(lambda: "score-events-invalid" in fault.topics.names(), "the topic is there again")
    fault.note(f"new scores shown after {fault.probe():.1f} s")
    before = len(fault.ledger.bad)
    fault.flow.wait_for(1_000)
    fault.check()
    fault.check_dead_letters(since=before)


def test_source_grown(world: MakeWorld) -> None:
    fault = world()
    fault.start()
    fault.flow.wait_for(500)
    fault.topics.grow("score-events", 8)
    # The producer learns of the new partitions when it begins anew.
    fault.flow.stop()
    fault.events.partitions = 8
    fault.flow.start()
    fault.flow.wait_for(1_000)
    fault.note(f"new scores shown after {fault.probe():.1f} s")
    fault.check()
    fault.check_dead_letters()


@pytest.mark.parametrize("running", [True, False], ids=["while running", "while stopped"])
def test_high_scores_grown(world: MakeWorld, *, running: bool) -> None:
    fault = world(mix=NO_DELETES)
    fault.start()
    settle(fault)
    with instance(fault, running=running):
        # What has no other place any more than the boards has to move with them.
        fault.topics.truncate("score-events")
        fault.topics.grow("high-scores", 6)
        fault.flow.start()
    fault.note(f"new scores shown after {fault.probe():.1f} s")
    fault.flow.wait_for(500)
    fault.check()


@pytest.mark.parametrize("running", [True, False], ids=["while running", "while stopped"])
def test_source_created_anew(world: MakeWorld, *, running: bool) -> None:
    fault = world(mix=NO_DELETES)
    fault.start()
    settle(fault)
    with instance(fault, running=running):
        fault.topics.delete("score-events")
        fault.topics.create("score-events")
        fault.flow.start()
    fault.note(f"new scores shown after {fault.probe():.1f} s")
    fault.flow.wait_for(1_000)
    fault.check()


@pytest.mark.parametrize("nothing_left", [False, True], ids=["checkpoint lost", "restored from nothing"])
def test_source_truncated_before_the_checkpoint_is_lost(world: MakeWorld, *, nothing_left: bool) -> None:
    fault = world(mix=NO_DELETES)
    fault.start()
    settle(fault)
    fault.topics.truncate("score-events")
    fault.flow.start()
    fault.flow.wait_for(500)
    fault.instance.kill()
    fault.checkpoint.lose()
    if nothing_left:
        fault.instance.lose_state()
    fault.instance.start()
    fault.note(f"new scores shown after {fault.probe():.1f} s")
    fault.check()


def test_source_truncated_while_stopped(world: MakeWorld) -> None:
    fault = world(mix=NO_DELETES)
    fault.start()
    settle(fault)
    fault.instance.kill()
    # Nobody has read the last of them: they are gone, and everybody may know it.
    fault.flow.start()
    fault.flow.wait_for(200)
    fault.flow.stop()
    lost = fault.ledger.since(fault.checkpoint.committed())
    fault.topics.truncate("score-events")
    for taken in lost:
        fault.ledger.scores.remove(taken)
    fault.flow.start()
    fault.instance.start()
    fault.note(f"{len(lost)} scores gone unread; new scores shown after {fault.probe():.1f} s")
    fault.check()


@pytest.mark.parametrize("running", [True, False], ids=["while running", "while stopped"])
def test_players_created_anew(world: MakeWorld, *, running: bool) -> None:
    fault = world()
    fault.start()
    fault.flow.wait_for(500)
    fault.flow.stop()
    with instance(fault, running=running):
        players = dict(fault.ledger.players)
        fault.topics.delete("players")
        fault.ledger.players.clear()
        fault.topics.create("players", cleanup_policy="compact")
        fault.flow.send(row("players", player, f"{name}, anew") for player, name in players.items() if kept(player))
        fault.flow.start()
    fault.note(f"new scores shown after {fault.probe():.1f} s")
    fault.check()


def kept(player: int) -> bool:
    """Return whether a player is created again."""
    return player % 3 > 0 or player == PROBER


@contextmanager
def instance(fault: World, *, running: bool) -> Iterator[None]:
    """Have the instance run while something happens to topics, or kill it before and start it after."""
    if not running:
        fault.instance.kill()
    yield
    if not running:
        fault.instance.start()


def settle(fault: World) -> None:
    """Stop the flow and wait until all of it has reached the boards and a commit."""
    fault.flow.wait_for(500)
    fault.flow.stop()
    ends = {taken.place.partition: taken.place.offset for taken in fault.ledger.scores}
    wanted = fault.ledger.boards(fault.depth)
    fault.wait_until(lambda: fault.instance.boards(fault.depth) == wanted, "the boards are right")
    fault.wait_until(
        lambda: all(fault.checkpoint.committed().get(at, 0) > end for at, end in ends.items()), "all is committed"
    )

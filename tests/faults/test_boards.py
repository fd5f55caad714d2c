"""What can make a board wrong though nothing breaks: deletes, strangers, odd times, depths, processes of the past."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.drivers.faults_clock import Clock
from tests.drivers.faults_events import Mix, Score, row, score_event
from tests.drivers.faults_world import World
from tests.drivers.replicas import Replicas, until
from tests.faults.conftest import MakeWorld

pytestmark = pytest.mark.faults

_PRODUCT = 901
"""A product on which only the test plays."""

_CHAMPION = 902
_STRANGERS = range(7_000, 7_100)
_DAY_S = 24 * 3600
_YEAR_MS = 365 * 24 * 3600 * 1000
_FORGETFUL = {
    "cleanup_policy": "compact",
    "delete_retention_ms": "2000",
    "segment_ms": "1000",
    "min_cleanable_dirty_ratio": "0.001",
    "max_compaction_lag_ms": "1000",
}
"""Compacts at once, and keeps a delete for two seconds."""


def play(fault: World, *scores: tuple[float, int], timestamp_ms: int | None = None) -> None:
    """Send scores (score, player) of the test's own product, one after the other."""
    for score, player in scores:
        fault.flow.send([score_event(Score(score, player, _PRODUCT), int(score) % 4)], timestamp_ms)


def own_board(fault: World) -> None:
    """Start, with a product and a player of the test's own."""
    fault.flow.send([row("products", _PRODUCT, "Own game"), row("players", _CHAMPION, "Champion")])
    fault.start()


def test_a_player_who_holds_every_place_is_deleted(world: MakeWorld) -> None:
    fault = world()
    play(fault, *((score, 1 + score % 30) for score in range(100, 130)))
    play(fault, *((1_000 + score, _CHAMPION) for score in range(2 * fault.depth + 10)))
    own_board(fault)
    fault.flow.send([row("players", _CHAMPION, None)])
    fault.check()


def test_a_deleted_player_goes_on_playing(world: MakeWorld) -> None:
    # Nobody else comes or goes, so nothing else makes the stream look at the tables again.
    fault = world(mix=Mix(delete=0, stranger=0))
    play(fault, *((score, 1 + score % 30) for score in range(100, 130)))
    own_board(fault)
    fault.flow.send([row("players", _CHAMPION, None)])
    # Longer than the stream takes to look at the tables again.
    fault.flow.wait_for(2_000)
    play(fault, *((1_000 + score, _CHAMPION) for score in range(2 * fault.depth + 10)))
    fault.check()


def test_scores_of_unknown_players_push_nobody_out(world: MakeWorld) -> None:
    fault = world(mix=Mix(delete=0, rename=0))
    own_board(fault)
    play(fault, *((score, 1 + score % 30) for score in range(100, 130)))
    play(fault, *((10_000 + score, player) for score, player in enumerate(_STRANGERS)))
    fault.flow.wait_for(500)
    expected = fault.ledger.boards(fault.depth)[str(_PRODUCT)]
    path = f"/leaderboard/{_PRODUCT}?limit={fault.depth}"
    fault.wait_until(lambda: bool(fault.instance.get(path).json() == expected), "the known players' board is shown")
    # The lowest of them have long fallen out of what is kept of unknown players.
    fault.flow.send(row("players", player, f"No stranger {player}") for player in _STRANGERS[:5])
    fault.check()


def test_scores_of_unknown_players_push_nobody_out_who_was_unknown_himself(world: MakeWorld) -> None:
    # Nobody else comes or goes, so nothing else makes the stream look at the tables again.
    fault = world(mix=Mix(delete=0, rename=0, stranger=0))
    own_board(fault)
    play(fault, (9_000, _STRANGERS[0]))
    fault.flow.wait_for(500)
    fault.flow.send([row("players", _STRANGERS[0], "No stranger")])
    path = f"/leaderboard/{_PRODUCT}"
    fault.wait_until(lambda: fault.instance.get(path).status_code == 200, "the score is shown")
    # Longer than the stream takes to look at the tables again, and once more.
    fault.flow.wait_for(4_000)
    play(fault, *((10_000 + score, player) for score, player in enumerate(_STRANGERS[1:])))
    fault.flow.wait_for(1_000)
    fault.check()


def test_odd_timestamps(world: MakeWorld) -> None:
    fault = world()
    own_board(fault)
    now_ms = time.time_ns() // 1_000_000
    # The same scores again and again: only the time of a record tells which is the better one.
    for moment in (now_ms + 3_000_000, 1, now_ms - _YEAR_MS, 0, now_ms - 1, now_ms - 40 * _YEAR_MS, now_ms):
        play(fault, *((100, player) for player in range(1, 6)), timestamp_ms=moment)
    fault.instance.kill()
    fault.instance.start()
    play(fault, (100, 7), (100, 8), timestamp_ms=2)
    fault.note(f"new scores shown after {fault.probe():.1f} s")
    fault.check()


def test_the_clock_jumps(world: MakeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(tmp_path / "clock")
    monkeypatch.setenv("PYTHONPATH", clock.python_path)
    fault = world()
    fault.start()
    for days in (3, -3, 0):
        clock.jump(days * _DAY_S)
        fault.flow.wait_for(500)
        fault.note(f"{days:+} days: new scores shown after {fault.probe():.1f} s")
    clock.jump(-10 * _DAY_S)
    fault.instance.kill()
    fault.instance.start()
    fault.note(f"-10 days and a restart: {fault.probe():.1f} s")
    fault.check()


def test_another_depth(world: MakeWorld) -> None:
    fault = world(DEPTH=10)
    fault.start()
    for depth in (5, 20):
        fault.flow.wait_for(500)
        fault.instance.kill()
        fault.set_depth(depth)
        fault.instance.start()
        fault.note(f"{depth}: new scores shown after {fault.probe():.1f} s")
    fault.check()


def test_an_instance_away_longer_than_deletes_are_kept(world: MakeWorld) -> None:
    fault = world(prepare=lambda topics: topics.configure("players", **_FORGETFUL))
    own_board(fault)
    fault.flow.wait_for(500)
    away = fault.make("away")
    away.start()
    fault.wait_until(lambda: away.get("/health/ready").status_code == 200, "the other is ready")
    away.kill()
    play(fault, *((50_000 + number, _CHAMPION) for number in range(5)))
    fault.flow.send([row("players", _CHAMPION, None)])
    key = str(_CHAMPION).encode()
    fault.wait_until(lambda: key not in fault.topics.keys("players"), "Kafka has forgotten the delete")
    away.start()
    fault.check(instance=away)
    fault.check()


def test_an_older_board_after_a_newer_one(world: MakeWorld) -> None:
    fault = world()
    replicas = Replicas(
        fault.directory, fault.broker.bootstrap_servers, **{"CHECKPOINT_URI": fault.checkpoint.uri, **fault.settings}
    )
    with replicas:
        replicas.add(2)
        replicas.wait_until_settled()
        frozen = replicas.stream_holder
        frozen.wait_for_real_time()
        (other,) = replicas.others
        fault.flow.wait_for(500)
        with replicas.frozen(frozen):
            until(lambda: "catching up ▸ running" in other.log(), lambda: f"taken over: {other.log()[-3000:]}")
            fault.flow.wait_for(1_000)
        # Whatever it had under way comes after what the other has written.
        frozen.wait_for_log("▸ stopped")
        replicas.wait_until_settled()
        assert replicas.stream_holder is other
        for member in replicas.members:
            fault.check(instance=member)
        # What the topic keeps is right as well: another one, restored from it, shows the same.
        (newcomer,) = replicas.add(1)
        fault.check(instance=newcomer)

"""Kafka and disks: away, full, read-only, lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.drivers.faults_small_disk import read_only, small_disk
from tests.drivers.faults_world import World
from tests.faults.conftest import MakeWorld

pytestmark = pytest.mark.faults

_STATE_MB = 48
_KAFKA_MB = 96
_APART_S = 1.0
_REST_WITHIN_S = 30.0


@pytest.mark.parametrize("away_s", [5, 60], ids=["for 5 s", "for 60 s"])
def test_broker_away(world: MakeWorld, away_s: int) -> None:
    fault = world()
    fault.start()
    fault.flow.wait_for(500)
    fault.broker.kill()
    boards = boards_at_rest(fault)
    fault.for_s(away_s, lambda: fault.instance.boards(fault.depth) == boards, "reads go on")
    fault.broker.start()
    fault.note(f"new scores shown after {fault.probe():.1f} s")
    fault.check()
    fault.check_dead_letters()


def test_broker_storage_full(world: MakeWorld, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", _KAFKA_MB) as disk:
        fault = world(broker_dir=disk.path / "kafka")
        fault.start()
        fault.flow.wait_for(500)
        with disk.full():
            fault.wait_until(lambda: not fault.broker.running, "the broker ends: its disk is full")
            reads_go_on(fault)
        fault.broker.stop()
        fault.broker.start()
        fault.note(f"new scores shown after {fault.probe():.1f} s")
        fault.check()
        fault.check_dead_letters()


def test_state_directory_full(world: MakeWorld, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", _STATE_MB) as disk:
        fault = world(STATE_DIR=disk.path / "state")
        fault.start()
        fault.flow.wait_for(500)
        with disk.full():
            unusable_is_said(fault, "No space left on device")
            reads_go_on(fault)
        recovers_without_a_restart(fault)


def test_state_directory_read_only(world: MakeWorld) -> None:
    fault = world()
    fault.start()
    fault.flow.wait_for(500)
    with read_only(fault.instance.directory / "state"):
        unusable_is_said(fault, "Operation not permitted")
        reads_go_on(fault)
    recovers_without_a_restart(fault)


def test_state_directory_read_only_at_the_start(world: MakeWorld) -> None:
    fault = world()
    state = fault.instance.directory / "state"
    state.mkdir(parents=True)
    with read_only(state), pytest.raises(AssertionError, match=f"leaderboard: {state}.* cannot be written"):
        fault.instance.start()
    fault.start()
    fault.note(f"new scores shown after {fault.probe():.1f} s")
    fault.check()


def test_checkpoint_disk_full(world: MakeWorld, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", _STATE_MB) as disk:
        fault = world(CHECKPOINT_URI=(disk.path / "checkpoint").as_uri())
        fault.start()
        fault.flow.wait_for(500)
        with disk.full():
            fault.instance.wait_for_log("No space left on device")
            reads_go_on(fault)
        fault.note(f"new scores shown after {fault.probe():.1f} s")
        fault.check()


def test_state_directory_lost(world: MakeWorld) -> None:
    fault = world()
    fault.start()
    fault.flow.wait_for(500)
    fault.instance.kill()
    fault.instance.lose_state()
    fault.instance.start()
    fault.note(f"new scores shown after {fault.probe():.1f} s")
    assert "a new generation begins" not in fault.instance.log()
    fault.check()


def test_state_directory_lost_while_running(world: MakeWorld) -> None:
    fault = world()
    fault.start()
    fault.flow.wait_for(500)
    fault.instance.lose_state()
    reads_go_on(fault)
    fault.flow.wait_for(500)
    fault.instance.kill()
    fault.instance.start()
    fault.note(f"new scores shown after {fault.probe():.1f} s")
    fault.check()


def boards_at_rest(fault: World) -> dict[str, Any]:
    """Return the boards when they have come to rest: they are answered, and for a while as they were before."""
    looks: list[Any] = [None]

    def rest() -> bool:
        looks.append(fault.instance.boards(fault.depth))
        return isinstance(looks[-1], dict) and looks[-1] == looks[-2]

    fault.wait_until(rest, "the boards come to rest", deadline_s=_REST_WITHIN_S, every_s=_APART_S)
    boards: dict[str, Any] = looks[-1]
    assert boards, "there are boards"
    return boards


def unusable_is_said(fault: World, why: str) -> None:
    """Wait until the instance says so in its log, and is not ready for that reason."""
    fault.wait_until(lambda: why in fault.instance.log(), f"{why!r} is logged")
    fault.wait_until(lambda: fault.instance.get("/health/ready").status_code == 503, "it is not ready")
    assert why in fault.instance.get("/health/ready").json()["detail"]


def reads_go_on(fault: World) -> None:
    """The boards are answered, all in one; that they are right is checked in the end."""
    assert len(fault.instance.boards(fault.depth)) > 10


def recovers_without_a_restart(fault: World) -> None:
    """New scores come to be shown, and the instance to be ready."""
    fault.note(f"new scores shown after {fault.probe():.1f} s")
    fault.wait_until(lambda: fault.instance.get("/health/ready").status_code == 200, "it is ready")
    fault.check()

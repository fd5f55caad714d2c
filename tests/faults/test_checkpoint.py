"""The checkpoint: lost, and half-written as a power cut leaves it. The boards so far stay, and nothing is lost."""

from __future__ import annotations

import pytest

from tests.drivers.faults_world import World
from tests.faults.conftest import MakeWorld

pytestmark = pytest.mark.faults

_SAID = {
    "offsets": "a new generation begins: the offsets of batch",
    "commits": "a new generation begins: its checkpoint cannot be used",
    "state": "a new generation begins: its checkpoint cannot be used",
    "generation.json": "generation.json cannot be used",
}
"""What the log says of each kind of file that is cut in two."""


def test_checkpoint_lost_while_stopped(world: MakeWorld) -> None:
    fault = world()
    fault.start()
    fault.flow.wait_for(500)
    fault.instance.kill()
    fault.checkpoint.lose()
    fault.instance.start()
    fault.note(f"new scores shown after {fault.probe():.1f} s")
    assert "a new generation begins: no checkpoint" in fault.instance.log()
    fault.check()


def test_checkpoint_lost_while_running(world: MakeWorld) -> None:
    fault = world()
    fault.start()
    fault.flow.wait_for(500)
    fault.checkpoint.lose()
    fault.wait_until(lambda: fault.checkpoint.generation > 0, "a checkpoint is there again")
    fault.instance.wait_for_log("catching up ▸ running", times=2)
    fault.note(f"new scores shown after {fault.probe():.1f} s")
    fault.check()


def test_half_written(world: MakeWorld) -> None:
    fault = world()
    fault.start()
    for what in ("offsets", "commits", "state", "generation.json"):
        await_a_commit(fault)
        fault.instance.kill()
        fault.checkpoint.halve(what)
        fault.instance.start()
        fault.note(f"{what}: new scores shown after {fault.probe():.1f} s")
        assert _SAID[what] in fault.instance.log()
    fault.check()


def await_a_commit(fault: World) -> None:
    """Wait until real time has committed."""
    fault.instance.wait_for_real_time()
    first = fault.checkpoint.commits
    fault.wait_until(lambda: fault.checkpoint.commits > first, "real time has committed")

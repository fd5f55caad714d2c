"""Processes that are killed: the service at every moment that matters, and Spark's JVM alone."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from tests.drivers.faults_world import INTERVAL_S, World
from tests.drivers.processes import descendants, is_java
from tests.faults.conftest import MakeWorld

pytestmark = pytest.mark.faults

_COMMIT_TAKES_S = 3.0
_AT_ONCE_S = 0.01
_ROUNDS = 3


def test_kill_while_catching_up(world: MakeWorld) -> None:
    fault = world(backlog=150_000)
    fault.instance.start()
    fault.instance.wait_for_log("starting ▸ catching up")
    # While the first micro-batch is at work.
    fault.wait_until(
        lambda: any((fault.checkpoint.newest / "query/offsets").glob("0")), "a batch has begun", every_s=_AT_ONCE_S
    )
    kill_and_start_again(fault, in_real_time=False)
    fault.check()
    fault.check_dead_letters()


def test_kill_in_real_time(world: MakeWorld) -> None:
    fault = in_real_time(world)
    fault.flow.wait_for(500)
    kill_and_start_again(fault)
    fault.check()
    fault.check_dead_letters()
    fault.verify()


def test_kill_at_a_batch_boundary(world: MakeWorld) -> None:
    fault = in_real_time(world)
    for log in ("offsets", "commits"):
        await_the_second(fault, log)
        kill_and_start_again(fault)
        await_a_commit(fault)
    fault.check()
    fault.check_dead_letters()


def test_kill_while_stores_are_written(world: MakeWorld, seed: int) -> None:
    fault = world(per_s=500)
    fault.start()
    moments = random.Random(seed)
    for _ in range(_ROUNDS):
        fault.flow.wait_for(moments.randrange(200, 1_500))
        fault.instance.kill()
        fault.instance.start()
        # From here on boards of before are read again, and stores written.
        fault.wait_until(lambda: fault.instance.get("/health/ready").status_code == 200, "it is ready")
        fault.instance.wait_for_log("starting ▸ catching up")
    fault.note(f"{_ROUNDS} kills, then new scores shown after {fault.probe():.1f} s")
    fault.check()
    assert "unusable" not in fault.instance.log()


def test_kill_of_the_jvm_alone(world: MakeWorld) -> None:
    fault = world()
    fault.start()
    fault.flow.wait_for(500)
    fault.jvm().kill()
    fault.note(f"new scores shown after {fault.probe():.1f} s")
    assert "a new generation begins" not in fault.instance.log().partition("▸ error")[2]
    fault.check()
    fault.check_dead_letters()


def test_a_jvm_that_does_not_stay_at_one_of_two_instances(world: MakeWorld) -> None:
    # A standby would take over from the first JVM that ends.
    fault = world(STREAM_STANDBYS=0)
    fault.start()
    other = fault.make("other")
    other.start()

    def taken_over() -> bool:
        for process in filter(is_java, descendants(fault.instance.process.pid)):
            process.kill()
        return "catching up ▸ running" in other.log()

    fault.wait_until(taken_over, "the other instance runs the stream", every_s=1.0)
    assert "the stream keeps failing here" in fault.instance.log()
    fault.note(f"new scores shown after {fault.probe():.1f} s")
    fault.check()
    fault.check(instance=other)


def in_real_time(world: Callable[..., World]) -> World:
    """Return a world in which real time keeps up, and has committed."""
    fault = world()
    fault.start()
    await_a_commit(fault)
    return fault


def await_a_commit(fault: World) -> None:
    """Wait until real time keeps up, and has committed then."""
    fault.instance.wait_for_real_time()
    fault.probe()
    first = fault.checkpoint.commits
    fault.wait_until(lambda: fault.checkpoint.commits > first, "real time has committed")


def await_the_second(fault: World, log: str) -> None:
    """Wait until a log of the checkpoint has the second batch from now on, also if a generation begins then.

    The first one may be the first in real time: that has read what came while a backlog was worked off, too.
    """
    begun: dict[int, int] = {}

    def written() -> bool:
        files = fault.checkpoint
        if files.generation not in begun and not fault.instance.is_in_real_time:
            return False
        batch = begun.setdefault(files.generation, files.commits + 1)
        return (files.newest / "query" / log / str(batch)).exists()

    fault.wait_until(written, f"{log} has the second batch", every_s=_AT_ONCE_S)


def kill_and_start_again(fault: World, *, in_real_time: bool = True) -> None:
    """Kill the service, look at what will be read again, and start it.

    Args:
        fault: where.
        in_real_time: the generation goes on, and nothing is read again that came longer ago than a batch takes; else
            another one begins, since nobody goes on in the middle of a first backlog.
    """
    jvm = fault.jvm()
    # First: it would live long enough to end what it has begun.
    jvm.kill()
    fault.instance.kill()
    killed_s = time.monotonic()
    again = fault.ledger.since(fault.checkpoint.committed())
    age_s = killed_s - min((taken.at_s for taken in again), default=killed_s)
    every_s = fault.checkpoint.commit_every_s()
    fault.note(f"{len(again):,} events of the last {age_s:.1f} s read again, a batch took {every_s:.1f} s")
    # A machine that is busy with other things needs longer for a batch.
    assert not in_real_time or age_s < max(INTERVAL_S, every_s) + _COMMIT_TAKES_S
    generation = fault.checkpoint.generation
    fault.instance.start()
    fault.note(f"new scores shown after {fault.probe():.1f} s")
    assert fault.checkpoint.generation == generation + (0 if in_real_time else 1)

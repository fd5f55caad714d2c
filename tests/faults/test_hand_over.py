"""Three instances while the stream passes from one to the next: whoever is cut off, dies or comes back meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.drivers.faults_world import World
from tests.drivers.instance import Instance
from tests.drivers.processes import descendants, is_java, jvm_of
from tests.drivers.relay import RelayedReplicas
from tests.drivers.replicas import Replicas
from tests.drivers.stream_standby import RUNS, STOPPED, TAKES_OVER, is_warm, warm_standby
from tests.faults.conftest import MakeWorld

pytestmark = pytest.mark.faults

FROZEN_EVENTS = 4_000
"""So many come while an instance is frozen: its session ends long before."""
AT_ONCE_S = 0.01
LONG_SESSION_MS = 30_000
"""The stream passes on, and whoever had it has noticed, before one ends."""
HEARTBEATS_EVENTS = 400
"""While so many come, each member has heard of a rebalance, and joined again."""
GROUP = "leaderboard"
SUPERSEDED = "the stream stopped: another driver works on"
CATCHES_UP = "starting ▸ catching up"


@dataclass
class Passing:
    """A stream that passes from one instance to the next.

    Attributes:
        world: where.
        replicas: three instances.
        holder: has the stream to begin with.
        standby: is warm.
        taken: how often the standby had the stream before.
    """

    world: World
    replicas: Replicas
    holder: Instance
    standby: Instance
    taken: int

    def until_taken_over(self) -> None:
        """Wait until the standby has taken the stream over, and new scores are shown."""
        self.world.wait_until(lambda: self.standby.log().count(RUNS) > self.taken, "the standby runs the stream")
        self.world.note(f"new scores shown after {self.world.probe():.1f} s")

    def check_taken_over(self) -> None:
        """The standby takes the stream over, goes on with it, and keeps it."""
        self.until_taken_over()
        self.world.flow.wait_for(500)
        self.check()
        assert self.replicas.stream_holder is self.standby

    def check(self) -> None:
        """Every instance has exactly what was sent, one has the stream, and every bad record is a dead letter."""
        self.replicas.wait_until_settled()
        self.world.probe()
        for member in self.replicas.members:
            self.world.check(member)
        self.world.check_dead_letters()


MakePassing = Callable[..., Passing]


@pytest.fixture
def passing(world: MakeWorld) -> Iterator[MakePassing]:
    """Return what makes instances with a warm standby while events flow."""
    with ExitStack() as opened:

        def make(kind: type[Replicas], **settings: object) -> Passing:
            fault = world(**settings)
            replicas = opened.enter_context(kind(fault.directory, fault.broker.bootstrap_servers, **fault.settings))
            replicas.add(3)
            replicas.wait_until_settled()
            holder = replicas.stream_holder
            holder.wait_for_real_time()
            standby = warm_standby(replicas)
            # Is asked: it stays, or the third one does.
            fault.instance = standby
            fault.flow.wait_for(500)
            return Passing(fault, replicas, holder, standby, standby.log().count(RUNS))

        yield make


def third(passed: Passing) -> Instance:
    (other,) = (each for each in passed.replicas.members if each not in (passed.holder, passed.standby))
    return other


def test_cut_between_the_holder_and_the_others(passing: MakePassing) -> None:
    passed = passing(RelayedReplicas)
    replicas = passed.replicas
    assert isinstance(replicas, RelayedReplicas)
    replicas.cut(passed.holder)
    passed.until_taken_over()
    assert TAKES_OVER in passed.standby.log()
    passed.holder.wait_for_log(STOPPED)
    passed.world.flow.wait_for(2_000)
    replicas.heal(passed.holder)
    passed.world.flow.wait_for(500)
    passed.check()
    assert replicas.stream_holder is passed.standby


@pytest.mark.parametrize("how", ["is stopped", "is killed"])
def test_successor_killed_while_it_takes_over_from_one_that(passing: MakePassing, how: str) -> None:
    passed = passing(Replicas)
    replicas, holder, standby = passed.replicas, passed.holder, passed.standby
    passed.world.instance = third(passed)
    if how == "is killed":
        replicas.kill(holder)
    else:
        replicas.terminate(holder)
    kill_while_it_takes_over(passed)
    passed.world.note(f"new scores shown after {passed.world.probe():.1f} s")
    passed.world.flow.wait_for(500)
    replicas.bring_back(holder)
    replicas.bring_back(standby)
    passed.check()


def test_successor_killed_before_the_group_knows_of_it(passing: MakePassing) -> None:
    """Nobody works then: whoever had the stream is superseded, and the group takes it for the one that has it."""
    passed = passing(RelayedReplicas, SESSION_TIMEOUT_MS=LONG_SESSION_MS)
    replicas, holder, standby, other = passed.replicas, passed.holder, passed.standby, third(passed)
    assert isinstance(replicas, RelayedReplicas)
    passed.world.instance = other
    # The group waits for one that was killed until its session ends. Whoever has joined again until then can tell
    # the group nothing, and is told nothing.
    replicas.kill(other)
    replicas.bring_back(other)
    passed.world.wait_until(lambda: passed.world.topics.group_state(GROUP) == "PreparingRebalance", "the group waits")
    passed.world.flow.wait_for(HEARTBEATS_EVENTS)
    begun = holder.log().count(CATCHES_UP)
    replicas.cut(holder)
    kill_while_it_takes_over(passed)
    passed.world.wait_until(
        lambda: SUPERSEDED in holder.log() or holder.log().count(CATCHES_UP) > begun, "the holder has noticed"
    )
    if SUPERSEDED in holder.log():
        holder.wait_for_log("another driver had the stream, and the group knows of none: it is given up here")
    else:
        passed.world.note("the holder began a generation meanwhile, which comes before its successor's work")
    passed.world.note(f"new scores shown after {passed.world.probe():.1f} s")
    passed.world.flow.wait_for(500)
    replicas.heal(holder)
    replicas.bring_back(standby)
    passed.check()


def kill_while_it_takes_over(passed: Passing) -> None:
    """Kill the standby and its JVM as soon as it has taken a number at the checkpoint."""
    world, standby = passed.world, passed.standby
    world.wait_until(lambda: TAKES_OVER in standby.log(), "it takes over", every_s=AT_ONCE_S)
    numbers = numbers_of_drivers(world)
    world.wait_until(lambda: numbers_of_drivers(world) != numbers, "it has taken a number", every_s=AT_ONCE_S)
    for jvm in filter(is_java, descendants(standby.process.pid)):
        jvm.kill()
    passed.replicas.kill(standby)


def numbers_of_drivers(fault: World) -> set[str]:
    return {each.name for each in fault.checkpoint.newest.glob("driver-*")}


def test_holder_that_is_killed_and_comes_back_at_once(passing: MakePassing) -> None:
    passed = passing(Replicas)
    passed.replicas.kill(passed.holder)
    passed.replicas.bring_back(passed.holder)
    passed.check_taken_over()


def test_holder_that_was_frozen_and_comes_back(passing: MakePassing) -> None:
    passed = passing(Replicas)
    stopped = passed.holder.log().count(STOPPED)
    with passed.replicas.frozen(passed.holder):
        passed.until_taken_over()
        passed.world.flow.wait_for(FROZEN_EVENTS)
    assert TAKES_OVER not in passed.standby.log(), "whoever is frozen may come back: the group decides"
    passed.holder.wait_for_log(STOPPED, times=stopped + 1)
    passed.world.flow.wait_for(500)
    passed.check()


def test_standby_that_was_frozen_while_the_holder_was_killed(passing: MakePassing) -> None:
    passed = passing(Replicas)
    passed.world.instance = other = third(passed)
    with passed.replicas.frozen(passed.standby):
        passed.replicas.kill(passed.holder)
        other.wait_for_log(RUNS)
        passed.world.note(f"new scores shown after {passed.world.probe():.1f} s")
    passed.world.flow.wait_for(500)
    passed.replicas.bring_back(passed.holder)
    passed.check()
    assert TAKES_OVER not in passed.standby.log(), "what it had heard of was old"
    assert passed.replicas.stream_holder is other


def test_kill_of_the_jvm_alone_of_a_holder_that_is_followed(passing: MakePassing) -> None:
    passed = passing(Replicas)
    kill_jvm(passed.holder)
    passed.check_taken_over()


def test_kill_of_the_jvm_alone_of_a_standby(passing: MakePassing) -> None:
    passed = passing(Replicas)
    warm = passed.standby.log().count("ready to take over")
    kill_jvm(passed.standby)
    passed.standby.wait_for_log("ready to take over", times=warm + 1)
    assert is_warm(passed.standby)
    passed.replicas.terminate(passed.holder)
    passed.until_taken_over()
    passed.replicas.bring_back(passed.holder)
    passed.check()


def kill_jvm(instance: Instance) -> None:
    jvm_of(instance.process.pid).kill()

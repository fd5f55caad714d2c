"""The instance with the stream is cut off from the others while all reach Kafka: two streams at once for a moment.

The one that was cut off stops, deletes nothing, and does not come back by itself. No score is lost or counted twice.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.java.broker import Broker
from tests.drivers.counted import Counted
from tests.drivers.deployment import Deployment
from tests.drivers.instance import Instance
from tests.drivers.relay import RelayedDeployment, RelayedReplicas
from tests.drivers.replicas import until
from tests.drivers.stream_standby import RUNS, STOPPED, TAKES_OVER, is_warm, warm_standby
from tests.drivers.word_topologies import CUT_OFF, words_in

pytestmark = pytest.mark.system

SUPERSEDED = "another driver"
MANIFESTS = "*/generation-*/generation.json"
LINES = ("hello world", "hello kafka streams", "kafka summit kafka")


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    with RelayedDeployment(tmp_path) as started:
        yield started


def test_of_two_streams_of_boards_the_one_that_was_cut_off_stops(deployment: Deployment) -> None:
    replicas = deployment.replicas
    assert isinstance(replicas, RelayedReplicas)
    holder, standby = replicas.stream_holder, warm_standby(replicas)
    taken = standby.log().count(RUNS)
    staying = [member for member in replicas.members if member is not holder]
    with deployment.reading(staying) as reader:
        with deployment.sample.played_on(per_s=100):
            replicas.cut(holder)
            until_taken_over(holder, standby, taken)
            holder.wait_for_log(STOPPED)
            had = holder.log().count(RUNS)
            there = numbered_files(replicas)
            assert there
            # Longer than several of its batches.
            reader.go_on(20)
            assert deleted_of(replicas, there) == set(), "it has deleted nothing"
            assert holder.log().count(RUNS) == had, "it does not come back by itself"
        for member in replicas.members:
            member.wait_for_boards(deployment.sample.reference.boards())
        replicas.heal(holder)
        replicas.wait_until_settled()
        assert replicas.stream_holder is standby
    assert reader.readings.failures == [], str(reader.readings)
    becomes_standby(replicas, holder, standby)
    replicas.terminate(standby)
    deployment.wait_until_new_scores_are_shown()
    assert replicas.stream_holder is holder
    holder.wait_for_boards(deployment.sample.reference.boards())


def test_of_two_streams_that_count_the_one_that_was_cut_off_stops_before_the_group_knows(
    broker: Broker, tmp_path: Path
) -> None:
    world = Counted(broker.connection, CUT_OFF)
    world.send(*LINES * 10)
    with RelayedReplicas(
        tmp_path,
        broker.bootstrap_servers,
        TOPOLOGY="tests.drivers.word_topologies:CUT_OFF",
        # The group waits so long for one that is frozen, and tells nobody anything until then.
        SESSION_TIMEOUT_MS=60_000,
    ) as replicas:
        replicas.add(3)
        replicas.wait_until_settled()
        holder = replicas.stream_holder
        holder.wait_for_real_time()
        standby = warm_standby(replicas)
        (frozen,) = (member for member in replicas.members if member not in (holder, standby))
        taken = standby.log().count(RUNS)
        with replicas.frozen(frozen):
            replicas.cut(holder)
            for number in range(400):
                world.send(f"both {number}", *LINES, partition=number % 3)
                if standby.log().count(RUNS) > taken and SUPERSEDED in holder.log():
                    break
            until_taken_over(holder, standby, taken)
            holder.wait_for_log(SUPERSEDED)
            assert STOPPED not in holder.log(), "the group does not know it yet"
            there = numbered_files(replicas)
            assert there
            world.until_counted(words_in)
            assert deleted_of(replicas, there) == set(), "it has deleted nothing"
        had = holder.log().count(RUNS)
        replicas.heal(holder)
        replicas.wait_until_settled()
        assert replicas.stream_holder is standby
        world.send(*LINES * 10)
        until_counted_everywhere(world, replicas)
        assert holder.log().count(RUNS) == had, "it does not come back by itself"
        assert SUPERSEDED not in standby.log()
        replicas.terminate(frozen)
        becomes_standby(replicas, holder, standby)
        replicas.terminate(standby)
        world.send(*LINES * 10)
        until_counted_everywhere(world, replicas)
        until(replicas.stream_is_held, lambda: "it has the stream anew")
        assert replicas.stream_holder is holder


def until_taken_over(holder: Instance, standby: Instance, taken: int) -> None:
    """Wait until the standby runs the stream; whoever had it has not given it up before."""
    until(lambda: standby.log().count(RUNS) > taken, lambda: f"it runs the stream: {standby.log()[-5000:]}")
    assert f"{TAKES_OVER} {holder.advertised}: nothing listens there any more" in standby.log()


def becomes_standby(replicas: RelayedReplicas, former: Instance, holder: Instance) -> None:
    """Leave only two, and wait until the one that had the stream before keeps Spark warm for the other."""
    for member in list(replicas.members):
        if member not in (former, holder):
            replicas.terminate(member)
    replicas.wait_until_settled()
    until(lambda: is_warm(former), lambda: f"it is a standby: {former.log()[-5000:]}")


def numbered_files(replicas: RelayedReplicas) -> set[Path]:
    """Return what the checkpoint keeps of batches, of generations that count: one that begins is its driver's own."""
    found = set()
    for manifest in replicas.checkpoint.glob(MANIFESTS):
        # Whoever has the stream deletes some meanwhile, which this takes no note of.
        for directory, directories, files in os.walk(manifest.parent):
            found |= {Path(directory, name) for name in (*directories, *files) if name.isdecimal()}
    return found


def until_counted_everywhere(world: Counted, replicas: RelayedReplicas) -> None:
    world.until_counted(words_in)
    expected = world.expected(words_in)

    def counts(member: Instance) -> object:
        rows = member.rows("counts-store")
        return {row["word"]: row["count"] for row in rows} if isinstance(rows, list) else rows

    until(
        lambda: all(counts(member) == expected for member in replicas.members),
        lambda: f"{expected} everywhere: {[counts(member) for member in replicas.members]}",
    )


def deleted_of(replicas: RelayedReplicas, there: set[Path]) -> set[Path]:
    """Return what is gone of these files, but for those of a generation that another one has followed since."""
    gone = there - numbered_files(replicas)
    counting = defaultdict[Path, list[int]](list)
    for manifest in replicas.checkpoint.glob(MANIFESTS):
        counting[manifest.parent.parent].append(number_of(manifest.parent))
    # Its directory goes after its files, or some time later: only the generation that counts says that it is followed.
    return {
        path
        for path in gone
        if number_of(generation := generation_of(path)) >= max(counting[generation.parent], default=0)
    }


def generation_of(path: Path) -> Path:
    """Return the directory of the generation that a file is one of."""
    return next(parent for parent in path.parents if parent.name.startswith("generation-"))


def number_of(generation: Path) -> int:
    return int(generation.name.split("-")[1])

"""Three instances: the stream passes to a warm standby long before the group would give it to anybody.

A session lasts longer than each wait for new scores, so that only the early way can pass.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.instance.hand_over import READY_WITHIN_S
from runtime.kafka.offsets import topic_offsets
from tests.drivers.deployment import Deployment
from tests.drivers.faults_topics import Topics
from tests.drivers.instance import Instance
from tests.drivers.processes import jvm_of
from tests.drivers.reader import Reader
from tests.drivers.replicas import Replicas, until
from tests.drivers.sample import is_shown
from tests.drivers.stream_standby import READY, RUNS, STOPPED, TAKES_OVER, is_warm, jvms, warm_standby
from topology.leaderboard.topics import HIGH_SCORES

pytestmark = pytest.mark.system

SESSION_S = 90
EARLY_S = 80.0
"""Less than a session: a Spark that is not warm would be there by then as well, but nobody would have begun."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with Deployment(tmp_path_factory.mktemp("hand-over"), SESSION_TIMEOUT_MS=SESSION_S * 1000) as deployment:
        yield deployment


@pytest.fixture
def deployment(shared: Deployment) -> Deployment:
    """Three healthy instances: each test may end some and bring others."""
    shared.settle()
    return shared


@contextmanager
def reading(deployment: Deployment, *leaving: Instance) -> Iterator[Reader]:
    """Read at the instances that stay; no read fails, and in the end all have every score and know who does what."""
    staying = [member for member in deployment.replicas.members if member not in leaving]
    with deployment.reading(staying) as reader:
        yield reader
    assert reader.readings.failures == [], str(reader.readings)
    assert_all_is_well(deployment)


def assert_all_is_well(deployment: Deployment) -> None:
    replicas = deployment.replicas
    for member in replicas.members:
        member.wait_for_boards(deployment.sample.reference.boards())
    until(replicas.stream_is_held, lambda: "all know who has the stream")
    assert len(replicas.stream_standbys) == 1
    assert replicas.stream_holder not in replicas.stream_standbys


def assert_takes_over(deployment: Deployment, taker: Instance, taken: int) -> None:
    """Check that an instance takes the stream over, and shows what is sent from then on, before a session can end.

    Args:
        deployment: of the instance.
        taker: the instance.
        taken: how often it had the stream before.
    """
    until(
        lambda: taker.log().count(RUNS) > taken,
        lambda: f"it runs the stream: {taker.log()[-5000:]}",
        deadline_s=EARLY_S,
    )
    assert_new_scores_are_shown(deployment)


def assert_new_scores_are_shown(deployment: Deployment) -> None:
    score = deployment.sample.play()
    members = deployment.replicas.members
    until(
        lambda: all(is_shown(member, score) for member in members),
        lambda: f"score {score} is shown: {[(member.address, member.log()[-5000:]) for member in members]}",
        deadline_s=EARLY_S,
    )


def test_a_standby_that_warms_up_publishes_nothing_and_leaves_nothing(deployment: Deployment) -> None:
    replicas = deployment.replicas
    # Another one is chosen, which has to warm up.
    replicas.terminate(warm_standby(replicas))
    replicas.wait_until_settled()
    ends, files = ends_of_results(deployment), whose_files(deployment)
    (standby,) = replicas.stream_standbys
    until(lambda: any(warm_up_files(standby)), lambda: f"it warms up: {standby.log()[-3000:]}")
    assert not is_warm(standby)
    assert warm_standby(replicas) is standby
    assert ends_of_results(deployment) == ends
    assert whose_files(deployment) == files
    assert warm_up_files(standby) == []
    assert_all_is_well(deployment)


def ends_of_results(deployment: Deployment) -> dict[int, int]:
    partitions = Topics(deployment.kafka.bootstrap_servers).partitions(HIGH_SCORES)
    return dict(asyncio.run(topic_offsets(deployment.kafka, HIGH_SCORES, partitions)).end)


def whose_files(deployment: Deployment) -> set[Path]:
    """Return what whoever begins a query leaves in the checkpoint: generations, and drivers' numbers."""
    checkpoint = deployment.replicas.checkpoint
    return {path for kind in ("generation-*", "driver-*") for path in checkpoint.rglob(kind)}


def warm_up_files(instance: Instance) -> list[Path]:
    """Return the directories in which an instance keeps files of a warm-up."""
    # It deletes them meanwhile, which this takes no note of.
    walked = os.walk(instance.directory / "state")
    return [Path(directory) for directory, _, files in walked if "warm-up" in Path(directory).parts and files]


@pytest.mark.parametrize(
    ("end", "why"),
    [(Replicas.terminate, "it has handed the stream over"), (Replicas.kill, "nothing listens there any more")],
    ids=["SIGTERM", "kill -9"],
)
def test_the_stream_passes_on_when_its_instance_ends(
    deployment: Deployment, end: Callable[[Replicas, Instance], None], why: str
) -> None:
    replicas = deployment.replicas
    holder, standby = replicas.stream_holder, warm_standby(replicas)
    taken = standby.log().count(RUNS)
    with reading(deployment, holder):
        end(replicas, holder)
        assert_takes_over(deployment, standby, taken)
        assert f"{TAKES_OVER} {holder.advertised}: {why}" in standby.log()
        replicas.bring_back(holder)
        replicas.wait_until_settled()
        assert replicas.stream_holder is standby


def test_the_stream_is_handed_over_when_only_its_jvm_is_killed(deployment: Deployment) -> None:
    replicas = deployment.replicas
    holder, standby = replicas.stream_holder, warm_standby(replicas)
    taken, stopped = standby.log().count(RUNS), holder.log().count(STOPPED)
    with reading(deployment):
        jvm_of(holder.process.pid).kill()
        assert_takes_over(deployment, standby, taken)
        assert f"{TAKES_OVER} {holder.advertised}: it has handed the stream over" in standby.log()
        holder.wait_for_log(STOPPED, times=stopped + 1)
        replicas.wait_until_settled()
        assert replicas.stream_holder is standby
        warm_standby(replicas)


def test_in_a_rolling_restart_new_scores_are_shown_all_the_time(deployment: Deployment) -> None:
    replicas = deployment.replicas
    warm_standby(replicas)
    for member in (replicas.stream_holder, *replicas.others):
        with reading(deployment, member):
            replicas.terminate(member)
            assert_new_scores_are_shown(deployment)
            replicas.bring_back(member)
            replicas.wait_until_settled()


def test_a_standby_that_is_still_warming_up_is_waited_for(deployment: Deployment) -> None:
    replicas = deployment.replicas
    replicas.terminate(warm_standby(replicas))
    replicas.wait_until_settled()
    holder, (standby,) = replicas.stream_holder, replicas.stream_standbys
    taken = standby.log().count(RUNS)
    # The queries are under way, so that it will be ready in time.
    until(lambda: any(warm_up_files(standby)), lambda: f"it warms up: {standby.log()[-3000:]}")
    with reading(deployment, holder):
        assert not is_warm(standby)
        since, began_s = len(standby.log()), time.monotonic()
        replicas.terminate(holder)
        waited_s = time.monotonic() - began_s
        assert_takes_over(deployment, standby, taken)
        before, took_over, _ = standby.log()[since:].partition(TAKES_OVER)
        assert took_over
        # A busy machine may take longer to warm up than a stop waits.
        assert READY in before or waited_s >= READY_WITHIN_S, standby.log()[since:]
        deployment.settle()


def test_without_stream_standbys_nobody_warms_up_and_the_group_gives_the_stream_away(tmp_path: Path) -> None:
    with Deployment(tmp_path, STREAM_STANDBYS=0) as deployment:
        replicas = deployment.replicas
        holder = replicas.stream_holder
        assert replicas.stream_standbys == []
        assert [jvms(member) for member in replicas.others] == [0, 0]
        with deployment.reading(replicas.others) as reader:
            replicas.terminate(holder)
            deployment.wait_until_new_scores_are_shown()
            replicas.bring_back(holder)
            replicas.wait_until_settled()
            assert replicas.stream_holder is not holder
        assert reader.readings.failures == [], str(reader.readings)
        assert replicas.stream_standbys == []
        for member in replicas.members:
            member.wait_for_boards(deployment.sample.reference.boards())
            assert READY not in member.log()
            assert TAKES_OVER not in member.log()

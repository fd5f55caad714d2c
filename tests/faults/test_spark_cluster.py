"""The stream on a standalone Spark cluster, with a checkpoint that all share: what is lost of it costs time only."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.drivers.faults_world import World
from tests.drivers.processes import command_lines
from tests.drivers.spark_cluster import HOST, SparkCluster

pytestmark = pytest.mark.faults

SEED = 4711
SECRET = "hunter22"
_TRIES = 3
_HERE = {
    "spark.hadoop.fs.s3a.secret.key": SECRET,
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
    "spark.executor.memory": "512m",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    # The query holds eight slots: neither worker has as many.
    with SparkCluster(tmp_path / "cluster", workers=2, cores=7) as cluster:
        yield cluster


def test_killing_an_executor_and_a_worker_loses_nothing(
    cluster: SparkCluster, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    note = partial(record_property, "note")
    with World(tmp_path, SEED, note, SPARK_MASTER=cluster.url, SPARK_CONF=json.dumps(_HERE)) as world:
        world.start()
        assert len(cluster.executors) == 2
        world.flow.wait_for(500)

        _lose_a_batch(world, cluster.kill_executor)
        world.note(f"executor lost: new scores shown after {world.probe():.1f} s")
        world.flow.wait_for(500)

        _lose_a_batch(world, cluster.replace_worker)
        world.note(f"worker lost: new scores shown after {world.probe():.1f} s")
        world.flow.wait_for(500)

        world.check()
        world.check_dead_letters()
        assert SECRET not in f"{command_lines(world.instance.process.pid)} {world.instance.log()}"
        assert "its checkpoint cannot be used" not in world.instance.log()


def _lose_a_batch(world: World, lose: Callable[[], None]) -> None:
    """Lose something while a batch runs on it, until the stream has failed by that.

    Between two batches, or while the stream ends the query for reasons of its own, no failure is seen.
    """
    for _ in range(_TRIES):
        world.instance.wait_for_real_time()
        world.probe()
        ended, failed = (world.instance.log().count(text) for text in ("running ▸", "running ▸ error"))
        lose()
        world.instance.wait_for_log("running ▸", times=ended + 1)
        if world.instance.log().count("running ▸ error") > failed:
            return
    raise AssertionError(f"the stream has not failed by {_TRIES} losses")

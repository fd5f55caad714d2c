"""Counts are exact, whatever fails: faults on a real broker and real Spark, beside a plain count of what was sent."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.java.broker import Broker
from runtime.declaration import Topology
from tests.drivers.counted import Counted
from tests.drivers.stream_process import SHORT_S, StreamProcess, running
from tests.drivers.word_topologies import word_count, word_count_each_second, words_in

_CHANCE = random.Random(20261125)


def _lines(count: int) -> list[str]:
    """Return lines of a few words, some of them twice in a line, one of them rare."""
    words = [*"abcdefgh", "über", "a/b", f"rare{count}-{_CHANCE.randrange(1000)}"]
    return [" ".join(_CHANCE.choices(words, k=_CHANCE.randrange(1, 6))) for _ in range(count)]


class Scene:
    """Word count on topics and in directories of its own, with some lines counted before anything fails."""

    def __init__(
        self,
        broker: Broker,
        name: str,
        directory: Path,
        topology: Callable[[str], Topology] = word_count,
        **settings: Any,
    ) -> None:
        self.world = Counted(broker.connection, topology(name))
        self.checkpoint = directory / "checkpoint"
        self.stream = StreamProcess(
            f"{topology.__module__}:{topology.__name__}", name, broker.bootstrap_servers, directory / "own",
            self.checkpoint, **settings,
        )  # fmt: skip
        self.world.send(*_lines(40))

    def count_live(self) -> None:
        """Have more lines counted, in real time."""
        self.stream.until_running()
        self.world.send(*_lines(40))
        self.until_counted()

    def until_counted(self) -> None:
        """Wait until all is counted, and check every record."""
        self.world.until_counted(words_in)

    def until_committed(self) -> None:
        """Wait until the checkpoint has all that was counted."""
        source, source_id = self.world.source, self.world.source_id
        ends = {f"{source} {line.partition}": 0 for line in self.world.lines}
        for line in self.world.lines:
            if line.topic_id == source_id:
                place = f"{source} {line.partition}"
                ends[place] = max(ends[place], line.offset + 1)
        self.stream.until(lambda status: status["positions"] == ends, f"{ends} is committed")

    def begin_again(self, change: Callable[[], None]) -> None:
        """Kill the JVM, change something before the stream has noticed, and let it go on."""
        jvm = self.stream.jvm
        assert jvm is not None
        self.stream.freeze()
        jvm.kill()
        change()
        failures = sum(self.stream.status["failures"].values())
        self.stream.thaw()
        self.stream.until(lambda status: sum(status["failures"].values()) > failures, "it has noticed")

    @property
    def query(self) -> Path:
        """Spark's checkpoint of the only generation."""
        (query,) = self.checkpoint.glob("counts-store-v1/generation-*/query")
        return query

    @property
    def generations(self) -> set[int]:
        """The generations whose results are published."""
        return {int(dict(record.headers)["generation"]) for record in self.world.records()}


@pytest.mark.system
def test_what_came_after_the_last_commit_counts_once_when_the_jvm_is_killed(broker: Broker, tmp_path: Path) -> None:
    scene = Scene(broker, "killed", tmp_path)
    with running(scene.stream) as stream:
        scene.count_live()
        stream.kill_jvm()
        scene.world.send(*_lines(40))
        scene.until_counted()
        scene.count_live()
        stream.stop()
    assert scene.generations == {1}


@pytest.mark.system
def test_no_count_is_wrong_when_the_checkpoint_is_lost(broker: Broker, tmp_path: Path) -> None:
    scene = Scene(broker, "lost", tmp_path)
    with running(scene.stream):
        scene.count_live()
    shutil.rmtree(scene.checkpoint)
    scene.world.send(*_lines(40))
    with running(scene.stream) as stream:
        scene.until_counted()
        scene.count_live()
        assert stream.status["generation"] == 2
        stream.stop()
    assert scene.generations == {1, 2}


def _offsets(query: Path) -> None:
    shutil.rmtree(query / "offsets")


def _commits(query: Path) -> None:
    shutil.rmtree(query / "commits")


def _state(query: Path) -> None:
    shutil.rmtree(query / "state")


def _a_state_partition(query: Path) -> None:
    shutil.rmtree(query / "state" / "0" / "1")


def _all_of_the_query(query: Path) -> None:
    shutil.rmtree(query)


def _manifest(query: Path) -> None:
    (query.parent / "generation.json").unlink()


def _newest(directory: Path) -> Path:
    return max((path for path in directory.iterdir() if path.name.isdecimal()), key=lambda path: int(path.name))


def _newest_commit(query: Path) -> None:
    _newest(query / "commits").unlink()


def _newest_offsets(query: Path) -> None:
    _newest(query / "offsets").unlink()


def _newest_batch(query: Path) -> None:
    _newest_commit(query)
    _newest_offsets(query)


@pytest.mark.parametrize(
    "losses",
    [
        pytest.param((_offsets, _all_of_the_query), id="logs", marks=pytest.mark.faults),
        pytest.param((_commits, _state, _a_state_partition, _manifest), id="state", marks=pytest.mark.faults),
        pytest.param((_newest_commit, _newest_offsets, _newest_batch), id="newest", marks=pytest.mark.faults),
    ],
)
def test_no_count_is_wrong_when_a_part_of_the_checkpoint_is_lost(
    broker: Broker, tmp_path: Path, losses: tuple[Callable[[Path], None], ...], request: pytest.FixtureRequest
) -> None:
    scene = Scene(broker, f"parts-{request.node.callspec.id}", tmp_path, interval_s=SHORT_S)
    with running(scene.stream) as stream:
        for lose in losses:
            scene.count_live()
            scene.until_committed()
            # Nothing can be counted again: what is lost of the state has to come from what is published.
            scene.world.take(but_last=0 if lose not in (_newest_commit, _newest_batch) else 40)
            query = scene.query
            scene.begin_again(lambda lose=lose, query=query: lose(query))  # type: ignore[misc]
            scene.world.send(*_lines(20))
            scene.until_counted()
        stream.stop()


@pytest.mark.faults
def test_a_backlog_that_is_interrupted_under_a_seed_counts_once(broker: Broker, tmp_path: Path) -> None:
    scene = Scene(broker, "backlog", tmp_path, offsets_per_batch=1_500)
    with running(scene.stream):
        scene.count_live()
    shutil.rmtree(scene.checkpoint)
    scene.world.send(*_lines(15_000))
    with running(scene.stream) as stream:
        is_amid = {"state": "catching up", "generation": 2}
        stream.until(
            lambda status: is_amid.items() <= status.items() and status["events"] > 0, "it is amid the backlog"
        )
        stream.kill_jvm()
        assert stream.status["events"] < 15_000
        scene.until_counted()
        scene.count_live()
        stream.stop()
    assert scene.generations == {1, 2}, "it went on where it had been"


@pytest.mark.faults
def test_events_of_a_source_that_is_created_anew_are_new_and_old_counts_stay(broker: Broker, tmp_path: Path) -> None:
    scene = Scene(broker, "anew", tmp_path)
    first = scene.world.source_id
    with running(scene.stream) as stream:
        scene.count_live()
        scene.world.begin_anew()
        # The same partitions and offsets as before: by them alone these lines would have been counted.
        scene.world.send(*_lines(30))
        scene.until_counted()
        assert stream.until_running()["generation"] == 2
        scene.count_live()
        last = {record.key: record for record in scene.world.records()}[b"a"]
        assert {first, scene.world.source_id} <= set(_offsets_of(last))

        # And once more, with more partitions, and nothing in between.
        scene.world.topics.grow(scene.world.source, 5)
        scene.world.send(*_lines(50))
        scene.until_counted()
        assert stream.until_running()["generation"] == 3
        scene.count_live()
        stream.stop()
    last = {record.key: record for record in scene.world.records()}[b"a"]
    assert set(_offsets_of(last)[scene.world.source_id]) == {"0", "1", "2", "3", "4"}


@pytest.mark.system
def test_after_a_generation_that_ended_amid_its_seed_another_one_begins(broker: Broker, tmp_path: Path) -> None:
    scene = Scene(broker, "amid", tmp_path)
    with running(scene.stream):
        scene.count_live()
    # It has published one result, and was killed before it counted: copies take none of the first for that key.
    last = {record.key: record for record in scene.world.records()}[b"a"]
    made = {name: json.loads(said) for name, said in last.headers} | {"generation": 2}
    scene.world.publish(scene.world.topology.stores[0], [("a", last.value, made)])
    (scene.checkpoint / "counts-store-v1" / "generation-2").write_text("0a1b2c3d")
    (scene.checkpoint / "counts-store-v1" / "generation-2-0a1b2c3d" / "query").mkdir(parents=True)
    with running(scene.stream) as stream:
        assert stream.until_running()["generation"] == 3
        scene.count_live()
        stream.stop()


@pytest.mark.system
def test_events_of_a_partition_that_is_added_count_once_where_a_batch_reads_it_before_anybody_knows(
    broker: Broker, tmp_path: Path
) -> None:
    scene = Scene(broker, "grown", tmp_path, word_count_each_second)
    with running(scene.stream) as stream:
        scene.count_live()
        added = scene.world.topics.partitions(scene.world.source)
        scene.world.topics.grow(scene.world.source, added + 1)
        # Until a generation begins that knows of it; batches come each second until then.
        while stream.status["generation"] == 1:
            scene.world.send(*_lines(10), partition=added)
        scene.until_counted()
        scene.count_live()
        stream.stop()


@pytest.mark.faults
def test_retention_takes_no_count_away_and_makes_none_double(broker: Broker, tmp_path: Path) -> None:
    scene = Scene(broker, "retention", tmp_path)
    world = scene.world
    with running(scene.stream):
        scene.count_live()
    # 1. Events that were read are gone, and so is the checkpoint.
    world.take()
    shutil.rmtree(scene.checkpoint)
    with running(scene.stream) as stream:
        scene.count_live()
        assert stream.status["generation"] == 2
    # 2. The checkpoint is behind what is published, and some of the events behind it were never read.
    unread = world.send(*_lines(60))
    world.take(unread=unread, but_last=8)
    assert len(world.lines) == 40 + 40 + 40 + 3 * 8
    with running(scene.stream) as stream:
        scene.until_counted()
        assert stream.until_running()["generation"] == 3
        scene.count_live()
        stream.stop()
    assert "and was read to" in stream.log


@pytest.mark.faults
def test_a_result_topic_with_nothing_that_can_be_used_is_no_seed(broker: Broker, tmp_path: Path) -> None:
    scene = Scene(broker, "garbage", tmp_path)
    (store,) = scene.world.topology.stores
    made = {"generation": 4, "offsets": {}}
    scene.world.publish(
        store, [("x", b"{", made), ("y", None, {}), ("z", b'{"count":1}', {}), ("v", b'{"count":null}', made)]
    )
    with running(scene.stream) as stream:
        scene.count_live()
        stream.stop()


def _offsets_of(record: Any) -> dict[str, dict[str, int]]:
    offsets: dict[str, dict[str, int]] = json.loads(dict(record.headers)["offsets"])
    return offsets

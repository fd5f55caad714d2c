"""Windows on a real broker and real Spark: exact whatever fails, whatever the times of the events are."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from app.java.broker import Broker
from runtime import Topology
from tests.drivers.counted import Counted
from tests.drivers.stream_process import SHORT_S, StreamProcess, running
from tests.drivers.word_topologies import (
    WORDS_WINDOW,
    tumbling_of,
    windows_of,
    words_in_tumbling_windows,
    words_in_windows,
)
from tests.waiting import wait_until

_CHANCE = random.Random(20261126)
_DAY_MS = 86_400_000
_TOO_LATE_MS = WORDS_WINDOW.size_ms + WORDS_WINDOW.keep_ms


class Scene:
    """Words in windows, on topics and in directories of their own."""

    def __init__(
        self,
        broker: Broker,
        name: str,
        directory: Path,
        made: Callable[[str], Topology] = words_in_windows,
        counts: Callable[[str], Counter[str]] = windows_of,
        interval_s: int = SHORT_S,
    ) -> None:
        self.world = Counted(broker.connection, made(name))
        self.counts = counts
        self.checkpoint = directory / "checkpoint"
        self.stream = StreamProcess(
            f"tests.drivers.word_topologies:{made.__name__}", name, broker.bootstrap_servers, directory / "own",
            self.checkpoint, interval_s=interval_s,
        )  # fmt: skip

    def send(self, lines: int, back_ms: int = 0, partition: int | None = None) -> None:
        """Send lines of the last seconds before now, or of as long before that, out of order."""
        now_ms = int(time.time() * 1000) - back_ms
        for _ in range(lines):
            at_ms = now_ms - _CHANCE.randrange(8_000)
            words = " ".join(_CHANCE.choices([*"abc", "ü@ü"], k=3))
            where = _CHANCE.randrange(3) if partition is None else partition
            self.world.send(f"{at_ms} {words}", partition=where, at_ms=at_ms)

    def send_until_told(self) -> None:
        """Send lines, and wait until stream time is told by them."""
        self.send(10)
        began_ms = int(time.time() * 1000)
        wait_until(lambda: self.stream_ms > began_ms - 8_000, "stream time is told")

    def send_late(self) -> None:
        """Send a line whose windows are let go already."""
        late_ms = self.stream_ms - _TOO_LATE_MS - 1_000
        before = list(self.world.lines)
        self.world.send(f"{late_ms} late", at_ms=late_ms)
        self.world.lines = before

    def until_counted(self) -> None:
        """Wait until each window of each word has its count, and check every record."""
        self.world.until_counted(self.counts)

    @property
    def stream_ms(self) -> int:
        """The stream time that was told."""
        return self.world.told_ms()


@pytest.mark.system
def test_windows_are_exact_when_partitions_are_days_apart_and_the_checkpoint_is_lost(
    broker: Broker, tmp_path: Path
) -> None:
    scene = Scene(broker, "apart", tmp_path)
    for partition, days in enumerate([0, 3, 1]):
        scene.send(15, back_ms=days * _DAY_MS, partition=partition)
    with running(scene.stream) as stream:
        stream.until_running()
        scene.until_counted()
        scene.send(15)
        scene.until_counted()
        stream.kill_jvm()
        scene.send(15)
        scene.until_counted()
        assert stream.status["generation"] == 1
    shutil.rmtree(scene.checkpoint)
    scene.send(15)
    with running(scene.stream) as stream:
        scene.until_counted()
        stream.until_running()
        scene.send(15)
        scene.until_counted()
        assert stream.status["generation"] == 2
        assert stream.status["late"] == 0
        # Of the generation before, the windows were let go.
        scene.send_late()
        stream.until(lambda status: status["late"] == 2, "both windows of the late line are passed over")
        scene.send(1)
        scene.until_counted()
        stream.stop()


@pytest.mark.system
def test_no_window_is_late_when_the_first_batch_of_a_backlog_is_read_again(broker: Broker, tmp_path: Path) -> None:
    scene = Scene(broker, "read-again", tmp_path, interval_s=600)
    for partition, days in enumerate([0, 3, 1]):
        scene.send(15, back_ms=days * _DAY_MS, partition=partition)
    with running(scene.stream) as stream:
        stream.until_running()
        scene.until_counted()
    # As after a kill between a batch's results and its commit.
    for commits in scene.checkpoint.rglob("commits"):
        shutil.rmtree(commits)
    for partition, days in enumerate([0, 3, 1]):
        scene.send(15, back_ms=days * _DAY_MS, partition=partition)
    with running(scene.stream) as stream:
        scene.until_counted()
        stream.until_running()
        assert stream.status["generation"] == 2
        stream.stop()


@pytest.mark.system
def test_windows_that_are_kept_for_longer_move_no_time(broker: Broker, tmp_path: Path) -> None:
    scene = Scene(broker, "longer", tmp_path)
    with running(scene.stream) as stream:
        stream.until_running()
        scene.send_until_told()
        stream.stop()
    told_ms = scene.stream_ms
    longer = replace(scene.stream, topology="tests.drivers.word_topologies:words_in_windows_kept_longer")
    with running(longer) as stream:
        stream.until_running()
        for _ in range(3):
            # A batch after the other: Spark's bound stands where it stood until an hour has gone by.
            done = stream.status["events"]
            scene.send(1)
            stream.until(lambda status, done=done: status["events"] > done, "a batch has ended")  # type: ignore[misc]
        scene.until_counted()
        assert scene.stream_ms == told_ms
        stream.stop()
    with running(scene.stream) as stream:
        stream.until_running()
        scene.send(10)
        wait_until(lambda: scene.stream_ms > told_ms, "stream time is told again")
        assert scene.stream_ms <= int(time.time() * 1000)
        scene.until_counted()
        stream.stop()


@pytest.mark.system
@pytest.mark.parametrize(
    ("made", "counts", "windows"), [(words_in_windows, windows_of, 2), (words_in_tumbling_windows, tumbling_of, 1)]
)
def test_a_row_that_comes_after_its_window_was_let_go_is_passed_over_and_reported(
    broker: Broker,
    tmp_path: Path,
    made: Callable[[str], Topology],
    counts: Callable[[str], Counter[str]],
    windows: int,
) -> None:
    scene = Scene(broker, f"late-{windows}", tmp_path, made, counts)
    with running(scene.stream) as stream:
        stream.until_running()
        scene.send_until_told()
        scene.send_late()
        # As it lies beside the late one, it is counted after that was looked at.
        scene.send(1, partition=0)
        stream.until(lambda status: status["late"] == windows, "each window of the late line is passed over")
        scene.until_counted()
        assert not any(key.startswith("late@") for key in scene.world.counts())
        stream.stop()


@pytest.mark.system
def test_a_record_of_next_year_ends_no_window_and_is_a_dead_letter(broker: Broker, tmp_path: Path) -> None:
    scene = Scene(broker, "future", tmp_path)
    # As some brokers are set, and all were before Kafka 3.6.
    scene.world.topics.configure(scene.world.source, **{"message.timestamp.after.max.ms": str(2**63 - 1)})
    scene.send(10)
    next_year_ms = int(time.time() * 1000) + 366 * _DAY_MS

    def send_one_of_next_year() -> None:
        lines = list(scene.world.lines)
        scene.world.send(f"{next_year_ms} never", at_ms=next_year_ms)
        scene.world.lines = lines

    send_one_of_next_year()
    with running(scene.stream) as stream:
        stream.until_running()
        scene.until_counted()
        send_one_of_next_year()
        scene.send(10)
        stream.until(lambda status: sum(status["dead_letters"].values()) == 2, "both are dead letters")
        scene.send(10)
        scene.until_counted()
        assert scene.stream_ms < next_year_ms
        assert stream.status["late"] == 0
        stream.stop()

"""Two drivers on one checkpoint, as when one was frozen while another took over: no count is wrong, and one stops."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from app.java.broker import Broker
from tests.drivers.counted import Counted
from tests.drivers.stream_process import SHORT_S, StreamProcess, running
from tests.drivers.word_topologies import word_count, words_in

_LINES = ("hello world", "hello kafka streams", "kafka summit kafka")


def _driver(broker: Broker, name: str, directory: Path, own: str, interval_s: int) -> StreamProcess:
    return StreamProcess(
        "tests.drivers.word_topologies:word_count", name, broker.bootstrap_servers, directory / own,
        directory / "checkpoint", interval_s,
    )  # fmt: skip


def _until_superseded(stream: StreamProcess) -> int:
    """Wait until a stream has found that another driver works on its checkpoint; return how much it has said so far."""
    stream.until(lambda status: "another driver" in (status["error"] or ""), "it has found the other driver")
    return len(stream.statuses)


def _files(checkpoint: Path) -> set[Path]:
    return {path for path in checkpoint.rglob("*") if path.name.isdecimal() or path.name.startswith("driver-")}


@pytest.mark.faults
def test_of_two_drivers_on_one_generation_the_lower_one_stops_for_good(broker: Broker, tmp_path: Path) -> None:
    world = Counted(broker.connection, word_count("two"))
    world.send(*_LINES * 5)
    # Short batches: while both run, both commit.
    first, second = (_driver(broker, "two", tmp_path, own, interval_s=SHORT_S) for own in ("first", "second"))
    with running(first):
        # The second would have it stop before it has begun.
        first.until_running()
        with running(second):
            for number in range(200):
                world.send(f"both {number}", *_LINES, partition=number % 3)
                if second.status.get("state") == "running" and "another driver" in (first.status["error"] or ""):
                    break
            said = _until_superseded(first)
            second.until_running()
            # Long enough for the first to come back by itself, if it did: the second commits several times.
            before = second.status["events"]
            world.send(*_LINES * 10)
            second.until(lambda status: status["events"] >= before + 30, "the second goes on")
            world.until_counted(words_in)
            there = _files(tmp_path / "checkpoint")
            first.stop()
            assert _files(tmp_path / "checkpoint") >= there, "the first has deleted nothing"
            assert {status["state"] for status in first.statuses[said:]} <= {"error", "stopping", "stopped"}
            assert "another driver" not in (second.status["error"] or "")
            world.send(*_LINES)
            world.until_counted(words_in)
            second.stop()


@pytest.mark.faults
def test_a_driver_that_was_frozen_while_another_began_a_generation_stops(broker: Broker, tmp_path: Path) -> None:
    world = Counted(broker.connection, word_count("frozen"))
    world.send(*_LINES * 5)
    first, second = (_driver(broker, "frozen", tmp_path, own, interval_s=600) for own in ("first", "second"))
    with running(first):
        first.until_running()
        world.send(*_LINES)
        world.until_counted(words_in)
        first.freeze()
        shutil.rmtree(tmp_path / "checkpoint")
        world.send("while frozen", *_LINES)
        with running(second):
            assert second.until_running()["generation"] == 2
            world.until_counted(words_in)
            there = _files(tmp_path / "checkpoint")
            first.thaw()
            said = _until_superseded(first)
            # What both have written by now is merged by every reader, whatever comes first.
            world.send(*_LINES * 3)
            world.until_counted(words_in)
            assert _files(tmp_path / "checkpoint") >= there, "the first has deleted nothing"
            assert not first.statuses[said:]
            assert second.status["state"] == "running"
            assert not second.status["failures"]
            second.stop()
        first.stop()
    assert {int(dict(record.headers)["generation"]) for record in world.records()} == {1, 2}

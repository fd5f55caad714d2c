"""At a pace, on a real broker and real Spark: a key is written at most once an interval, and counts are exact."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.java.broker import Broker
from tests.drivers.counted import Counted
from tests.drivers.stream_process import StreamProcess, running
from tests.drivers.word_topologies import word_count_each_second, words_in
from tests.waiting import wait_until

SOME = 4


@pytest.mark.system
def test_a_count_is_written_at_most_once_a_second_and_goes_on_from_its_checkpoint(
    broker: Broker, tmp_path: Path
) -> None:
    world = Counted(broker.connection, word_count_each_second("paced"))
    stream = StreamProcess(
        "tests.drivers.word_topologies:word_count_each_second", "paced", broker.bootstrap_servers, tmp_path / "own",
        tmp_path / "checkpoint",
    )  # fmt: skip
    with running(stream):
        stream.until_running()
        world.send("often")

        def written() -> list[int]:
            return [record.timestamp for record in world.records() if record.key == b"often"]

        def is_seen_to_change() -> bool:
            world.send(*["often often", "often", "often"] * 20)
            return len(written()) >= SOME

        wait_until(is_seen_to_change, "a count is written while events come")
        world.send_unusable(b"\xff")
        world.until_counted(words_in)
        at_ms = written()
        assert len(at_ms) <= (at_ms[-1] - at_ms[0]) / 1000 + 2, "at most one batch begins in each second"
        assert len(world.lines) > 5 * len(at_ms), "it was busy"
        stream.until(lambda status: status["events"] == len(world.lines) + 1, "each event is reported")
        stream.until(lambda status: sum(status["dead_letters"].values()) == 1, "the dead letter is written")
        assert sum(stream.status["positions"].values()) == len(world.lines) + 1
        stream.kill()
    world.send("often", "meanwhile")
    with running(stream):
        stream.until_running()
        world.until_counted(words_in)
        world.send("often", "afterwards")
        world.until_counted(words_in)
        assert stream.status["generation"] == 1, "it went on on its checkpoint"
        stream.stop()

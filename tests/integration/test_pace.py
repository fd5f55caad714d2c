"""At a pace, on a real broker and real Spark: a key is written at most once an interval, and counts are exact."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.java.broker import Broker
from tests.drivers.counted import Counted
from tests.drivers.stream_process import StreamProcess, running
from tests.drivers.word_topologies import word_count_each_second, words_in
from tests.waiting import wait_until

SOME = 4


def begins_of_batches(checkpoint: Path) -> Iterator[int]:
    """Yield when each batch began, as Spark has noted it; in milliseconds from 1970."""
    for offsets in checkpoint.glob("**/offsets/[0-9]*"):
        _, metadata, *_ = offsets.read_text().splitlines()
        yield json.loads(metadata)["batchTimestampMs"]


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

        def written() -> list[Any]:
            return [record for record in world.records() if record.key == b"often"]

        def is_seen_to_change() -> bool:
            world.send(*["often often", "often", "often"] * 20)
            return len(written()) >= SOME

        wait_until(is_seen_to_change, "a count is written while events come")
        world.send_unusable(b"\xff")
        world.until_counted(words_in)
        begun_ms = sorted(begins_of_batches(tmp_path / "checkpoint"))
        # The first one may have begun late, and the one after it in its second.
        assert len(begun_ms) <= begun_ms[-1] // 1000 - begun_ms[0] // 1000 + 2, "at most one begins in each second"
        assert SOME <= len(written()) <= len(begun_ms), "a key is written once a batch"
        assert len(world.lines) > 5 * len(begun_ms), "it was busy"
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

"""One aggregate of two topics together, on a real broker and real Spark: exact in real time and after faults."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from app.java.broker import Broker
from tests.drivers.counted import Counted
from tests.drivers.stream_process import SHORT_S, StreamProcess, running
from tests.drivers.topic_reader import read_topic
from tests.drivers.word_topologies import word_count_of_two_sources, words_in


@pytest.mark.system
def test_two_sources_are_counted_as_one_and_each_has_its_offsets_and_dead_letters(
    broker: Broker, tmp_path: Path
) -> None:
    world = Counted(broker.connection, word_count_of_two_sources("two-sources"))
    first, second = world.topology.source_topics
    stream = StreamProcess(
        "tests.drivers.word_topologies:word_count_of_two_sources", "two-sources", broker.bootstrap_servers,
        tmp_path / "own", tmp_path / "checkpoint", interval_s=SHORT_S,
    )  # fmt: skip
    world.send("a b", "both a")
    world.send("a", "both c", "rare", topic=second)
    with running(stream):
        stream.until_running()
        world.until_counted(words_in)
        for number in range(3):
            world.send(f"a live{number}")
            world.send(f"a live{number} once{number}", topic=second)
            world.until_counted(words_in)
        world.send_unusable(b"\xff", None)
        world.send_unusable(b"\xfe", partition=1, topic=second)
        stream.until(lambda status: sum(status["dead_letters"].values()) == 3, "the dead letters are written")
        assert [record.value for record in read_topic(broker.connection, f"{first}-invalid")] == [b"\xff", None]
        assert [record.value for record in read_topic(broker.connection, f"{second}-invalid")] == [b"\xfe"]
        assert stream.status["positions"].keys() == {*(f"{first} {p}" for p in range(3)), f"{second} 0", f"{second} 1"}
        stream.kill()
    # What came after the last commit is read again, of both.
    world.send("a meanwhile")
    world.send("meanwhile", topic=second)
    with running(stream):
        stream.until_running()
        world.until_counted(words_in)
        assert stream.status["generation"] == 1
        stream.kill()
    shutil.rmtree(tmp_path / "checkpoint")
    world.send("a afterwards", topic=second)
    with running(stream):
        stream.until_running()
        world.send("a afterwards live")
        world.until_counted(words_in)
        assert stream.status["generation"] == 2
        stream.stop()
    assert len(read_topic(broker.connection, f"{first}-invalid")) == 2, "each once, however often it is read"

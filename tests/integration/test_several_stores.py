"""Several stores in one topology: each has its query, its checkpoint and its generations, in one session of Spark."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from app.java.broker import Broker
from tests.drivers.counted import Counted
from tests.drivers.stream_process import SHORT_S, StreamProcess, running
from tests.drivers.word_topologies import letters_in, words_and_letters, words_in

_LINES = ("Hello world", "hello kafka streams", "kafka summit kafka", "a/b 😀 b")


@pytest.mark.system
def test_each_store_is_exact_and_a_failure_in_one_stops_no_other(broker: Broker, tmp_path: Path) -> None:
    world = Counted(broker.connection, words_and_letters("stores"))
    words, letters = world.topology.stores
    checkpoint = tmp_path / "checkpoint"
    stream = StreamProcess(
        "tests.drivers.word_topologies:words_and_letters", "stores", broker.bootstrap_servers, tmp_path / "own",
        checkpoint, interval_s=SHORT_S,
    )  # fmt: skip

    def count_all() -> None:
        world.send(*_LINES * 3)
        world.until_counted(words_in, words)
        world.until_counted(letters_in, letters)

    world.send(*_LINES * 5)
    with running(stream):
        stream.until_running()
        count_all()
        assert {path.name for path in checkpoint.iterdir()} == {"counts-store-v1", "letters-store-v1"}

        # 1. The checkpoint of one cannot be used.
        of_letters = checkpoint / "letters-store-v1"
        jvm = stream.jvm
        stream.freeze()
        shutil.rmtree(of_letters)
        of_letters.write_text("no directory")
        stream.thaw()
        stream.until(lambda status: sum(status["failures"].values()) >= 4, "one fails, again and again")
        world.send(*_LINES * 3)
        world.until_counted(words_in, words)
        assert stream.status["state"] != "running"
        assert stream.jvm == jvm, "the session is shared: it goes on for the others"
        assert world.difference(letters_in, letters)
        of_letters.unlink()
        world.until_counted(letters_in, letters)
        stream.until_running()

        # 2. The result topic of the other one is deleted: it is made again, by whoever writes it, and all is counted.
        world.topics.delete(words.topic)
        world.send(*_LINES)
        world.until_counted(letters_in, letters)
        world.until_counted(words_in, words)
        stream.until_running()

        # 3. The JVM, and so both.
        world.send(*_LINES)
        stream.kill_jvm()
        count_all()
        stream.until_running()
        count_all()
        stream.stop()
    assert {int(dict(record.headers)["generation"]) for record in world.records(letters)} == {1, 2}

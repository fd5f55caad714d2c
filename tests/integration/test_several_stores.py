"""Several stores in one topology: each has its query, its checkpoint and its generations, in one session of Spark.

Or one query makes the rows of two.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from app.java.broker import Broker
from runtime import Store
from runtime.kafka.partitioner import partition_by_part, partition_for
from tests.drivers.counted import Counted, Weigh
from tests.drivers.stream_process import SHORT_S, StreamProcess, running
from tests.drivers.word_topologies import (
    kinds_in,
    letters_in,
    products_alone,
    products_and_kinds,
    products_in,
    words_and_letters,
    words_in,
)

_LINES = ("Hello world", "hello kafka streams", "kafka summit kafka", "a/b 😀 b")


def _count(world: Counted, lines: Sequence[str], stores: Mapping[Weigh, Store]) -> None:
    """Send lines, and wait until every store has counted them."""
    world.send(*lines)
    for weigh, store in stores.items():
        world.until_counted(weigh, store)


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
        _count(world, _LINES * 3, {words_in: words, letters_in: letters})

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


_PURCHASES = ("7 red", "7 red blue red", "12 red", "7 any kind", "-3 blue any")


def test_rows_that_one_query_makes_for_two_stores_are_exact_in_both(broker: Broker, tmp_path: Path) -> None:
    world = Counted(broker.connection, products_and_kinds("beside"))
    products, kinds = world.topology.stores
    checkpoint = tmp_path / "checkpoint"
    # Of when the other store had a query of its own.
    (checkpoint / "kinds-store-v1" / "generation-4").mkdir(parents=True)

    def running_as(topology: str) -> StreamProcess:
        return StreamProcess(
            f"tests.drivers.word_topologies:{topology}", "beside", broker.bootstrap_servers, tmp_path / "own",
            checkpoint, interval_s=SHORT_S,
        )  # fmt: skip

    def count_both() -> None:
        _count(world, _PURCHASES * 3, {products_in: products, kinds_in: kinds})

    world.send(*_PURCHASES * 5)
    with running(running_as("products_and_kinds")) as stream:
        stream.until_running()
        count_both()
        assert [path.name for path in checkpoint.iterdir()] == ["products-store-v1"]
        for record in world.records(products):
            assert record.partition == partition_for(int(record.key), products.partitions)
        for record in world.records(kinds):
            assert record.partition == partition_by_part(int(record.key.partition(b"/")[0]), kinds.partitions)

        # 1. One of the topics is deleted.
        world.topics.delete(kinds.topic)
        count_both()
        stream.until_running()
        stream.kill()

    # 2. The checkpoint is lost, and what was read is gone: the rows of both are in what is published.
    shutil.rmtree(checkpoint)
    world.take()
    with running(running_as("products_and_kinds")) as stream:
        stream.until_running()
        count_both()
        stream.stop()

    # 3. Without the one, and with it again: it has what was sent meanwhile.
    world.topology = products_alone("beside")
    with running(running_as("products_alone")) as stream:
        stream.until_running()
        world.send(*_PURCHASES)
        world.until_counted(products_in, products)
        stream.stop()
    with running(running_as("products_and_kinds")) as stream:
        stream.until_running()
        count_both()
        stream.stop()
    assert {int(dict(record.headers)["generation"]) for record in world.records(products)} == {1, 2, 3, 4, 5}

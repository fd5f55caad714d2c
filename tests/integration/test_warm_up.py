"""A stream thread that is kept warm for a take-over: nobody sees anything of it, and it begins at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from app.java.broker import Broker
from runtime.declaration import Topology
from runtime.kafka.ids import topic_ids
from runtime.kafka.offsets import topic_offsets
from runtime.stream.status import StreamState
from runtime.stream.thread import StreamThread
from tests.drivers.counted import Counted
from tests.drivers.stream_threads import SmallTables, settings_of
from tests.drivers.word_topologies import (
    letters_in,
    word_count,
    word_count_each_second,
    words_and_letters,
    words_in,
)
from tests.waiting import wait_until

_LINES = ("hello world", "hello kafka streams", "kafka summit kafka")


def _thread(broker: Broker, directory: Path, world: Counted) -> StreamThread:
    directory.mkdir(exist_ok=True)
    return StreamThread(settings_of(directory, broker.connection, world.topology), SmallTables(broker.connection))


@pytest.mark.system
@pytest.mark.parametrize(
    ("declared", "lines"), [(word_count, 20), (word_count_each_second, 20), (words_and_letters, 20), (word_count, 0)]
)
def test_warming_up_publishes_nothing_and_leaves_nothing(
    broker: Broker, tmp_path: Path, declared: Callable[[str], Topology], lines: int
) -> None:
    world = Counted(broker.connection, declared(f"warm-{declared.__name__.replace('_', '-')}-{lines}"))
    if lines:
        world.send(*_LINES * lines)
    thread = _thread(broker, tmp_path, world)
    thread.prepare()
    thread.warm_up()
    try:
        wait_until(lambda: thread.warm, "it is warm")
        assert thread.status.state is StreamState.CREATED
        assert not (tmp_path / "checkpoint").exists()
        assert [path for path in (tmp_path / "work" / "warm-up").rglob("*") if path.is_file()] == []
        assert _published(broker, world) == 0
        world.send(*_LINES)
        thread.start()
        world.until_counted(words_in, world.topology.stores[0])
        for letters in world.topology.stores[1:]:
            world.until_counted(letters_in, letters)
        assert not thread.warm
    finally:
        thread.request_stop()
        thread.join()


def _published(broker: Broker, world: Counted) -> int:
    names = [store.topic for store in world.topology.stores]
    topics = asyncio.run(topic_ids(broker.connection, names))
    offsets = [asyncio.run(topic_offsets(broker.connection, name, topics[name].partitions)) for name in names]
    return sum(sum(each.end.values()) for each in offsets)

"""Word count on a real broker and real Spark: what a reader of the result topic sees."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from app.java.broker import Broker
from tests.drivers.counted import Counted
from tests.drivers.stream_process import SHORT_S, StreamProcess, running
from tests.drivers.topic_reader import read_topic
from tests.drivers.word_topologies import last_lines, word_count, words_in
from tests.waiting import wait_until

ODD_WORDS = ("a/b", "c//d/", "me@example.org", "@", "😀", "naïve", '{"x":1}', "50%", "%2f", "-", "key=1&b", "日本語")


def _stream(broker: Broker, name: str, directory: Path, topology: str = "word_count", **settings: Any) -> StreamProcess:
    return StreamProcess(
        f"tests.drivers.word_topologies:{topology}", name, broker.bootstrap_servers, directory / "own",
        directory / "checkpoint", **settings,
    )  # fmt: skip


def test_words_are_counted_and_each_change_of_a_count_is_a_record_at_once(broker: Broker, tmp_path: Path) -> None:
    world = Counted(broker.connection, word_count("first"))
    world.send("hello world", "hello kafka streams", "kafka summit kafka")
    with running(_stream(broker, "first", tmp_path)) as stream:
        stream.until_running()
        world.until_counted(words_in)
        assert world.counts() == {"hello": 2, "world": 1, "kafka": 3, "streams": 1, "summit": 1}
        # The batch in real time is ten minutes long: nothing waits for its end.
        # One after another, since lines that wait when a query begins may be counted together.
        for times in range(3):
            world.send(f"again AGAIN {times}", partition=times)
            world.until_counted(words_in)
        world.send("", "   \t ", f"{' '.join(ODD_WORDS)}  {ODD_WORDS[0]}", partition=1)
        world.send_unusable(b"\xff\xfe", None, b"ok \xc3", partition=2)
        world.send("last", partition=2)
        world.until_counted(words_in)
        status = stream.status
        stream.stop()

    said = [json.loads(record.value)["count"] for record in world.records() if record.key == b"again"]
    assert said == [2, 4, 6], "each change is a record"
    assert world.counts()["a/b"] == 2
    assert set(world.counts()) >= {*ODD_WORDS, "again", "last"}
    (record,) = (record for record in world.records() if record.key == "😀".encode())
    headers = dict(record.headers)
    assert headers["generation"] == b"1"
    assert headers["version"] == b"1"
    assert headers["events"] == b"1"
    assert list(json.loads(headers["offsets"])) == [world.source_id]
    assert abs(int(headers["newest_ms"]) - record.timestamp) < 60_000
    assert not status["error"]


def test_a_result_of_more_than_a_megabyte_is_published_like_any_other(broker: Broker, tmp_path: Path) -> None:
    world = Counted(broker.connection, last_lines("large"))
    lines = [f"a{number:04}{'x' * 1_500}" for number in range(1_000)]
    world.send(*lines, partition=0)
    with running(_stream(broker, "large", tmp_path, "last_lines")) as stream:
        stream.until_running()
        world.send("a last one", partition=0)
        # With the 999 before it: more than Kafka takes by default.
        wait_until(lambda: b"a last one" in world.records()[-1].value, "the last line comes", every_s=0.2)
        assert not stream.status["failures"]
        stream.stop()
    (*_, largest) = world.records()
    assert len(largest.value) > 1_500_000


@pytest.mark.faults
def test_what_cannot_be_used_is_a_dead_letter_once_however_often_it_is_read(broker: Broker, tmp_path: Path) -> None:
    world = Counted(broker.connection, word_count("letters"))
    world.send_unusable(b"\xff", None)
    with running(_stream(broker, "letters", tmp_path, interval_s=SHORT_S)) as stream:
        stream.until_running()
        _until_letters(world, 2, stream)
        world.send_unusable(b"ok \xc3")
        world.send("read again")
        world.until_counted(words_in)
        stream.kill_jvm()
        _until_letters(world, 3, stream)
        stream.until_running()
        world.send("to the end")
        world.until_counted(words_in)
        stream.stop()
    assert [letter.value for letter in _letters(world)] == [b"\xff", None, b"ok \xc3"]
    assert [dict(letter.headers)["reason"] for letter in _letters(world)] == [b"not UTF-8", b"no value", b"not UTF-8"]


@pytest.mark.system
def test_rows_of_a_source_partition_reach_each_reducer_in_their_order(broker: Broker, tmp_path: Path) -> None:
    # What exactness rests on: a record that says "up to this offset" has counted all before it.
    world = Counted(broker.connection, word_count("order"))
    words, chance = [f"w{number}" for number in range(12)], random.Random(5)
    with running(_stream(broker, "order", tmp_path)) as stream:
        stream.until_running()
        for burst in range(8):
            lines = [" ".join(chance.choices(words, k=3)) for _ in range(1_000)]
            world.send(*lines, partition=None if burst % 2 else burst % 3)
        world.until_counted(words_in)
        stream.stop()

    rows, last = 0, defaultdict[tuple[bytes, str], int](lambda: -1)
    for record in world.records():
        rows += 1
        ((_, offsets),) = json.loads(dict(record.headers)["offsets"]).items()
        for partition, offset in offsets.items():
            assert offset >= last[record.key, partition], (record.key, partition, offset)
            last[record.key, partition] = offset
    assert rows > 20_000


def _until_letters(world: Counted, count: int, stream: StreamProcess) -> None:
    what = f"{count} dead letters are written"
    wait_until(lambda: len(_letters(world)) == count, lambda: f"{what}: {stream.status}\n{stream.log}", every_s=0.2)


def _letters(world: Counted) -> list[Any]:
    return read_topic(world.kafka, world.topology.events.invalid_topic)

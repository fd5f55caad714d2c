"""A long backlog: the stream gives Spark's JVM its second compiler, which a start and a take-over go without."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from pyspark import SparkContext

from app.java.broker import Broker
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.topics import create_missing, inputs_of, outputs_of
from runtime.stream import choice
from runtime.stream.thread import StreamThread
from tests.drivers.producer import Inputs
from tests.drivers.stream_threads import SmallTables, running, settings_of
from tests.drivers.topic_reader import read_topic
from topology.word_count import WORD_COUNT

pytestmark = pytest.mark.faults

LINES = WORD_COUNT.events.topic
COUNTS = WORD_COUNT.stores[0].topic
FIRST_ALONE = "-XX:TieredStopAtLevel=1"


def test_a_generation_that_begins_with_a_long_backlog_has_the_second_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "_LONG_BACKLOG_EVENTS", 12)
    with Broker(tmp_path / "kafka") as broker:
        inputs = Inputs(broker.connection)
        asyncio.run(create_missing(broker.connection, [*inputs_of(WORD_COUNT), *outputs_of(WORD_COUNT)]))
        inputs.send(LINES, [(None, b"a b")] * 12)
        settings = settings_of(tmp_path, broker.connection, WORD_COUNT)

        assert FIRST_ALONE not in options_of_the_jvm(StreamThread(settings, SmallTables(broker.connection)))
        assert counts(broker.connection, "a")[-1] == 12
        # Whoever goes on with that generation has read most of it before.
        inputs.send(LINES, [(None, b"a")])
        assert FIRST_ALONE in options_of_the_jvm(StreamThread(settings, SmallTables(broker.connection)))
        assert counts(broker.connection, "a")[-2:] == [12, 13]
        assert counts(broker.connection, "b")[-1] == 12


def options_of_the_jvm(stream: StreamThread) -> list[str]:
    """Run a stream up to real time and return what its JVM was started with."""
    with running(stream):
        jvm = SparkContext._active_spark_context._jvm  # type: ignore[union-attr]  # noqa: SLF001
        return list(jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments())  # type: ignore[union-attr]


def counts(kafka: KafkaConnection, word: str) -> list[int]:
    """Return the counts of a word, each time that it was published with another one."""
    found = [json.loads(record.value)["count"] for record in read_topic(kafka, COUNTS) if record.key == word.encode()]
    return sorted(set(found))

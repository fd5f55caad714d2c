"""A long backlog: the stream gives Spark's JVM its second compiler, which a start and a take-over go without."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark import SparkContext

from app.java.broker import Broker
from app.java.jars import ensure_jars
from runtime.kafka.connection import KafkaConnection
from runtime.spark.session import SparkSettings
from runtime.stream import thread as stream_thread
from runtime.stream.status import StreamState
from runtime.stream.thread import StreamSettings, StreamThread
from tests.drivers.producer import Inputs
from tests.drivers.stream_threads import SmallTables
from tests.drivers.topic_reader import read_topic
from tests.waiting import wait_until
from topology.leaderboard.topics import HIGH_SCORES

pytestmark = pytest.mark.system

FIRST_ALONE = "-XX:TieredStopAtLevel=1"


def test_a_generation_that_begins_with_a_long_backlog_has_the_second_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_thread, "_LONG_BACKLOG_EVENTS", 12)
    with Broker(tmp_path / "kafka") as broker:
        inputs = Inputs(broker.connection)
        inputs.create_topics()
        inputs.scores([(float(score), 1, 1) for score in range(12)])
        spark = SparkSettings(broker.connection, ensure_jars().spark, tmp_path / "work", tmp_path / "spark.log")
        settings = StreamSettings(spark, "leaderboard", (tmp_path / "checkpoint").as_uri(), depth=3)
        tables = SmallTables(broker.connection)

        assert FIRST_ALONE not in options_of_the_jvm(StreamThread(settings, tables))
        assert best_scores(broker.connection) == [11.0]
        # Whoever goes on with that generation has read most of it before.
        inputs.scores([(100.0, 1, 1)])
        assert FIRST_ALONE in options_of_the_jvm(StreamThread(settings, tables))
        assert best_scores(broker.connection) == [11.0, 100.0]


def options_of_the_jvm(stream: StreamThread) -> list[str]:
    """Run a stream up to real time and return what its JVM was started with."""
    stream.start()
    try:
        wait_until(lambda: stream.status.state is StreamState.RUNNING, "the stream runs in real time")
        jvm = SparkContext._active_spark_context._jvm  # type: ignore[union-attr]  # noqa: SLF001
        return list(jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments())  # type: ignore[union-attr]
    finally:
        stream.request_stop()
        stream.join()


def best_scores(kafka: KafkaConnection) -> list[float]:
    """Return the best score of the one board, each time that it was published with another one."""
    scores = [json.loads(record.value)["known"][0]["score"] for record in read_topic(kafka, HIGH_SCORES)]
    return sorted(set(scores))

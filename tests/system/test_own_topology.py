"""The worked example of `docs/write-your-own-topology.md` in Spark's real-time mode, on a real broker."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from app.java.broker import Broker
from app.java.jars import ensure_jars
from runtime.kafka.topics import TopicSpec, create_missing
from runtime.spark.session import SPARE_SLOTS, Spark, SparkSettings
from tests.drivers.own_topology import example, match_event
from tests.drivers.producer import Inputs
from tests.waiting import UNHURRIED_S

pytestmark = pytest.mark.system

EVENTS, HISTORIES = "match-events", "player-history"
PULSES, OFFSETS = "pulses", "pulse-offsets"


@pytest.fixture(scope="module")
def spark(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    place = tmp_path_factory.mktemp("spark")
    settings = SparkSettings(broker.connection, ensure_jars().spark, place / "work", place / "spark.log")
    with closing(Spark(settings, slots=2 + SPARE_SLOTS, shuffle_partitions=1)) as running:
        yield running


def test_it_runs_in_real_time(broker: Broker, spark: Spark, tmp_path: Path) -> None:
    page = example()
    asyncio.run(create_missing(broker.connection, [TopicSpec(EVENTS, 1), TopicSpec(HISTORIES, 1)]))
    histories = page.last_matches(source(broker, spark, EVENTS), generation=1)
    query = in_real_time(broker, histories, HISTORIES, tmp_path / "checkpoint", batch_s=5)
    try:
        sent = [match_event(7, f"Game {number}", won=True) for number in range(page.KEPT + 5)]
        inputs = Inputs(broker.connection)
        inputs.send(EVENTS, [(None, value) for value in sent])
        games = asyncio.run(games_of(broker, "7", newest=f"Game {len(sent) - 1}"))
        assert games == [f"Game {number}" for number in reversed(range(5, len(sent)))]
        # Events of a later batch find the state of the one before.
        inputs.send(EVENTS, [(None, b"no match"), (None, match_event(7, "The last one", won=False))])
        assert asyncio.run(games_of(broker, "7", newest="The last one")) == ["The last one", *games[:-1]]
    finally:
        query.stop()


def test_the_smallest_row_leaves_at_once(broker: Broker, spark: Spark, tmp_path: Path) -> None:
    asyncio.run(create_missing(broker.connection, [TopicSpec(PULSES, 1), TopicSpec(OFFSETS, 1)]))
    offsets = source(broker, spark, PULSES).select("offset").distinct()
    values = offsets.select(F.col("offset").cast("string").alias("value"))
    query = in_real_time(broker, values, OFFSETS, tmp_path / "checkpoint", batch_s=300)
    try:
        waits_s = asyncio.run(lone_waits_s(broker, tries=21))
        looked_for_each_ms = spark.session.conf.get("spark.shuffle.streaming.networkBufferMaxWaitTimeMs")
        assert looked_for_each_ms is not None
        # Those that wait to be looked for wait for half of that time on average.
        assert statistics.median(waits_s[1:]) < float(looked_for_each_ms) / 1000 / 4
    finally:
        query.stop()


def source(broker: Broker, spark: Spark, topic: str) -> DataFrame:
    """Return the records of a topic as a stream."""
    reader = spark.session.readStream.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()


def in_real_time(broker: Broker, records: DataFrame, topic: str, checkpoint: Path, batch_s: int) -> StreamingQuery:
    """Start writing records to a topic."""
    writer = records.writeStream.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    writer = writer.option("topic", topic).option("checkpointLocation", str(checkpoint)).outputMode("update")
    trigger: dict[str, Any] = {"realTime": f"{batch_s} seconds"}
    return writer.trigger(**trigger).start()


async def lone_waits_s(broker: Broker, tries: int) -> list[float]:
    """Send pulses, each when the one before has come out; return how long each took, the first with a query's start."""
    waits_s = []
    servers = broker.bootstrap_servers
    async with (
        AIOKafkaProducer(bootstrap_servers=servers) as producer,
        AIOKafkaConsumer(bootstrap_servers=servers) as consumer,
        asyncio.timeout(UNHURRIED_S),
    ):
        consumer.assign([TopicPartition(OFFSETS, 0)])
        await consumer.seek_to_beginning()
        for number in range(tries):
            began_s = time.perf_counter()
            await producer.send(PULSES, b"")
            assert (await consumer.getone()).value == b"%d" % number
            waits_s.append(time.perf_counter() - began_s)
    return waits_s


async def games_of(broker: Broker, key: str, newest: str) -> list[str]:
    """Return the games of the first history of a player whose newest match is of a game, merged as a store does."""
    page = example()
    history = None
    async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers) as consumer, asyncio.timeout(UNHURRIED_S):
        consumer.assign([TopicPartition(HISTORIES, 0)])
        await consumer.seek_to_beginning()
        async for record in consumer:
            if record.key == key.encode():
                history = page.merge(history, page.History.from_json(record.value))
                if history.matches[0].game == newest:
                    return [match.game for match in history.matches]
    raise AssertionError("the topic has an end")

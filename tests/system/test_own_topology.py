"""The worked example of `docs/write-your-own-topology.md` in Spark's real-time mode, on a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from app.broker import Broker
from app.jars import ensure_jars
from tests.drivers.own_topology import example, match_event
from tests.drivers.producer import Inputs
from topology.spark import SPARE_SLOTS, Spark, SparkSettings
from topology.topics import TopicSpec, create_missing

pytestmark = pytest.mark.system

EVENTS, HISTORIES = "match-events", "player-history"
DEADLINE_S = 240


@pytest.fixture
def spark(broker: Broker, tmp_path: Path) -> Iterator[Spark]:
    settings = SparkSettings(broker.connection, ensure_jars().spark, tmp_path / "work", tmp_path / "spark.log")
    with closing(Spark(settings, slots=2 + SPARE_SLOTS, shuffle_partitions=1)) as running:
        yield running


def test_it_runs_in_real_time(broker: Broker, spark: Spark, tmp_path: Path) -> None:
    page = example()
    asyncio.run(create_missing(broker.connection, [TopicSpec(EVENTS, 1), TopicSpec(HISTORIES, 1)]))
    kafka = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    events = spark.session.readStream.format("kafka").options(**kafka, subscribe=EVENTS, startingOffsets="earliest")
    writer = page.last_matches(events.load(), generation=1).writeStream.format("kafka").options(**kafka)
    writer = writer.option("topic", HISTORIES).option("checkpointLocation", f"{tmp_path}/checkpoint")
    query = writer.outputMode("update").trigger(realTime="5 seconds").start()
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


async def games_of(broker: Broker, key: str, newest: str) -> list[str]:
    """Return the games of the first history of a player whose newest match is of a game, merged as a store does."""
    page = example()
    history = None
    async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers) as consumer, asyncio.timeout(DEADLINE_S):
        consumer.assign([TopicPartition(HISTORIES, 0)])
        await consumer.seek_to_beginning()
        async for record in consumer:
            if record.key == key.encode():
                history = page.merge(history, page.History.from_json(record.value))
                if history.matches[0].game == newest:
                    return [match.game for match in history.matches]
    raise AssertionError("the topic has an end")

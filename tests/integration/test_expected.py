"""The boards as they have to be, while the topics that they are computed from change."""

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from app.java.broker import Broker
from app.verification import inputs as inputs_read
from app.verification.boards.expected import Expectation
from runtime.errors import BrokerUnavailable
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.offsets import PartitionOffsets, partition_offsets
from runtime.spark.session import Spark
from tests.drivers.producer import Inputs
from tests.drivers.spark_sessions import spark_settings
from topology.leaderboard.topics import SCORE_EVENTS

pytestmark = pytest.mark.system


def test_events_that_go_while_they_are_read_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[PartitionOffsets] = []

    async def offsets(kafka: KafkaConnection, topics: dict[str, int]) -> PartitionOffsets:
        found = await partition_offsets(kafka, topics)
        said.append(found)
        if len(said) == 1:
            await asyncio.to_thread(inputs.truncate, SCORE_EVENTS, topics[SCORE_EVENTS])
        if len(said) == 4:
            raise BrokerUnavailable("Kafka does not answer")
        return found

    monkeypatch.setattr(inputs_read, "partition_offsets", offsets)
    with Broker(tmp_path / "broker") as broker:
        inputs = Inputs(broker.connection)
        inputs.create_topics()
        inputs.players({1: "Elyse"})
        inputs.products({1: "Super Smash Bros"})
        inputs.scores([(float(score), 1, 1) for score in range(20)])
        with closing(Spark(spark_settings(broker.connection, tmp_path), slots=2, shuffle_partitions=1)) as spark:
            expectation = Expectation(spark, tmp_path / "judged", depth=10)
            expectation.read()
            lost = {at.partition: end for at, end in said[0].end.items() if at.topic == SCORE_EVENTS and end}
            assert sum(lost.values()) == 20
            assert expectation.lost == lost
            # What was read before Kafka went away is not read again.
            inputs.scores([(5000.0, 1, 1)])
            with pytest.raises(BrokerUnavailable):
                expectation.read()
            expectation.read()
            assert expectation.lost == lost
            found = expectation.boards()
            assert found.events == 1
            assert [place.score for place in found.boards[1]] == [5000.0]

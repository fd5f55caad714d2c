"""A broker is gone that alone had a partition: the partition waits for it, and nothing else does."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import NewPartitions

from runtime.copies.producer import ResultProducer
from runtime.kafka.ids import TopicCatalog
from runtime.kafka.partitioner import partition_for
from tests.drivers.eventually import eventually
from tests.drivers.readings import PEAKS, result
from tests.drivers.stores_on_kafka import QUICK, StoresOnKafka, StoreTopics, administration, running
from tests.drivers.two_brokers import TwoBrokers

STAYS, GOES = partition_for(1, 4), partition_for(6, 4)


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[TwoBrokers]:
    with TwoBrokers(tmp_path / "brokers") as both:
        yield both


@pytest.fixture
async def topics(brokers: TwoBrokers) -> AsyncIterator[StoreTopics]:
    topics = StoreTopics(brokers.connection)
    on_second = [2 if partition == GOES else 1 for partition in range(4)]
    await brokers.create({topics.peaks: on_second, topics.sensors: [1] * 4, topics.stations: [1] * 4})
    await topics.name(topics.sensors, {2: "Main"})
    await topics.name(topics.stations, {1: "Ulm", 6: "Linz"})
    await topics.station(1, result((2, 1000)))
    await topics.station(6, result((2, 2000)))
    yield topics
    await topics.close()


def noted_current(instance: StoresOnKafka) -> int:
    """Return when the copy that has lost its leader is noted as current last, in milliseconds."""
    fill = instance.copies.results[PEAKS].copies[GOES].fill
    assert fill is not None
    return fill.current_at_ms


async def test_a_partition_that_loses_its_leader_is_left_alone_until_it_has_one(
    brokers: TwoBrokers, topics: StoreTopics, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "runtime.copies")
    often = replace(QUICK, keep_alive_ms=50)
    async with (
        running(topics, tmp_path / "state", options=often) as instance,
        TopicCatalog(brokers.connection) as catalog,
    ):
        await eventually(lambda: instance.caught_up)
        assert (instance.get(1), instance.get(6)) == ([("Main", 1000.0)], [("Main", 2000.0)])
        brokers.second.stop()
        unread = f"these are not read for now: {topics.peaks}/{GOES}: Kafka at {brokers.connection} has no leader"
        await eventually(lambda: unread in caplog.text)
        await catalog.describe([topics.peaks])
        assert catalog.leaderless == {TopicPartition(topics.peaks, GOES)}
        await topics.station(1, result((2, 3000), generation=2))
        await eventually(lambda: instance.get(1) == [("Main", 3000.0)])
        await eventually(lambda: not instance.copies.status(PEAKS, GOES).is_current)
        assert instance.get(6) == [("Main", 2000.0)], "what it had is answered"
        # Nobody can delete there meanwhile: a copy that had all is not filled anew after however long.
        await eventually(lambda: noted_current(instance) > time.time() * 1000 - 1000)
        waits_since_ms = noted_current(instance)
        await eventually(lambda: noted_current(instance) > waits_since_ms + 1000)
        brokers.second.start()
        await eventually(lambda: instance.copies.status(PEAKS, GOES).is_current)
        await topics.station(6, result((2, 9000), generation=2))
        await eventually(lambda: instance.get(6) == [("Main", 9000.0)])
    assert caplog.text.count("these are not read for now") == 1


async def test_what_has_no_leader_at_a_start_holds_nothing_up(
    brokers: TwoBrokers, topics: StoreTopics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers.second.stop()
    async with TopicCatalog(brokers.connection) as catalog:

        async def is_known() -> bool:
            await catalog.describe([topics.peaks])
            return bool(catalog.leaderless)

        await eventually(is_known)
    asked: list[TopicPartition] = []
    begins = AIOKafkaConsumer.beginning_offsets

    async def beginning_offsets(consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition]) -> object:
        asked.extend(partitions)
        return await begins(consumer, partitions)

    monkeypatch.setattr(AIOKafkaConsumer, "beginning_offsets", beginning_offsets)
    async with running(topics, tmp_path / "state") as instance:
        await eventually(lambda: instance.get(1) == [("Main", 1000.0)])
        # Who asks for its offsets waits five seconds, and all others meanwhile.
        assert TopicPartition(topics.peaks, STAYS) in asked
        assert TopicPartition(topics.peaks, GOES) not in asked
        assert not instance.copies.status(PEAKS, GOES).can_answer
        brokers.second.start()
        await eventually(lambda: instance.get(6) == [("Main", 2000.0)])


async def test_results_that_belong_to_a_partition_without_a_leader_are_moved_later(
    brokers: TwoBrokers, topics: StoreTopics, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "runtime.copies")
    producer = ResultProducer(brokers.connection)
    assert partition_for(1, 5) == 4, "it belongs to the new partition"
    async with running(topics, tmp_path / "state") as instance:
        await eventually(lambda: instance.caught_up)
    async with administration(brokers.connection) as admin:
        await admin.create_partitions({topics.peaks: NewPartitions(5, [[2]])})
    brokers.second.stop()
    async with running(topics, tmp_path / "state", publish=producer.publish) as instance:
        await eventually(lambda: "are moved later" in caplog.text)
        await topics.name(topics.sensors, {2: "Isar"})
        await eventually(lambda: instance.get(1) == [("Isar", 1000.0)])
        brokers.second.start()
        await eventually(lambda: instance.copies.partition_count == 5)
        instance.copies.assign(range(5))
        await eventually(lambda: instance.caught_up and instance.get(1) == [("Isar", 1000.0)])
    await producer.close()


async def test_where_nothing_has_a_leader_that_is_what_is_the_matter(
    brokers: TwoBrokers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "runtime.copies")
    topics = StoreTopics(brokers.connection)
    await brokers.create(dict.fromkeys((topics.peaks, topics.sensors, topics.stations), [2] * 4))
    async with running(topics, tmp_path / "state") as instance:
        await eventually(lambda: instance.caught_up)
        brokers.second.stop()
        await eventually(lambda: "has no leader for" in instance.copies.trouble)
        # Several sessions later.
        await asyncio.sleep(10 * QUICK.retry_after_s)
        assert "has no leader for" in instance.copies.trouble
        assert "stores are filled again" not in caplog.text
        brokers.second.start()
        await eventually(lambda: instance.caught_up and not instance.copies.trouble)

"""Offsets as a real broker tells them."""

import asyncio
from pathlib import Path

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import OffsetAndMetadata

from app.java.broker import Broker
from runtime.errors import BrokerUnavailable
from runtime.kafka.offsets import committed_offsets
from runtime.kafka.topics import TopicSpec, create_missing
from tests.drivers.ports import free_port
from tests.waiting import UNHURRIED_S

AT = TopicPartition("counted", 0)


async def test_a_group_whose_offsets_are_being_loaded_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    port = free_port()
    with Broker(tmp_path, port) as broker:
        await create_missing(broker.connection, [TopicSpec(AT.topic, 1)])
        async with AIOKafkaConsumer(
            **broker.connection.for_aiokafka(), group_id="counters", enable_auto_commit=False
        ) as consumer:
            consumer.assign([AT])
            await consumer.commit({AT: 7})
        assert await committed_offsets(broker.connection, "nobody") == {}
    with Broker(tmp_path, port) as broker:
        async with asyncio.timeout(UNHURRIED_S):
            while (found := await offsets_or_none(broker)) is None:
                await asyncio.sleep(0)
        assert {at: each.offset for at, each in found.items()} == {AT: 7}


async def offsets_or_none(broker: Broker) -> dict[TopicPartition, OffsetAndMetadata] | None:
    """Return the group's offsets, or None while the broker does not tell them."""
    try:
        return await committed_offsets(broker.connection, "counters")
    except BrokerUnavailable:
        return None

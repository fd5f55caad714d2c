"""Topic ids, asked of a real broker."""

import uuid

import pytest
from aiokafka.cluster import ClusterMetadata
from aiokafka.structs import BrokerMetadata

from app.java.broker import Broker
from runtime.errors import BrokerUnavailable
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.ids import TopicCatalog, _MetadataRequest_v12, topic_ids
from runtime.kafka.topics import TopicSpec, create_missing
from tests.drivers.eventually import eventually
from tests.drivers.stores_on_kafka import administration


async def test_topics_that_exist_have_an_id_and_partitions(broker: Broker) -> None:
    name = f"ids-{uuid.uuid4()}"
    await create_missing(broker.connection, [TopicSpec(name, 3, {"delete.retention.ms": "1234"})])
    found = await topic_ids(broker.connection, [name, "no-such-topic"])
    assert found.keys() == {name}
    assert found[name].partitions == 3
    assert str(uuid.UUID(found[name].topic_id)) == found[name].topic_id
    async with TopicCatalog(broker.connection) as catalog:
        assert await catalog.setting(name, "delete.retention.ms") == "1234"
        assert await catalog.setting("no-such-topic", "delete.retention.ms") is None


async def test_a_topic_that_was_created_again_has_another_id(broker: Broker) -> None:
    name = f"ids-{uuid.uuid4()}"
    await create_missing(broker.connection, [TopicSpec(name, 1)])
    before = await topic_ids(broker.connection, [name])
    async with administration(broker.connection) as admin:
        await admin.delete_topics([name])

    async def gone() -> bool:
        return await topic_ids(broker.connection, [name]) == {}

    await eventually(gone)
    await create_missing(broker.connection, [TopicSpec(name, 1)])
    after = await topic_ids(broker.connection, [name])
    assert before[name].topic_id != after[name].topic_id


async def test_a_broker_that_knows_no_topic_ids_is_too_old(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_MetadataRequest_v12, "API_VERSION", 999)
    with pytest.raises(BrokerUnavailable, match=r"Kafka at 127.* is too old: it has to be 3\.1 or later"):
        await topic_ids(broker.connection, ["any"])


async def test_a_broker_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(BrokerUnavailable, match="Kafka at 127"):
        await topic_ids(KafkaConnection("127.0.0.1:1"), ["any"])


async def test_another_broker_is_asked_when_one_is_gone(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = BrokerMetadata(99, "127.0.0.1", 1, None)
    known = ClusterMetadata.brokers
    async with TopicCatalog(broker.connection) as catalog:
        monkeypatch.setattr(ClusterMetadata, "brokers", lambda self: known(self) | {gone})
        for _ in range(20):
            assert await catalog.describe(["no-such-topic"]) == {}
        monkeypatch.setattr(ClusterMetadata, "brokers", lambda _: {gone})
        with pytest.raises(BrokerUnavailable, match="NodeNotReadyError"):
            await catalog.describe(["no-such-topic"])

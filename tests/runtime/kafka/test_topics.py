"""Topics are created once, whoever is first, and errors say what to do."""

import asyncio
import itertools
import time
import uuid
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import InvalidTimestampError

from app.java.broker import Broker
from runtime import Count, Int64, Key, PlainText, Store, Stream, Table, Text, Topology
from runtime.errors import BrokerUnavailable, Fix
from runtime.kafka import topics
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.ids import topic_ids
from runtime.kafka.topics import DELETE_RETENTION_MS, TopicSpec, create_missing, inputs_of, outputs_of

TOPOLOGY = Topology(
    "lines-and-towns",
    Stream("lines", PlainText(), partitions=3),
    tables=[Table("towns", Key("id", Int64), {"name": Text}, partitions=2)],
    stores=[
        Store("by-line", "counted-lines", Key("text", Text), {"times": Count()}),
        Store("by-line-too", "counted-again", Key("text", Text), {"times": Count()}),
    ],
)
INPUTS, OUTPUTS = inputs_of(TOPOLOGY), outputs_of(TOPOLOGY)


def _unique(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex}"


async def test_what_is_missing_is_created_and_what_exists_stays(broker: Broker) -> None:
    there, new = TopicSpec(_unique("there"), 2), TopicSpec(_unique("new"), 3)
    assert await create_missing(broker.connection, [there]) == [there.name]
    assert (await topic_ids(broker.connection, [there.name, new.name])).keys() == {there.name}
    assert await create_missing(broker.connection, [TopicSpec(there.name, 5), new]) == [new.name]
    assert await _partitions(broker, [there.name, new.name]) == {there.name: 2, new.name: 3}
    assert await create_missing(broker.connection, [there, new]) == []


async def test_of_many_at_once_each_topic_is_created_by_one(broker: Broker) -> None:
    specs = [TopicSpec(_unique("race"), 1) for _ in range(3)]
    created = await asyncio.gather(*(create_missing(broker.connection, specs) for _ in range(4)))
    assert sorted(itertools.chain(*created)) == sorted(spec.name for spec in specs)


@pytest.mark.parametrize("spec", [*INPUTS, *OUTPUTS], ids=lambda spec: spec.name)
async def test_kafka_takes_each_topic_as_specified(broker: Broker, spec: TopicSpec) -> None:
    copy = TopicSpec(_unique(spec.name), spec.partitions, spec.config)
    await create_missing(broker.connection, [copy])
    assert await _partitions(broker, [copy.name]) == {copy.name: spec.partitions}
    assert spec.config.items() <= (await _config(broker, copy.name)).items()


async def test_a_kafka_that_does_not_know_the_setting_for_times_gets_the_one_that_it_knows(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer, older = {"message.timestamp.from.tomorrow": "1"}, {"message.timestamp.after.max.ms": "1234567"}
    monkeypatch.setattr(topics, "REFUSES", newer)
    monkeypatch.setattr(topics, "REFUSES_BEFORE", older)
    limited = TopicSpec(_unique("limited"), 1, {**newer, "cleanup.policy": "compact"})
    plain = TopicSpec(_unique("plain"), 1)
    assert await create_missing(broker.connection, [limited, plain]) == [limited.name, plain.name]
    assert (older | {"cleanup.policy": "compact"}).items() <= (await _config(broker, limited.name)).items()
    assert (await _config(broker, plain.name))["message.timestamp.after.max.ms"] != "1234567"


@pytest.mark.parametrize(
    ("name", "config", "reason"),
    [("not a name", {}, "contains one or more characters"), ("n", {"cleanup.policy": "burn"}, "burn")],
)
async def test_a_refusal_names_the_topic_and_the_reason(
    broker: Broker, name: str, config: dict[str, str], reason: str
) -> None:
    with pytest.raises(Fix, match=f"Kafka refuses to create topic {name}: .*{reason}"):
        await create_missing(broker.connection, [TopicSpec(name, 1, config)])


async def test_too_few_brokers_for_the_replication_factor_are_waited_for(tmp_path: Path) -> None:
    spec = TopicSpec("wide", 1)
    with Broker(tmp_path, settings={"default.replication.factor": "2"}) as broker:
        with pytest.raises(BrokerUnavailable, match=r"topic wide cannot be created now .*only 1 broker"):
            await create_missing(broker.connection, [spec])
        assert await topic_ids(broker.connection, [spec.name]) == {}


async def test_no_broker_is_an_error_that_says_where_none_was() -> None:
    with pytest.raises(BrokerUnavailable, match=r"Kafka at 127\.0\.0\.1:1 does not answer"):
        await create_missing(KafkaConnection("127.0.0.1:1"), INPUTS)


def test_the_topics_are_those_of_the_declaration() -> None:
    assert [(spec.name, spec.partitions) for spec in INPUTS] == [("lines", 3), ("towns", 2)]
    assert [(spec.name, spec.partitions) for spec in OUTPUTS] == [
        ("counted-lines", 4),
        ("counted-again", 4),
        ("lines-invalid", 1),
    ]
    assert sorted(spec.name for spec in (*INPUTS, *OUTPUTS)) == sorted([*TOPOLOGY.topics, "lines-invalid"])


def test_what_a_repeat_may_be_worse_than_is_not_compacted_before_every_copy_has_read_it() -> None:
    lags = {int(spec.config["min.compaction.lag.ms"]) for spec in OUTPUTS if "cleanup.policy" in spec.config}
    assert lags == {300_000}


@pytest.mark.parametrize("spec", INPUTS, ids=lambda spec: spec.name)
async def test_inputs_that_are_created_here_refuse_a_time_in_nanoseconds(broker: Broker, spec: TopicSpec) -> None:
    copy = TopicSpec(_unique(spec.name), 1, spec.config)
    await create_missing(broker.connection, [copy])
    now_ms = int(time.time() * 1000)
    async with AIOKafkaProducer(**broker.connection.for_aiokafka()) as producer:
        await producer.send_and_wait(copy.name, b"{}", key=b"1", timestamp_ms=now_ms)
        with pytest.raises(InvalidTimestampError):
            await producer.send_and_wait(copy.name, b"{}", key=b"1", timestamp_ms=now_ms * 10**6)


def test_the_service_knows_how_long_its_tombstones_last() -> None:
    compacted = [spec for spec in (*INPUTS, *OUTPUTS) if spec.config.get("cleanup.policy") == "compact"]
    assert [spec.name for spec in compacted] == ["towns", "counted-lines", "counted-again"]
    assert {spec.config["delete.retention.ms"] for spec in compacted} == {str(DELETE_RETENTION_MS)}


async def _partitions(broker: Broker, names: list[str]) -> dict[str, int]:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    await admin.start()
    try:
        return {topic["topic"]: len(topic["partitions"]) for topic in await admin.describe_topics(names)}
    finally:
        await admin.close()


async def _config(broker: Broker, name: str) -> dict[str, str]:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    await admin.start()
    try:
        [response] = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
        return {entry[0]: entry[1] for resource in response.resources for entry in resource[4]}
    finally:
        await admin.close()

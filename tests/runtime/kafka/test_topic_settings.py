"""Settings of topics that lose data: what will happen is said while there is time, with what to type."""

import asyncio
import logging
import threading
from pathlib import Path
from typing import Final

import pytest
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from app.java.broker import Broker
from runtime import Count, Int64, Key, PlainText, Store, Stream, Table, Text, Topology
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.topic_settings import WatchedSettings, what_is_lost
from runtime.kafka.topics import TopicSpec, create_missing, inputs_of, outputs_of
from runtime.stream.watched_topics import WatchedTopics
from tests.drivers.stores_on_kafka import administration
from tests.waiting import wait_until

WEEK_MS: Final = "604800000"
NOW_MS: Final = 1_795_622_429_884
LINES, TOWNS, COUNTS = "lines", "towns", "counted-lines"
TOPOLOGY: Final = Topology(
    "lines-and-towns",
    Stream(LINES, PlainText()),
    tables=[Table(TOWNS, Key("id", Int64), {"name": Text}), Table("roads", Key("id", Int64), {"name": Text})],
    stores=[Store("by-line", COUNTS, Key("text", Text), {"times": Count()})],
)


def config(policy: str, retention_ms: str = WEEK_MS, retention_bytes: str = "-1") -> dict[str, str]:
    """Return a topic's settings as Kafka tells them."""
    return {"cleanup.policy": policy, "retention.ms": retention_ms, "retention.bytes": retention_bytes}


@pytest.mark.parametrize(
    ("topic", "settings", "says"),
    [
        (TOWNS, config("delete"), "vanishes, until they are sent again (retention.ms=604800000: 7 days"),
        (TOWNS, config("compact,delete"), "towns has cleanup.policy=compact,delete, so Kafka will delete rows"),
        (TOWNS, config("delete", "-1", "1000"), "(retention.bytes=1000: the oldest, when a partition is larger)"),
        (TOWNS, config("delete", "5400000", "1000"), "90 minutes after they were sent; retention.bytes=1000"),
        (COUNTS, config("delete"), "counted-lines has cleanup.policy=delete, so Kafka will delete results from it"),
        (LINES, config("compact"), "so Kafka will refuse events without a key, and keep one event of each key"),
        (LINES, config("delete", "60000"), "delete events 60 seconds after they were sent: those that"),
    ],
)
def test_what_kafka_will_delete_is_said(topic: str, settings: dict[str, str], says: str) -> None:
    lost = what_is_lost(TOPOLOGY, topic, settings)
    assert lost is not None
    assert says in lost[0]


@pytest.mark.parametrize(
    ("topic", "settings"),
    [
        (TOWNS, config("compact")),
        (TOWNS, config("delete", "-1")),
        (TOWNS, config("")),
        (TOWNS, {}),
        (COUNTS, config("compact")),
        (LINES, config("delete")),
        (LINES, config("delete", "-1")),
        (LINES, {}),
    ],
)
def test_settings_that_lose_nothing_are_passed_over(topic: str, settings: dict[str, str]) -> None:
    assert what_is_lost(TOPOLOGY, topic, settings) is None


@pytest.mark.parametrize("spec", [*inputs_of(TOPOLOGY), *outputs_of(TOPOLOGY)], ids=lambda spec: spec.name)
def test_topics_as_load_and_serve_create_them_lose_nothing(spec: TopicSpec) -> None:
    usual = config("delete") if spec.name == LINES else config("compact")
    assert what_is_lost(TOPOLOGY, spec.name, {**usual, **spec.config}) is None


def test_it_is_said_once_until_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    watched = WatchedSettings(KafkaConnection("kafka-1:9092,kafka-2:9092"), TOPOLOGY)
    for settings in [config("compact"), config("delete"), config("delete"), config("compact"), config("delete", "-1")]:
        watched.look({TOWNS: settings}, NOW_MS)
    said = [(record.levelname, record.message) for record in caplog.records]
    assert [level for level, _ in said] == ["WARNING", "INFO"]
    assert said[0][1].endswith(
        "To mend it: kafka-configs.sh --bootstrap-server kafka-1:9092,kafka-2:9092 --alter --entity-type topics"
        " --entity-name towns --add-config cleanup.policy=compact"
    )
    assert said[1][1] == "topic towns keeps what is needed now"


def test_topics_are_looked_at_when_a_query_starts_and_while_it_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.stream.watched_topics._LOOK_EVERY_S", 0.0)
    by_a_broker = [TopicSpec(spec.name, 1) for spec in inputs_of(TOPOLOGY)]
    with Broker(tmp_path / "broker") as broker:
        asyncio.run(create_missing(broker.connection, [*by_a_broker, *outputs_of(TOPOLOGY)]))
        watched = WatchedTopics(
            broker.connection, TOPOLOGY, TOPOLOGY.stores[0], threading.Event(), lambda: None, lambda _: None
        )
        watched.wait_for_all()
        warned = [record.message.split(",")[0] for record in caplog.records if record.levelname == "WARNING"]
        assert [said for said in warned if "cleanup.policy" in said] == [
            "topic towns has cleanup.policy=delete",
            "topic roads has cleanup.policy=delete",
        ]
        caplog.clear()
        asyncio.run(_configure(broker.connection, LINES, {"cleanup.policy": "compact"}))

        def is_said() -> bool:
            watched.look()
            return "topic lines has cleanup.policy=compact" in caplog.text

        wait_until(is_said, "the broker knows of the setting", deadline_s=30)


async def _configure(kafka: KafkaConnection, topic: str, settings: dict[str, str]) -> None:
    async with administration(kafka) as admin:
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, settings)])

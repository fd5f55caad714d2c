"""Which topics take records whose time no query can read, and what an operator types against it."""

from __future__ import annotations

from typing import Final

import pytest

from runtime.kafka.record_times import REFUSES, REFUSES_BEFORE, takes_any, what_to_type

NOW_MS: Final = 1_795_622_429_884
UNLIMITED: Final = str(2**63 - 1)
AFTER: Final = "message.timestamp.after.max.ms"
DIFFERENCE: Final = "message.timestamp.difference.max.ms"
TYPE: Final = "message.timestamp.type"


@pytest.mark.parametrize(
    ("settings", "takes"),
    [
        # Kafka 4, Kafka before 3.6, one in between.
        ({TYPE: "CreateTime", AFTER: "3600000"}, False),
        ({TYPE: "CreateTime", AFTER: UNLIMITED}, True),
        ({TYPE: "CreateTime", DIFFERENCE: UNLIMITED}, True),
        ({TYPE: "CreateTime", DIFFERENCE: UNLIMITED, AFTER: UNLIMITED}, True),
        ({TYPE: "CreateTime", DIFFERENCE: UNLIMITED, **REFUSES}, False),
        ({TYPE: "CreateTime", **REFUSES_BEFORE, AFTER: UNLIMITED}, False),
        # The broker's own time is in milliseconds.
        ({TYPE: "LogAppendTime", AFTER: UNLIMITED}, False),
        # A Kafka that tells nothing.
        ({}, False),
    ],
)
def test_a_topic_takes_such_records_unless_a_setting_of_its_kafka_forbids(
    settings: dict[str, str], *, takes: bool
) -> None:
    assert takes_any(settings, NOW_MS) is takes


def test_what_to_type_is_a_setting_that_this_kafka_knows() -> None:
    for settings, expected in (
        ({AFTER: UNLIMITED, DIFFERENCE: UNLIMITED}, f"{AFTER}=3600000"),
        ({DIFFERENCE: UNLIMITED}, f"{DIFFERENCE}=3153600000000"),
    ):
        assert what_to_type("kafka:9092", "players", settings) == (
            "kafka-configs.sh --bootstrap-server kafka:9092 --alter --entity-type topics --entity-name players"
            f" --add-config {expected}"
        )

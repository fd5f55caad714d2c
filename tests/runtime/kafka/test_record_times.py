"""Which topics take records whose time no query can read, and the setting that an operator changes."""

from __future__ import annotations

from typing import Final

import pytest

from runtime.kafka.record_times import REFUSES, REFUSES_BEFORE, takes_any, what_to_refuse

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


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({AFTER: UNLIMITED, DIFFERENCE: UNLIMITED}, f"{AFTER}=3600000"),
        ({DIFFERENCE: UNLIMITED}, f"{DIFFERENCE}=3153600000000"),
    ],
)
def test_what_refuses_them_is_a_setting_that_this_kafka_knows(settings: dict[str, str], expected: str) -> None:
    found = what_to_refuse("players", settings, NOW_MS)
    assert found is not None
    says, setting = found
    assert says.startswith("topic players takes records")
    assert setting == expected


def test_there_is_nothing_to_refuse_where_kafka_refuses_it() -> None:
    assert what_to_refuse("players", {AFTER: "3600000"}, NOW_MS) is None

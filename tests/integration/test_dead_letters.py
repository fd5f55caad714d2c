"""Dead letters against the real thing: every record that cannot be used is copied as it came, and once."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from app.broker import Broker
from tests.drivers.instance import Instance
from tests.drivers.producer import Inputs
from tests.drivers.records import SCORES, TABLES, USED
from tests.drivers.topic_reader import read_topic
from tests.waiting import wait_until
from topology.topics import PLAYERS, PRODUCTS, SCORE_EVENTS, SCORE_EVENTS_INVALID, TopicSpec, create_missing

pytestmark = pytest.mark.system

WRITTEN_WITHIN_S = 120.0

SCORE_OUTCOMES = {value: case.outcome for case in SCORES for value in case.values}
TABLE_OUTCOMES = {record: case.outcome for case in TABLES for record in case.records}

Letter = tuple[str, int, int, bytes | None, bytes | None, str]


def test_every_unusable_record_is_a_dead_letter_once(tmp_path: Path) -> None:
    with Broker(tmp_path / "kafka") as broker:
        inputs = Inputs(broker.connection)
        # A compacted topic takes no record without a key; somebody's own may not be compacted.
        asyncio.run(create_missing(broker.connection, [TopicSpec(PLAYERS, 2), TopicSpec(PRODUCTS, 1)]))
        inputs.create_topics()
        instance = Instance(tmp_path / "instance", broker.bootstrap_servers)
        for how in ("catching up", "after a kill", "in real time"):
            send_all(inputs)
            if how == "catching up":
                instance.start().wait_for_real_time()
            elif how == "after a kill":
                # Its letters are not written, as those before are.
                instance.kill()
                instance.start().wait_for_real_time()
            await_letters(inputs, instance, how)
        instance.wait_for_boards({"1": [served_entry()] * 3})
        assert "the stream stopped" not in instance.log()
        instance.kill()


def send_all(inputs: Inputs) -> None:
    """Send every case of every kind once, and the rows that the usable scores need."""
    for topic in (PLAYERS, PRODUCTS):
        inputs.send(topic, TABLE_OUTCOMES)
    inputs.players({3: "Isabelle"})
    inputs.products({1: "Super Smash Bros"})
    inputs.send(SCORE_EVENTS, [(None, value) for value in SCORE_OUTCOMES])


def await_letters(inputs: Inputs, instance: Instance, how: str) -> None:
    """Wait until the dead letters are those of what the inputs hold, in any order."""
    expected = Counter(expected_letters(inputs))
    wait_until(
        lambda: len(read_topic(inputs.kafka, SCORE_EVENTS_INVALID)) >= expected.total(),
        WRITTEN_WITHIN_S,
        f"{expected.total()} dead letters are written, {how}; see {instance.log_path}",
    )
    found = Counter(letter(record) for record in read_topic(inputs.kafka, SCORE_EVENTS_INVALID))
    assert list((found - expected).items())[:3] == [], how
    assert list((expected - found).items())[:3] == [], how


def expected_letters(inputs: Inputs) -> list[Letter]:
    """Return what the docs say of what the inputs hold."""
    letters = []
    for topic in (SCORE_EVENTS, PLAYERS, PRODUCTS):
        for record in read_topic(inputs.kafka, topic):
            at = (record.topic, record.partition, record.offset, record.key, record.value)
            outcome = SCORE_OUTCOMES[record.value] if topic == SCORE_EVENTS else table_outcome(record)
            if outcome != USED:
                letters.append((*at, outcome))
    return letters


def table_outcome(record: Any) -> str:
    """Return what the docs say of a table's record; those that are no case are usable rows."""
    return TABLE_OUTCOMES.get((record.key, record.value), USED)


def letter(record: Any) -> Letter:
    """Return where a dead letter says that it comes from, what it holds, and why."""
    headers = {name: value.decode() for name, value in record.headers}
    assert headers.keys() == {"topic", "partition", "offset", "reason"}
    at = (headers["topic"], int(headers["partition"]), int(headers["offset"]))
    return (*at, record.key, record.value, headers["reason"])


def served_entry() -> dict[str, Any]:
    """Return the entry that every usable score event makes."""
    return {
        "playerId": 3,
        "productId": 1,
        "playerName": "Isabelle",
        "gameName": "Super Smash Bros",
        "score": 5.0,
    }

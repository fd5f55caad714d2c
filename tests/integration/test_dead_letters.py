"""Dead letters against the real thing: every record that cannot be used is copied as it came, and once."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from app.java.broker import Broker
from runtime import Count, Int64, Key, PlainText, Store, Stream, Table, Text, Topology
from runtime.kafka.ids import topic_ids
from runtime.kafka.inspected import Judged
from runtime.kafka.topics import TopicSpec, create_missing, inputs_of, outputs_of
from runtime.stream import dead_letters
from runtime.stream.dead_letters import DeadLetters
from runtime.stream.thread import StreamThread
from tests.drivers.instance import Instance
from tests.drivers.producer import Inputs
from tests.drivers.records import SCORES, TABLES, USED
from tests.drivers.stream_threads import TOWNS, SmallTables, running, settings_of
from tests.drivers.topic_reader import read_topic
from tests.waiting import wait_until
from topology.leaderboard.topics import PLAYERS, PRODUCTS, SCORE_EVENTS, SCORE_EVENTS_INVALID

pytestmark = pytest.mark.system


LINES, LINES_INVALID = "lines", "lines-invalid"


def first_letter(lines: DataFrame) -> DataFrame:
    """Return the first letter of each line that does not begin with a dash: `at, letter string`."""
    return lines.where(~F.startswith("text", F.lit("-"))).select("at", F.substring("text", 1, 1).alias("letter"))


LETTERS = Topology(
    "letters",
    Stream(LINES, PlainText()),
    stores=[Store("letters", "letters-out", Key("letter", Text), {"count": Count()}, rows=first_letter)],
)
LINES_AND_TOWNS = Topology(
    "lines-and-towns",
    Stream(LINES, PlainText()),
    tables=[Table(TOWNS, Key("id", Int64), {"name": Text})],
    stores=[Store("by-line", "counted-lines", Key("text", Text), {"times": Count()})],
)

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


@pytest.mark.faults
def test_letters_that_the_topic_does_not_take_keep_no_others_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Broker(tmp_path / "kafka") as broker:
        inputs = Inputs(broker.connection)
        small = {"max.message.bytes": "100000"}
        asyncio.run(create_missing(broker.connection, [TopicSpec(LINES, 1), TopicSpec(LINES_INVALID, 1, small)]))
        asyncio.run(create_missing(broker.connection, [*inputs_of(LINES_AND_TOWNS), *outputs_of(LINES_AND_TOWNS)]))
        large = Random(1).randbytes(250_000)  # which no compression makes smaller
        values = [large if number in {2, 5} else str(number).encode() for number in range(7)]
        inputs.send(LINES, [(None, value) for value in values])
        records = read_topic(inputs.kafka, LINES)
        ids = asyncio.run(topic_ids(broker.connection, [LINES]))
        letters = DeadLetters(broker.connection, "app", LINES_AND_TOWNS, stopped=lambda: False)
        assert letters.write(lambda _: {}) is False, "of topics that are empty there is nothing to commit"
        letters.note([Judged(LINES, ids[LINES].topic_id, 0, 0, len(records), unusable=True)])
        # Of a topic that is not there any more: nothing can be committed for it, and nothing waits for it.
        letters.note([Judged(TOWNS, "deleted since", 9, 0, 5, unusable=True)])
        reasons = {record.offset: "no event" for record in records}

        asked: list[Judged] = []

        def find_unusable(judged: Judged) -> dict[int, str]:
            asked.append(judged)
            return reasons

        def written() -> int:
            letters.write(find_unusable)
            return letters.counts.total()

        wait_until(lambda: written() >= 5, "the letters that fit are written")
        taken = [b"0", b"1", b"3", b"4", b"6"]
        assert sorted(record.value for record in read_topic(inputs.kafka, LINES_INVALID)) == sorted(taken)
        assert letters.counts == {(LINES, "no event"): len(taken)}
        assert caplog.text.count("a dead letter is lost") == 2
        assert written() == 5, "each once"

        end = len(records)
        letters.note([replace(asked[0], begin=end, end=end + 100, unusable=False)])
        asked.clear()
        assert (written(), asked) == (5, []), "what follows and is clean is not looked at again"

        inputs.truncate(LINES, 1)
        anew = DeadLetters(broker.connection, "anew", LINES_AND_TOWNS, stopped=lambda: False)
        anew.note([Judged(LINES, ids[LINES].topic_id, 0, 0, end + 1, unusable=True)])
        assert anew.write(find_unusable) is False
        assert [(judged.begin, judged.end) for judged in asked] == [(end, end + 1)], "what retention has taken is gone"


@pytest.mark.faults
def test_letters_that_take_long_are_written_bit_by_bit_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "_AT_ONCE_S", 0.0)
    monkeypatch.setattr(dead_letters, "_LETTERS_AT_ONCE", 2)
    monkeypatch.setattr(dead_letters, "_OFFSETS_AT_ONCE", 4)
    with Broker(tmp_path / "kafka") as broker:
        inputs = Inputs(broker.connection)
        asyncio.run(create_missing(broker.connection, [TopicSpec(LINES, 1)]))
        asyncio.run(create_missing(broker.connection, [*inputs_of(LINES_AND_TOWNS), *outputs_of(LINES_AND_TOWNS)]))
        inputs.send(LINES, [(None, str(number).encode()) for number in range(7)])
        records = read_topic(inputs.kafka, LINES)
        ids = asyncio.run(topic_ids(broker.connection, [LINES]))
        letters = DeadLetters(broker.connection, "app", LINES_AND_TOWNS, stopped=lambda: False)
        letters.note([Judged(LINES, ids[LINES].topic_id, 0, 0, len(records), unusable=True)])

        def find_unusable(judged: Judged) -> dict[int, str]:
            return dict.fromkeys(range(judged.begin, judged.end), "no event")

        calls: dict[int, bool] = {}

        def written() -> int:
            # A new broker may have to be asked again.
            more = letters.write(find_unusable)
            calls[letters.counts.total()] = more
            return letters.counts.total()

        wait_until(lambda: written() == 7, "all letters are written")
        calls.pop(0, None)
        assert calls == {2: True, 4: True, 6: True, 7: False}, "each call writes one group"
        letters_read = read_topic(inputs.kafka, LINES_INVALID)
        assert sorted(record.value for record in letters_read) == [str(number).encode() for number in range(7)]


@pytest.mark.faults
def test_a_broker_that_begins_no_transaction_holds_the_stream_up_for_seconds_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # As one broker is that was given its topics' replication factors and not this one.
    with Broker(tmp_path / "kafka", settings={"transaction.state.log.replication.factor": "3"}) as broker:
        letters = DeadLetters(broker.connection, "app", LINES_AND_TOWNS, stopped=lambda: False)
        assert letters.write(lambda _: {}) is False
    assert "dead letters are written later: " in caplog.text
    assert "begins no transaction, see its transaction.state.log settings" in caplog.text


@pytest.mark.faults
def test_rows_without_a_key_are_dead_letters_while_catching_up_and_in_real_time(tmp_path: Path) -> None:
    with Broker(tmp_path / "kafka") as broker:
        inputs = Inputs(broker.connection)
        asyncio.run(create_missing(broker.connection, [*inputs_of(LETTERS), *outputs_of(LETTERS)]))
        inputs.send(LINES, [(None, value) for value in (b"abc", b"", b"bc", b"a", b"-x")], 0)
        with running(
            StreamThread(
                settings_of(tmp_path, broker.connection, LETTERS),
                SmallTables(broker.connection),
            )
        ):
            # No record of these can be used less than others: only their rows have no key.
            await_invalid(inputs, [(0, 1, b"", "no key")])
            inputs.send(LINES, [(None, b"a"), (None, b"")], 1)
            await_invalid(inputs, [(0, 1, b"", "no key"), (1, 1, b"", "no key")])
            inputs.send(LINES, [(None, b"\xff"), (None, b"b")], 2)
            await_invalid(inputs, [(0, 1, b"", "no key"), (1, 1, b"", "no key"), (2, 0, b"\xff", "not UTF-8")])


def await_invalid(inputs: Inputs, expected: list[tuple[int, int, bytes, str]]) -> None:
    """Wait until the letters of lines are those of these partitions and offsets, with these values and reasons."""
    wait_until(lambda: len(read_topic(inputs.kafka, LINES_INVALID)) >= len(expected), "the letters are written")
    letters = [letter(record) for record in read_topic(inputs.kafka, LINES_INVALID)]
    assert sorted((at[1], at[2], at[4], at[5]) for at in letters) == expected


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

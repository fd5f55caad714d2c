"""Two streams joined on plain frames: each two records that belong together, and no others."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from runtime import Count, Int64, Joined, Json, Key, Latest, Max, PlainText, Store, Stream, Text, Topology, Tumbling
from runtime.declaration import DeclarationError
from runtime.records import NO_KEY
from runtime.results import Made, Result, merge, stands_for
from runtime.spark.session import Spark
from runtime.testing import DeadLetter, TopologyDriver
from runtime.testing.frames import EPOCH, EPOCH_MS, Record, StoreOnFrames
from runtime.values.lattices import At, AtPair
from tests.drivers.paced_topologies import WITHIN_MS, Told, paid, paid_of

TOPOLOGY = paid("tried")
STORE = TOPOLOGY.stores[0]
ORDERS, PAYMENTS = TOPOLOGY.source_topics


def records(orders: Iterable[Told], payments: Iterable[Told]) -> list[Record]:
    """Return the records of both streams."""
    sides = ((ORDERS, "item", orders), (PAYMENTS, "method", payments))
    return [
        Record(json.dumps({"order": on, name: what}).encode(), 0, offset, at_ms, None, topic)
        for topic, name, said in sides
        for offset, (on, at_ms, what) in enumerate(said)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_each_two_that_belong_together_are_found(spark: Spark, seed: int) -> None:
    chance = random.Random(seed)
    times = [0, 1, WITHIN_MS - 1, WITHIN_MS, WITHIN_MS + 1, 2 * WITHIN_MS, 3 * WITHIN_MS]
    orders, payments = (
        [Told(chance.choice("abc"), chance.choice(times), f"{name}{n}") for n in range(12)] for name in "ip"
    )
    driver = TopologyDriver(TOPOLOGY, spark.session)
    for each in records(orders, payments):
        driver.now = EPOCH + timedelta(milliseconds=each.at_ms)
        driver.send(str(each.topic), each.value)
    wanted = paid_of(orders, payments)
    assert {row["order"] for row in driver.rows()} == wanted.keys()
    assert {row["order"]: row["first"] for row in driver.rows()} == {on: first for on, (_, _, first) in wanted.items()}
    made = StoreOnFrames(spark.session, TOPOLOGY).records(records(orders, payments))
    pairs = [(each, other) for each in orders for other in payments if each.on == other.on]
    assert len(made) == len([1 for each, other in pairs if abs(each.at_ms - other.at_ms) <= WITHIN_MS])


@pytest.mark.parametrize(
    ("paid_at_ms", "is_joined"),
    [(-WITHIN_MS - 1, False), (-WITHIN_MS, True), (0, True), (WITHIN_MS, True), (WITHIN_MS + 1, False)],
)
def test_records_are_joined_as_far_apart_as_is_said_and_no_further(
    spark: Spark, paid_at_ms: int, *, is_joined: bool
) -> None:
    at_ms = 10 * WITHIN_MS
    made = StoreOnFrames(spark.session, TOPOLOGY).records(
        records([Told("a", at_ms, "pen")], [Told("a", at_ms + paid_at_ms, "card")])
    )
    assert [key for key, _, _ in made] == ([b"a"] if is_joined else [])


def test_a_row_is_of_the_later_of_its_records(spark: Spark) -> None:
    orders = [Told("first", 0, "pen"), Told("last", 20, "cup"), Told("same", 5, "hat")]
    payments = [Told("first", 10, "card"), Told("last", 10, "cash"), Told("same", 5, "bank")]
    found = StoreOnFrames(spark.session, TOPOLOGY).results(records(orders, payments))
    of = {key: (each.made.newest_ms, each.values["item"], each.values["method"]) for key, each in found.items()}

    def at(after_ms: int, offset: int, other_after_ms: int, value: str) -> AtPair:
        return AtPair(EPOCH_MS + after_ms, 0, offset, EPOCH_MS + other_after_ms, 0, offset, value)

    assert of == {
        "first": (EPOCH_MS + 10, at(10, 0, 0, "pen"), at(10, 0, 0, "card")),
        "last": (EPOCH_MS + 20, at(20, 1, 10, "cup"), at(20, 1, 10, "cash")),
        "same": (EPOCH_MS + 5, at(5, 2, 5, "hat"), at(5, 2, 5, "bank")),
    }


def test_a_row_has_nothing_of_two_pairs(spark: Spark) -> None:
    # Both come before the payment, which so is the later record of both pairs.
    orders = [Told("a", 0, "zebra"), Told("a", 5, "ant"), Told("b", 5, "ant"), Told("b", 5, "zebra")]
    driver = TopologyDriver(TOPOLOGY, spark.session)
    for each in records(orders, [Told("a", 10, "card"), Told("b", 10, "card")]):
        driver.now = EPOCH + timedelta(milliseconds=each.at_ms)
        driver.send(str(each.topic), each.value)
    assert [(row["order"], row["item"]) for row in driver.rows()] == [("a", "ant"), ("b", "zebra")]


def test_results_that_do_not_tell_the_other_record_go_behind_those_that_do() -> None:
    value = STORE.record.parse(json.dumps({**AT_OF_BEFORE, "first": "card"}).encode())
    told = At(10, 0, 3, "pen")._asdict()
    other = {"other_timestamp": 0, "other_partition": 0, "other_offset": 0}
    newer = STORE.record.parse(json.dumps({"item": {**told, **other}, "method": None, "first": "card"}).encode())
    assert STORE.record.merge(value, newer)["item"] == newer["item"]


AT_OF_BEFORE = {name: At(10, 0, 3, "zip")._asdict() for name in ("item", "method")}


def test_the_driver_goes_on_from_step_to_step_and_leaves_out_what_is_too_late(spark: Spark) -> None:
    driver = TopologyDriver(TOPOLOGY, spark.session)

    def send(topic: str, at_ms: int, **said: str) -> None:
        driver.now = EPOCH + timedelta(milliseconds=at_ms)
        driver.send(topic, said)

    send(ORDERS, 0, order="a", item="pen")
    assert driver.rows() == []
    send(PAYMENTS, 100_000, order="a", method="card")
    paid_a = {"order": "a", "item": "pen", "method": "card", "first": "card"}
    assert driver.rows() == [paid_a]
    send(PAYMENTS, 120_000, order="a", method="bank")
    assert driver.rows() == [{**paid_a, "method": "bank", "first": "bank"}]
    for topic, name in ((ORDERS, "item"), (PAYMENTS, "method")):
        send(topic, 10 * WITHIN_MS, order="z", **{name: "it"})
    driver.rows()
    send(ORDERS, 110_000, order="a", item="late")
    assert driver.row("a") == {**paid_a, "method": "bank", "first": "bank"}


def test_what_cannot_be_used_goes_to_the_dead_letters_of_its_source(spark: Spark) -> None:
    driver = TopologyDriver(TOPOLOGY, spark.session)
    driver.send(ORDERS, b"nothing", {"order": "", "item": "pen"})
    driver.send(PAYMENTS, {"order": "a", "item": "pen"})
    assert sorted(driver.dead_letters) == [
        DeadLetter(ORDERS, b"nothing", "not a JSON object"),
        DeadLetter(ORDERS, b'{"order":"","item":"pen"}', NO_KEY),
        DeadLetter(PAYMENTS, b'{"order":"a","item":"pen"}', "method is missing or no text"),
    ]


def test_results_merge_across_generations_and_a_repeat_changes_nothing() -> None:
    def result(generation: int, at_ms: int, item: str, first: str) -> Result:
        at = AtPair(at_ms, 0, 0, at_ms, 0, 0, item)
        return Result(Made(generation, newest_ms=at_ms), {"item": at, "method": at, "first": first})

    one, other = result(1, 10, "pen", "bank"), result(2, 5, "cup", "atm")
    record = STORE.record
    merged = merge(record, one, other)
    assert merged == merge(record, other, one)
    assert merged.values == {**one.values, "first": "atm"}
    assert merge(record, merged, other) == merge(record, merged, one) == merged
    assert stands_for(record, result(2, 10, "pen", "bank"), one)
    assert not stands_for(record, other, merged)


A, B = Stream("a", Json({"on": Text, "x": Int64})), Stream("b", Json({"on": Text, "y": Int64}))

TEXTS = Stream("a", PlainText())


def declared(join: Joined | None = None, pace: str = "1 second", **attributes: Any) -> Topology:
    made = {"values": {"x": Latest("x"), "y": Max("y")}, **attributes}
    source = join or Joined(A, B, on="on", within="1 minute")
    return Topology("t", source, [Store("s", "s", Key("on", Text), **made)], pace=pace)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: declared(pace="real time"), r'joins a and b and runs in real time.*give the topology pace="1 second"'),
        (lambda: declared(values={"n": Count()}), r"store s has n: Count of streams that are joined.*Latest, Min or"),
        (lambda: declared(values=STORE.record), r"store s has Fields of streams that are joined"),
        (lambda: declared(window=Tumbling("1 hour")), r"has a window, and its rows are of streams that are joined"),
        (lambda: declared(values={"z": Latest("z")}), r"wants column z, which the join of a and b does not have"),
        (lambda: Joined(A, B, on="id", within="1 minute"), r"joined on id, which a does not have \(it has on, x\)"),
        (lambda: Joined(A, B, on="on", within="soon"), r"a and b are joined with within 'soon': give a length of time"),
        (lambda: Joined(A, B, on="on", within="0 seconds"), r"within '0 seconds'"),
        (
            lambda: Joined(A, Stream("b", Json({"on": Int64})), on="on", within="1 minute"),
            r"joined on on, which is string and bigint: give it one type",
        ),
        (
            lambda: Joined(A, Stream("b", Json({"on": Text, "x": Text})), on="on", within="1 minute"),
            r"joined with column x in both: leave the field out of one",
        ),
        (lambda: declared(Joined(A, A, on="on", within="1 minute")), r"joined with column x in both"),
        (
            lambda: declared(Joined(TEXTS, TEXTS, on="text", within="1 minute"), values={"t": Latest("text")}),
            r"names topic a twice",
        ),
    ],
)  # fmt: skip
def test_what_cannot_run_is_refused_when_it_is_declared(make: Any, said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        make()

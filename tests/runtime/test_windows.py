"""Windows: which an event lies in, what is counted in each, which are kept, and what a generation begins with."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from runtime import Count, Decimal, Hopping, Json, Key, PlainText, Recent, Store, Stream, Sum, Text, Topology, Tumbling
from runtime.errors import DeclarationError
from runtime.results import Result
from runtime.results import merge as merge_results
from runtime.spark.rows import AHEAD_MS, unusable
from runtime.spark.session import Spark
from runtime.testing.frames import EPOCH_MS, Record, ResultRecord, StoreOnFrames, records_frame
from runtime.types import FIRST_MS
from runtime.values import Value
from runtime.windows import Windows

SEED = random.randrange(2**32)
_MINUTE_MS = 60_000
SPENT = Hopping("10 minutes", "4 minutes", keep="20 minutes")


def spending(window: Windows, values: dict[str, Value] | None = None) -> Topology:
    """Return a topology that adds up what each customer spends, in windows."""
    return Topology(
        "spending",
        source=Stream("payments", Json({"amount": Decimal(2)}), key=Key("customer", Text)),
        stores=[
            Store(
                "spent",
                topic="spent",
                key=Key("customer", Text),
                values=values or {"total": Sum("amount"), "payments": Count()},
                window=window,
            )
        ],
    )


def payment(customer: str, cents: int, partition: int, offset: int, at_ms: int) -> Record:
    """Return the record of a payment."""
    return Record(f'{{"amount":{cents / 100}}}'.encode(), partition, offset, at_ms, customer.encode())


def by_hand(records: Iterable[Record], window: Windows) -> dict[tuple[str, int], tuple[int, int]]:
    """Return cents and payments of each customer and window, from EPOCH on: every window that may be is looked at."""
    cents, payments = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    for record in records:
        customer, amount = (record.key or b"").decode(), json.loads(record.value or b"")["amount"]
        at_ms = EPOCH_MS + record.at_ms
        first = (at_ms - window.size_ms) // window.every_ms * window.every_ms
        for start in range(first, at_ms + 1, window.every_ms):
            if start <= at_ms < start + window.size_ms:
                cents[customer, start] += round(amount * 100)
                payments[customer, start] += 1
    return {each: (cents[each], payments[each]) for each in payments}


def as_by_hand(results: dict[Any, Result]) -> dict[tuple[str, int], tuple[int, int]]:
    """Return results as `by_hand` has them."""
    return {
        (key.key, key.start_ms): (int(result.values["total"] * 100), result.values["payments"])
        for key, result in results.items()
    }


def some_payments(chance: random.Random, count: int, hours: int = 2) -> list[Record]:
    """Return payments of a few customers in two partitions, their times out of order."""
    offsets = [0, 0]
    found = []
    for _ in range(count):
        partition = chance.randrange(2)
        customer = chance.choice(["ada", "b@b", "grace/h", "🙂"])
        at_ms = chance.randrange(hours * 3_600_000)
        found.append(payment(customer, chance.randrange(1, 5000), partition, offsets[partition], at_ms))
        offsets[partition] += 1
    return found


@pytest.mark.parametrize(
    "window", [SPENT, Tumbling("1 hour"), Hopping("5 seconds", "2 seconds"), Hopping("1 hour", "1 hour")]
)
def test_each_event_counts_in_every_window_that_it_lies_in(spark: Spark, window: Windows) -> None:
    records = some_payments(random.Random(SEED), 60)
    made = StoreOnFrames(spark.session, spending(window)).results(records)
    assert as_by_hand(made) == by_hand(records, window), f"seed {SEED}"


def test_the_edges_of_a_window_are_its_start_and_before_its_end(spark: Spark) -> None:
    at = [0, 1, 239_999, 240_000, 599_999, 600_000]
    records = [payment("ada", 100, 0, offset, at_ms) for offset, at_ms in enumerate(at)]
    made = as_by_hand(StoreOnFrames(spark.session, spending(SPENT)).results(records))
    assert {start - EPOCH_MS: payments for (_, start), (_, payments) in made.items()} == {
        -480_000: 2, -240_000: 4, 0: 5, 240_000: 3, 480_000: 2,
    }  # fmt: skip


def test_all_windows_of_a_key_are_in_the_partition_of_the_key(spark: Spark) -> None:
    store = StoreOnFrames(spark.session, spending(SPENT))
    rows = store.query(some_payments(random.Random(SEED), 40)).collect()
    assert len({row.partition for row in rows}) > 1
    for row in rows:
        key = store.store.row_key.parse(row.key)
        assert row.partition == store.store.partition_for(key.key, store.store.partitions)


@pytest.mark.parametrize("cut", [1, 7, 30, 59])
def test_a_generation_goes_on_with_the_windows_that_are_published(spark: Spark, cut: int) -> None:
    records = some_payments(random.Random(SEED), 60)
    topology = spending(SPENT)
    published = StoreOnFrames(spark.session, topology).records(records[:cut])
    later = StoreOnFrames(spark.session, topology, generation=2)
    later.seed = later.seed_of(published)
    assert as_by_hand(later.results(records)) == by_hand(records, SPENT), f"seed {SEED}"


def test_a_list_in_a_window_goes_on_with_what_is_published(spark: Spark) -> None:
    records = [payment("ada", cents, 0, cents, cents * _MINUTE_MS) for cents in range(1, 9)]
    topology = spending(SPENT, {"last": Recent(2, "amount")})
    published = StoreOnFrames(spark.session, topology).records(records[:5])
    later = StoreOnFrames(spark.session, topology, generation=2)
    later.seed = later.seed_of(published)

    def last(results: dict[Any, Result]) -> dict[int, list[float]]:
        return {key.start_ms: [float(at.value) for at in result.values["last"]] for key, result in results.items()}

    whole = last(StoreOnFrames(spark.session, topology).results(records))
    assert last(later.results(records)) == whole


def test_a_generation_takes_up_no_window_that_was_let_go(spark: Spark) -> None:
    records = some_payments(random.Random(SEED), 60, hours=3)
    topology = spending(SPENT)
    published = StoreOnFrames(spark.session, topology).records(records)
    stream_ms = EPOCH_MS + max(record.at_ms for record in records)
    later = StoreOnFrames(spark.session, topology, generation=2, stream_ms=stream_ms)
    kept = [record for record in published if int(record[0].rpartition(b"@")[2]) % (8 * _MINUTE_MS)]
    later.seed = later.seed_of(kept)
    found = as_by_hand(later.results(records))
    expected = {
        (key, start): each
        for (key, start), each in by_hand(records, SPENT).items()
        if start + SPENT.size_ms + SPENT.keep_ms > stream_ms
    }
    assert found == expected, f"seed {SEED}"


def test_what_is_no_key_of_a_window_is_no_result(spark: Spark) -> None:
    store = StoreOnFrames(spark.session, spending(SPENT))
    (key, value, headers), *_ = store.records([payment("ada", 100, 0, 0, 0)])
    start = int(key.rpartition(b"@")[2])
    others = [b"ada", b"ada@", b"@%d" % start, b"@", b"ada@%d" % (start + 1), b"ada@0%d" % start, b"ada@x"]
    records: list[ResultRecord] = [(other, value, headers) for other in others]
    assert store.published([(key, value, headers), *records]).count() == 1


def test_a_record_from_the_future_is_a_dead_letter_by_the_clock_of_its_batch(spark: Spark) -> None:
    topology = spending(SPENT)
    records = records_frame(spark.session, [payment("ada", 100, 0, offset, at) for offset, at in enumerate((0, 1, 2))])
    found = unusable(topology, topology.stores[0], records, as_of_ms=EPOCH_MS + 1 - AHEAD_MS).collect()
    assert [(row.offset, row.reason) for row in found] == [(2, "the timestamp is more than an hour ahead of the clock")]
    early = records_frame(spark.session, [payment("ada", 100, 0, 0, FIRST_MS + _MINUTE_MS - EPOCH_MS)])
    assert [row.reason for row in unusable(topology, topology.stores[0], early).collect()] == [
        "the timestamp is of no year that a window can be of"
    ]


def test_of_two_results_of_a_window_that_counts_which_counts_more(spark: Spark) -> None:
    records = some_payments(random.Random(SEED), 30)
    store = StoreOnFrames(spark.session, spending(SPENT))
    fewer, all_of_them = store.results(records[:20]), store.results(records)
    for key, result in fewer.items():
        held = merge_results(store.store.record, all_of_them[key], result)
        assert held == all_of_them[key]
        assert merge_results(store.store.record, result, all_of_them[key]) == all_of_them[key]


@pytest.mark.parametrize(
    ("window", "says"),
    [
        (lambda: Hopping("5 seconds", "6 seconds"), "what lies between is in none"),
        (lambda: Hopping("1 day", "1 minute"), "in more than 1000 windows"),
        (lambda: Tumbling("5 parsecs"), 'as "5 seconds"'),
        (lambda: Tumbling("0 seconds"), "size '0 seconds'"),
        (lambda: Tumbling("5 seconds", keep="1 minute", grace="2 minutes"), "keep longer"),
        (lambda: Tumbling(5), "size 5"),  # type: ignore[arg-type]
    ],
)
def test_windows_that_cannot_be_say_what_to_change(window: Any, says: str) -> None:
    with pytest.raises(DeclarationError, match=says):
        window()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"window": "1 hour"}, "give Tumbling"),
        ({"values": {"windowStart": Count()}}, "windowStart"),
        ({"key": Key("windowEnd", Text)}, "windowEnd"),
    ],
)
def test_a_store_whose_windows_cannot_be_says_what_to_change(change: dict[str, Any], says: str) -> None:
    declared: dict[str, Any] = {
        "key": Key("text", Text), "values": {"count": Count()}, "window": Tumbling("1 hour"), **change,
    }  # fmt: skip
    with pytest.raises(DeclarationError, match=says):
        Topology("t", Stream("lines", PlainText()), [Store("s", topic="out", **declared)])

"""The law of each value that comes with the runtime, of every type that it takes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal as Exact
from typing import Any

import pytest
from pyspark.sql import Column
from pyspark.sql import functions as F

from runtime import (
    Average,
    Boolean,
    Count,
    Decimal,
    Double,
    Int64,
    Latest,
    Max,
    Min,
    Recent,
    Sum,
    Text,
    Timestamp,
    Value,
)
from runtime.errors import InvalidRecord
from runtime.records import json_bytes
from runtime.spark.session import Spark
from runtime.testing import check_value
from runtime.values import Fields
from tests.drivers.longest import Longest

Row = Mapping[str, Any]


def of(*values: Any) -> list[Row]:
    """Return a row for each value of the column x."""
    return [{"x": value} for value in values]


def at(*rows: tuple[int, int, int, Any]) -> list[Row]:
    """Return a row for each timestamp, partition, offset and value of the column x."""
    return [{"at": place, "x": value} for *place, value in rows]


PRICES = of(*map(Exact, ("0.10", "0.20", "-5.00", "9999999999999999.99")), None)
DAY = datetime(2026, 11, 25, 20, 0, 0, 123456, UTC)
LATE = at(
    (50, 1, 0, "first of 1"),
    (70, 0, 3, "latest"),
    (70, 0, 4, None),
    (60, 1, 1, "late"),
    (70, 1, 2, "of the higher partition"),
    (70, 1, 3, "behind it"),
    (10, 0, 5, "oldest"),
)

LAWS: list[tuple[Value, Sequence[Row], Any]] = [
    (Count(), of(1, 2, 3), 3),
    (Count("x"), of(2, None, 5), 7),
    (Sum("x", Decimal(2)), PRICES, Exact("9999999999999995.29")),
    (Sum("x", Decimal(9)), of(Exact("0.000000001"), Exact("-0.000000001")), Exact("0.000000000")),
    (Sum("x", Int64), of(2**63 - 1, 2**63 - 1, None, 7), 2**64 + 5),
    (Sum("x", Int64), of(-(2**63), -(2**63)), -(2**64)),
    (Sum("x", Double), of(0.1, 0.2, None, 1e300), 1e300),
    (Sum("x", Double), of(1.7e308, 1.7e308, float("nan"), float("inf"), 1.0), 1.7976931348623157e308),
    (Sum("x", Double), of(-1.7e308, -1.7e308), -1.7976931348623157e308),
    (Sum("x", Decimal(2)), of(None, None), Exact("0.00")),
    (Sum("x", Double), of(None, None), 0.0),
    (Average("x", Decimal(2)), of(*map(Exact, ("55", "50", "45", "40"))), Exact("47.500000")),
    (Average("x", Decimal(0)), of(Exact(1), Exact(1), None, Exact(0)), Exact("0.6667")),
    (Average("x", Decimal(0)), of(*map(Exact, (-1, -1, 0))), Exact("-0.6667")),
    (Average("x", Int64), of(1, 2, None), 1.5),
    (Average("x", Double), of(0.5, 1.0), 0.75),
    (Average("x", Double), of(None, None), None),
    (Min("x", Int64), of(3, -5, None), -5),
    (Max("x", Int64), of(3, -5, None), 3),
    (Max("x", Int64), of(None, None), None),
    (Min("x", Text), of("ä", "z", "Z", "𝄞", "\ufffd"), "Z"),
    (Max("x", Text), of("ä", "z", "Z", "𝄞", "\ufffd"), "𝄞"),
    (Min("x", Text), of("", "a"), ""),
    (Min("x", Decimal(2)), PRICES, Exact("-5.00")),
    (Max("x", Decimal(2)), PRICES, Exact("9999999999999999.99")),
    (Max("x", Double), of(float("nan"), float("inf"), -0.0, None), 0.0),
    (Max("x", Boolean), of(False, True, None), True),
    (Min("x", Boolean), of(False, True, None), False),
    (Max("x", Timestamp), of(DAY, DAY.replace(year=1), DAY.replace(year=9998)), "9998-11-25T20:00:00.123Z"),
    (Min("x", Timestamp), of(DAY, DAY.replace(year=1), DAY.replace(year=9998)), "0001-11-25T20:00:00.123Z"),
    (Latest("x", Text), LATE, "behind it"),
    (Latest("x", Text), of(None, None), None),
    (Latest("x", Decimal(2)), PRICES, Exact("9999999999999999.99")),
    (Latest("x", Timestamp), of(DAY, None), "2026-11-25T20:00:00.123Z"),
    (Latest("x", Boolean), of(True, False), False),
    (Latest("x", Int64), at((5, 0, 0, 1), (5, 1, 0, 2), (5, 0, 1, 3)), 2),
    (Recent(3, "x", Text), LATE, ["latest", "of the higher partition", "behind it"]),
    (Recent(1, "x", Text), LATE, ["behind it"]),
    (Recent(100, "x", Int64), of(*range(12)), list(range(12))),
    (Recent(4, "x", Int64), of(*range(30)), [26, 27, 28, 29]),
    (Recent(2, "x", Text), of(None, None), []),
    (Recent(2, "x", Double), of(0.5, float("inf"), 1.5), [0.5, 1.5]),
    (Recent(2, "x", Decimal(1)), of(Exact("0.5"), Exact("1.5")), [Exact("0.5"), Exact("1.5")]),
]


@pytest.mark.parametrize(("value", "rows", "served"), LAWS, ids=lambda part: repr(part)[:60])
def test_the_law_of_a_value_holds(spark: Spark, value: Value, rows: Sequence[Row], served: Any) -> None:
    found = check_value(spark.session, value, rows)
    assert (found, type(found)) == (served, type(served))


class WrongMerge(Max):
    """A maximum that keeps what it holds."""

    def merge(self, held: Any, new: Any) -> Any:  # noqa: ARG002
        return held


class Doubled(Count):
    """A count that counts what was published twice."""

    def aggregate(self, part: Column) -> Column:
        return F.sum(part) + F.max(part) - 1


class LastSeen(Max):
    """What came last, which is no maximum."""

    def aggregate(self, part: Column) -> Column:
        return F.last(part)


class Unwritten(Max):
    """A maximum that Python writes in another way than it reads."""

    def to_json(self, value: Any) -> Any:
        return value + 1


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (WrongMerge("x", Int64), "merge the other way round|Python, of the first"),
        (Doubled("x"), "rows as published and of all rows"),
        (LastSeen("x", Int64), "Python, of the first"),
        (Unwritten("x", Int64), "what Python writes of"),
    ],
)
def test_a_value_whose_law_does_not_hold_is_found(spark: Spark, value: Value, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check_value(spark.session, value, of(3, 2, 2))


def test_the_law_of_ones_own_value_is_checked_in_a_line(spark: Spark) -> None:
    assert check_value(spark.session, Longest(), [{"text": "a"}, {"text": None}, {"text": "abc"}]) == 3


def test_rows_that_no_partition_has_are_refused(spark: Spark) -> None:
    with pytest.raises(ValueError, match="the offsets of partition 0 have to ascend"):
        check_value(spark.session, Max("x", Int64), at((0, 0, 1, 1), (0, 0, 0, 2)))


# What is served, without Spark


def served(value: Value, said: object) -> bytes:
    """Return the served JSON of a value, of the JSON that a record has."""
    fields = Fields({"x": value})
    row = fields.row(json.dumps({"x": "%"}).replace('"%"', str(said)).encode())
    assert fields.row_of(fields.parse(json_bytes({"x": None}).replace(b"null", str(said).encode()))) == row
    return json_bytes(row)


@pytest.mark.parametrize(
    ("value", "said", "shown"),
    [
        (Sum("x", Decimal(2)), "30.00", b"30.00"),
        (Sum("x", Decimal(2)), "123456789012345678901234567890123456.78", b"123456789012345678901234567890123456.78"),
        (Sum("x", Decimal(12)), "0E-12", b"0.000000000000"),
        (Sum("x", Decimal(2)), "30", b"30.00"),
        (Sum("x", Int64), "18446744073709551616", b"18446744073709551616"),
        (Sum("x", Double), "1.0E10", b"10000000000.0"),
        (Max("x", Decimal(2)), "null", b"null"),
        (Max("x", Timestamp), '"2026-11-25T20:00:00.000Z"', b'"2026-11-25T20:00:00.000Z"'),
        (Average("x", Decimal(2)), '{"sum":10.00,"count":3}', b"3.333333"),
        (Average("x", Decimal(2)), '{"sum":0.00,"count":0}', b"null"),
        (Average("x", Decimal(2)), '{"sum":-0.01,"count":100000}', b"0.000000"),
        (Average("x", Int64), '{"sum":10,"count":4}', b"2.5"),
        (Latest("x", Decimal(2)), '{"timestamp":1,"partition":0,"offset":5,"value":1.50}', b"1.50"),
        (Recent(2, "x", Text), '[{"timestamp":1,"partition":0,"offset":5,"value":"a"}]', b'["a"]'),
    ],
)
def test_what_is_served_of_a_record_has_all_its_digits(value: Value, said: str, shown: bytes) -> None:
    assert served(value, said) == b'{"x":' + shown + b"}"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Sum("x", Decimal(2)), "null"),
        (Sum("x", Decimal(2)), "1.005"),
        (Sum("x", Decimal(2)), '"1.00"'),
        (Sum("x", Decimal(2)), "true"),
        (Sum("x", Decimal(2)), "1e37"),
        (Sum("x", Decimal(2)), "1e999999999999999999999"),
        (Sum("x", Double), "1e400"),
        (Sum("x", Int64), "1.5"),
        (Max("x", Int64), "9223372036854775808"),
        (Max("x", Text), "5"),
        (Max("x", Text), '"\\ud800"'),
        (Max("x", Timestamp), '"2026-02-30T00:00:00Z"'),
        (Average("x", Int64), "5"),
        (Average("x", Int64), '{"sum":5}'),
        (Latest("x", Int64), '{"timestamp":1,"partition":0,"offset":5}'),
        (Latest("x", Int64), "5"),
        (Recent(2, "x", Text), "null"),
        (Recent(2, "x", Text), "5"),
        (Recent(2, "x", Text), '["a"]'),
    ],
)
def test_a_record_that_is_no_such_value_is_refused(value: Value, said: str) -> None:
    with pytest.raises(InvalidRecord, match="not a result"):
        Fields({"x": value}).parse(f'{{"x":{said}}}'.encode())

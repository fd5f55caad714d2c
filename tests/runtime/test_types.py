"""Types of columns: what Python and Spark make of a value is the same, and no digit is lost on the way."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal as Exact
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F

from runtime import Boolean, Decimal, Double, Int64, Key, Table, Text, Timestamp
from runtime.declaration import DeclarationError
from runtime.errors import InvalidRecord
from runtime.records import json_bytes, json_object
from runtime.spark import casts
from runtime.spark.session import Spark
from runtime.stores.table_rows import TableRow, certain_fields
from runtime.table_records import parse_row
from runtime.types import ColumnType

FIELDS: dict[str, ColumnType] = {
    "name": Text, "age": Int64, "price": Decimal(2), "weight": Double, "sold": Boolean, "since": Timestamp,
}  # fmt: skip
WARES = Table("wares", Key("ware", Text), FIELDS)
EXACT = st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**16) + 1, max_value=10**16 - 1)

NUMBERS = [
    "0", "-0", "0.0", "-0.00", "5", "-5", "5.1", "5.10", "5.100", "5.101", "0.05", "00", "05", "+5", " 5", "5 ", "5.",
    ".5", "5d", "5e2", "5E-2", "1e400", "NaN", "Infinity", "", "1,000", "0x5", "9999999999999999.99",
    "99999999999999999.99", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "123456789012345678", "1234567890123456789", "0.000000000000000001",
    "5.00000000000000000000000000000000000000001", "\u0665", "1_0", "true",
]  # fmt: skip
TIMES = [
    "2026-11-25T20:00:00Z", "2026-11-25T20:00:00.5Z", "2026-11-25T20:00:00.123456789+01:30",
    "2026-11-25T20:00:00-17:59", "2026-11-25T20:00:00", "2026-11-25", "2026-11-25 20:00:00Z", "2026-02-29T00:00:00Z",
    "2024-02-29T00:00:00Z", "2026-02-30T00:00:00Z", "2026-13-01T00:00:00Z", "2026-11-25T24:00:00Z",
    "2026-11-25T23:59:60Z", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+00:01", "0000-12-31T23:59:59Z",
    "9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59-00:01", "1969-12-31T23:59:59.9999Z", "2026-11-25T20:00:00+1:00",
    "now", "", "2026-11-25T20:00Z", "12026-11-25T20:00:00Z", "1500-02-28T12:00:00Z",
]  # fmt: skip
MILLISECONDS = [
    0,
    -1,
    1_764_100_800_123,
    -62_135_596_800_000,
    -62_135_596_800_001,
    253_402_300_799_999,
    253_402_300_800_000,
]


def checked(of_type: ColumnType, value: Any) -> Any:
    """Return what Python makes of a value, None where it refuses it."""
    try:
        return of_type.check(value)
    except (TypeError, ValueError, ArithmeticError):
        return None


def said(text: str) -> Any:
    """Return the number that a text is in JSON, None where it is none."""
    if text != text.strip():
        return None
    try:
        return json_object(b'{"x":%b}' % text.encode(), exact=True)["x"]
    except InvalidRecord:
        return None


def test_spark_and_python_take_the_same_texts_for_the_same_values(spark: Spark) -> None:
    texts = [*NUMBERS, *TIMES, *map(str, MILLISECONDS)]
    text = F.col("text")
    types = {"integer": Int64, "double": Double, "two": Decimal(2), "none": Decimal(0), "all": Decimal(18)}
    frame = spark.session.createDataFrame(pa.table({"text": texts})).select(
        "text",
        casts.integer(text).alias("integer"),
        casts.finite(text).alias("double"),
        *(casts.decimal(text, digits).alias(name) for name, digits in (("two", 2), ("none", 0), ("all", 18))),
        F.date_format(casts.timestamp(text), "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'").alias("time"),
    )
    rows = {row["text"]: row for row in frame.collect()}
    for number in NUMBERS:
        for name, of_type in types.items():
            python, of_spark = checked(of_type, said(number)), rows[number][name]
            if name == "integer" and number == "-0":
                # In quotes, as all texts here are, it is no integer.
                python = None
            if name in ("two", "none", "all") and "e" in number.lower():
                # An exponent, too, is read in a record of Spark's own alone.
                python = None
            assert (python, repr(python)) == (of_spark, repr(of_spark)), (name, number)
    for time in TIMES:
        assert checked(Timestamp, time) == rows[time]["time"], time
    for milliseconds in MILLISECONDS:
        assert checked(Timestamp, milliseconds) == rows[str(milliseconds)]["time"], milliseconds


@given(EXACT)
def test_a_decimal_is_the_same_number_in_json(value: Exact) -> None:
    written = json_bytes({"price": value, "of": [{"a": (value, None)}], 'q"': "x", "n": 0.1})
    assert json_object(written, exact=True) == {
        "price": value,
        "of": [{"a": [value, None]}],
        'q"': "x",
        "n": Exact("0.1"),
    }
    assert json.loads(written)["price"] == float(value)
    assert b"E" not in written
    assert Decimal(2).check(json_object(written, exact=True)["price"]) == value


def test_json_without_a_decimal_is_what_pythons_encoder_makes_of_it() -> None:
    value = {"a": [1, 2.5, None, True, "ä"], 7: {"b": ()}}
    assert json.loads(json_bytes(value)) == json.loads(json.dumps(value))
    assert json.loads(json_bytes({**value, "c": Exact(1)})) == json.loads(json.dumps({**value, "c": 1}))
    row = MappingProxyType({"a": Exact("1.50"), "b": MappingProxyType({"c": 1})})
    assert json_bytes([row]) == b'[{"a":1.50,"b":{"c":1}}]'
    assert json_bytes(MappingProxyType({"a": 1})) == b'{"a":1}'
    with pytest.raises(TypeError, match="set is no JSON"):
        json_bytes({"a": Exact(1), "b": set()})
    with pytest.raises(ValueError, match="Out of range float values are not JSON compliant"):
        json_bytes({"a": float("nan")})


@given(EXACT, st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**63), 2**63 - 1), st.text())
def test_a_row_of_a_table_is_kept_with_all_its_digits(price: Exact, weight: float, age: int, name: str) -> None:
    if not name.isascii() and any("\ud800" <= each <= "\udfff" for each in name):
        return
    row = {"name": name, "age": age, "price": price, "weight": weight, "sold": True, "since": 1_764_100_800_000}
    key, fields = parse_row(WARES, b"x", json_bytes(row))
    assert key == "x"
    assert fields == row | {"since": "2025-11-25T20:00:00.000Z"}
    kept = certain_fields(TableRow(fields, 5, 7).encode())
    assert kept == fields
    assert [type(each) for each in dict(kept or {}).values()] == [str, int, Exact, float, bool, str]
    assert str((kept or {})["price"]) == f"{price:f}"


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("price", "5.001", "price is missing or no decimal of at most 2 digits behind the point"),
        ("price", '"5"', "price is missing or no decimal of at most 2 digits behind the point"),
        ("price", "1e99", "price is missing or no decimal of at most 2 digits behind the point"),
        ("weight", "1e400", "weight is missing or no finite number"),
        ("sold", "1", "sold is missing or no boolean"),
        ("since", '"2026-11-25"', "since is missing or no time: ISO 8601 with a zone, or milliseconds"),
    ],
)
def test_a_field_of_a_table_that_is_none_of_its_type_says_so(field: str, value: str, reason: str) -> None:
    good = {"name": '"a"', "age": "1", "price": "1.5", "weight": "2", "sold": "true", "since": "0"} | {field: value}
    fields = ",".join(f'"{name}":{each}' for name, each in good.items())
    with pytest.raises(InvalidRecord) as refused:
        parse_row(WARES, b"x", b"{" + fields.encode() + b"}")
    assert refused.value.reason == reason


@pytest.mark.parametrize("digits", [-1, 19, 2.0, True, "2"])
def test_a_decimal_says_how_many_digits_it_may_have(digits: Any) -> None:
    with pytest.raises(DeclarationError, match=r"say how many digits stand behind the point, 0 to 18"):
        Decimal(digits)


def test_types_are_equal_and_named_by_what_they_hold() -> None:
    assert Decimal(2) == Decimal(2)
    assert Decimal(2) != Decimal(3)
    assert len({Decimal(2), Decimal(2), Text, Int64}) == 3
    assert (
        repr([Text, Int64, Decimal(2), Double, Boolean, Timestamp])
        == "[Text, Int64, Decimal(2), Double, Boolean, Timestamp]"
    )
    assert Timestamp.check(int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)) == "2026-01-01T00:00:00.000Z"

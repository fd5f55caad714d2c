"""Records that are JSON objects of declared fields: which are used, as what, and why the others are not."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal as Exact
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime import Boolean, Decimal, Double, Int64, Json, Key, PlainText, Stream, Text, Timestamp
from runtime.declaration import DeclarationError
from runtime.records import (
    FURTHEST_MS,
    LARGEST_BYTES,
    NO_KEY,
    NO_VALUE,
    NOT_AN_ID,
    NOT_JSON_OBJECT,
    NOT_UTF8,
    TIMESTAMP_REASON,
    TOO_LARGE,
    is_unicode,
)
from runtime.spark.beside_value import EARLIEST_MS
from runtime.spark.results import with_at
from runtime.spark.session import Spark
from runtime.types import ColumnType

FIELDS: dict[str, ColumnType] = {
    "user": Text, "amount": Decimal(2), "count": Int64, "weight": Double, "sold": Boolean, "time": Timestamp,
}  # fmt: skip
NEEDED = Json({"user": Text, "amount": Decimal(2)})
OPTIONAL = Json(FIELDS, optional=FIELDS)
INSTANT = datetime(2026, 11, 25, 20, 0, 0, 123000, UTC)
NO_DECIMAL = "no decimal of at most 2 digits behind the point"
SEED = 20261125
MUTANTS = 3_000

Record = tuple[bytes | None, bytes | None, int]
"""Key, value, milliseconds from 1970."""


def frame(spark: Spark, records: Sequence[Record]) -> DataFrame:
    table = pa.table(
        {
            "key": pa.array([key for key, _, _ in records], pa.binary()),
            "value": pa.array([value for _, value, _ in records], pa.binary()),
            "partition": pa.array([0] * len(records), pa.int32()),
            "offset": pa.array(range(len(records)), pa.int64()),
            "ms": pa.array([ms for _, _, ms in records], pa.int64()),
        }
    )
    return spark.session.createDataFrame(table).withColumn("timestamp", F.timestamp_millis("ms"))


def judged(spark: Spark, stream: Stream, records: Sequence[Record]) -> list[tuple[str | None, tuple[Any, ...]]]:
    """Return the reason and the declared columns of each record."""
    found = stream.judge(frame(spark, records)).withColumn("reason_", F.col("reason"))
    rows = with_at(found, [stream.topic]).orderBy("at.offset").drop("at").collect()
    return [(row["reason_"], tuple(row[name] for name in stream.columns)) for row in rows]


def values(spark: Spark, form: Json, each: Sequence[bytes | None]) -> list[tuple[str | None, tuple[Any, ...]]]:
    return judged(spark, Stream("events", form), [(None, value, 0) for value in each])


def read(one: bytes) -> list[bytes]:
    """Return an object as it is, and so that it is left to the JSON reader."""
    more = b'"\\u0078": [1, {"y": "}"}]' + (b"" if one == b"{}" else b", ")
    return [one, one.replace(b"{", b"{" + more, 1), b"\0\0\0\0\7" + one]


USED: list[tuple[bytes, tuple[Any, ...]]] = [
    (b'{"user":"a","amount":5}', ("a", Exact("5.00"))),
    (b' {"amount" : 12.5 ,\n"user":"" } ', ("", Exact("12.50"))),
    (b'{"user":"a","amount":"5.10"}', ("a", Exact("5.10"))),
    (b'{"user":"a","amount":-0.05,"x":null,"y":true}', ("a", Exact("-0.05"))),
    (b'{"user":"a","amount":-0}', ("a", Exact("0.00"))),
    (b'{"user":"a","amount":5.1000}', ("a", Exact("5.10"))),
    (b'{"user":"a","amount":9999999999999999.99}', ("a", Exact("9999999999999999.99"))),
    (b'{"user":"a","amount":-9999999999999999.99}', ("a", Exact("-9999999999999999.99"))),
    (b'{"user":"x","user":"a","amount":"x","amount":1}', ("a", Exact("1.00"))),
    ('{"user":"ä𝄞, user: \'5\'","amount":1}'.encode(), ("ä𝄞, user: '5'", Exact("1.00"))),
    (b'{"xuser":"b","user":"null","amountx":2,"amount":1}', ("null", Exact("1.00"))),
    (b'{"user":"5","amount":1}', ("5", Exact("1.00"))),
    (b'{"user":"a\\"b\\u00e4\\n","amount":1}', ('a"bä\n', Exact("1.00"))),
]
BAD_AMOUNTS = [
    b"null", b"5.001", b"5e2", b"0.5E1", b"1e400", b"99999999999999999.99", b'" 5"', b'"5."', b'".5"', b'"05"', b'"+5"',
    b'"5d"', b'"1,000"', b'"NaN"', b'""', b"true", b"[5]", b'{"a":5}', b"5." + b"0" * 50 + b"1", b"9" * 40,
]  # fmt: skip
BAD_USERS = [b"null", b"5", b"5.5", b"true", b'["a"]', b'{"a":"b"}', b'"\\ud800"']
BEHIND = [b"xx", b"{}", b",", b"]", b"}", b'"', b"\0", b" x", b',"x":1', b'{"user":"b","amount":2}']
NO_JSON = [
    b"null", b"5", b"[]", b" ", b'[{"user":"a","amount":1}]', b'{"user":"a","amount":1', b"{'user':'a','amount':1}",
    b'{user:"a","amount":1}', b'{"user":"a","amount":1,}', b'{"user":"a","amount":01}', b'{"user":"a","amount":+1}',
    b'{"user":"a","amount":NaN}', b'{"user":"a","amount":1,"x":NaN}', b'{"user":"a","amount":.5}',
    b'{"user":"a\n","amount":1}',
    b'\xef\xbb\xbf{"user":"a","amount":1}', b'{"user":"a" "amount":1}', b'{"user":"a","amount":1;}', b"\0\0\0\0\7[]",
    b'\0\0\0\7{"user":"a","amount":1}', b'{"user":"a","amount":1,"x":' + b"[" * 5000 + b"]" * 5000 + b"}",
]  # fmt: skip


def test_every_kind_of_object_is_judged_as_the_docs_say(spark: Spark) -> None:
    cases: list[tuple[bytes | None, str | None, tuple[Any, ...] | None]] = [
        (each, None, fields) for value, fields in USED for each in read(value)
    ]
    cases += [
        (each, f"amount is missing or {NO_DECIMAL}", None)
        for bad in BAD_AMOUNTS
        for each in read(b'{"user":"a","amount":%b}' % bad)
    ]
    cases += [
        (each, "user is missing or no text", None)
        for bad in BAD_USERS
        for each in read(b'{"user":%b,"amount":5}' % bad)
    ]
    cases += [(each, "user is missing or no text", None) for each in (b"{}", b'{"User":"a"}', b'{"x":{"user":"a"}}')]
    cases += [(b'{"user":"a","amount":5}' + behind, NOT_JSON_OBJECT, None) for behind in BEHIND]
    cases += [(each, NOT_JSON_OBJECT, None) for each in NO_JSON]
    cases += [(each, NO_VALUE, None) for each in (None, b"", b"\0\0\0\0\7", b"\0\0")]
    cases += [
        (each, NOT_UTF8, None)
        for each in (b"\xff", b'{"user":"\xff","amount":5}', b'{"user":"a","amount":5,"x":"\xed\xa0\x80"}')
    ]
    for (value, reason, fields), found in zip(cases, values(spark, NEEDED, [case[0] for case in cases]), strict=True):
        assert found[0] == reason, value
        if fields is not None:
            assert (found[1], repr(found[1])) == (fields, repr(fields)), value


def test_a_field_that_may_be_missing_is_null_or_of_its_type(spark: Spark) -> None:
    nothing = dict.fromkeys(FIELDS)
    good: list[tuple[bytes, dict[str, Any]]] = [
        (b"{}", {}),
        (b'{"user":null,"amount":null,"count":null,"weight":null,"sold":null,"time":null}', {}),
        (b'{"count":-7,"weight":1.5e3,"sold":true}', {"count": -7, "weight": 1500.0, "sold": True}),
        (b'{"count":"7","weight":"1","sold":"false"}', {"count": 7, "weight": 1.0, "sold": False}),
        (b'{"count":9223372036854775807,"weight":-0.0}', {"count": 2**63 - 1, "weight": 0.0}),
        (b'{"time":"2026-11-25T20:00:00.123Z"}', {"time": INSTANT}),
        (b'{"time":"2026-11-25T21:30:00.123+01:30"}', {"time": INSTANT}),
        (b'{"time":%d}' % (INSTANT.timestamp() * 1000), {"time": INSTANT}),
        (b'{"time":"%d"}' % (INSTANT.timestamp() * 1000), {"time": INSTANT}),
    ]
    bad = {
        "user": [b"5", b'"\\udc00"', b'{"a":1,"a":2}'],
        "amount": [b"5.001", b'"x"', b'{"a":1,"a":2}'],
        "count": [b"1.0", b"1e0", b"9223372036854775808", b'"-0"', b'"01"', b"true", b'""', b'"1.0"', b"[]"],
        "weight": [b"1e400", b'"NaN"', b'"1d"', b"true", b'""', b'"Infinity"'],
        "sold": [b"1", b'"True"', b'"yes"', b"[true]"],
        "time": [b'"2026-11-25"', b'"2026-11-25T20:00:00"', b"1.5", b"253402300800000", b'"now"', b"true", b"1e3"],
    }
    wrong = [
        (each, f"{name} is no {FIELDS[name].wanted}")
        for name, every in bad.items()
        for one in every
        for each in read(b'{"%b":%b}' % (name.encode(), one))
    ]
    wrong += [(b'{"user":"a"', NOT_JSON_OBJECT), (b'{"x":NaN}', NOT_JSON_OBJECT), (b"{}{}", NOT_JSON_OBJECT)]
    cases: list[tuple[bytes, str | None, dict[str, Any]]] = [
        (each, None, nothing | fields) for value, fields in good for each in read(value)
    ]
    cases += [(value, reason, nothing) for value, reason in wrong]
    for (value, reason, fields), found in zip(cases, values(spark, OPTIONAL, [case[0] for case in cases]), strict=True):
        assert found[0] == reason, value
        if reason is None:
            times = [each.astimezone(UTC) if isinstance(each, datetime) else each for each in found[1]]
            assert repr(times) == repr([*fields.values()]), value


def strictly(value: bytes) -> tuple[Any, ...] | None:
    """Return user, amount, count and weight by Python's own parser; None where one cannot be used."""
    try:
        pairs = json.loads(
            value.decode(), parse_int=Spelled, parse_float=Spelled, parse_constant=int, object_pairs_hook=tuple
        )
        fields = dict(pairs)
        user, amount, count, weight = (fields[name] for name in ("user", "amount", "count", "weight"))
    except (ValueError, LookupError, TypeError):
        return None
    # Also where it does not count, since it occurs once more.
    if type(user) is not str or not all(
        is_unicode(each) for name, each in pairs if name == "user" and each == str(each)
    ):
        return None
    texts = [each if isinstance(each, str) else None for each in (amount, count, weight)]
    if None in texts:
        return None
    numbers = ["0" if type(each) is Spelled and each == "-0" else str(each) for each in texts]
    whole, fraction = r"-?(0|[1-9]\d*)", r"(\.\d+)?"
    is_amount = re.fullmatch(rf"{whole}(\.\d{{1,2}}0*)?", numbers[0], re.ASCII)
    if not is_amount or len(numbers[0].partition(".")[0].lstrip("-")) > 16:
        return None
    if not re.fullmatch(whole, numbers[1], re.ASCII) or numbers[1] == "-0" or not -(2**63) <= int(numbers[1]) < 2**63:
        return None
    if not re.fullmatch(rf"{whole}{fraction}([eE][-+]?\d+)?", numbers[2], re.ASCII):
        return None
    if abs(float(numbers[2])) == float("inf"):
        return None
    return user, Exact(numbers[0]).quantize(Exact("0.01")) + 0, int(numbers[1]), float(numbers[2]) + 0.0


class Spelled(str):
    """A JSON number as it is spelled."""

    __slots__ = ()


def mutant(seeded: random.Random) -> bytes:
    """Return an object of the four fields, in any order and spelling, some damaged."""
    # Most of them such as all fields may be.
    numbers = [*["0", "1", "17", "-5"] * 8, "-0", "7", "-1.50", "0.1", "1e3", "2e308", "007", "1.", "NaN", "null"]
    numbers += ["[1]", '"5"', '"5.25"', '"-0"']
    numbers += [str(seeded.randrange(-(10**digits), 10**digits)) for digits in (3, 15, 17, 18, 19, 20)]
    numbers += [f"{seeded.random() * 10**digits:.{seeded.randrange(25)}f}" for digits in (0, 6, 14, 17, 22)]
    texts = ['""', '"a"', '"ä, \\u00e4"', '"a:b}"', '"\\\\"', '"\\ud834\\udd1e"', '"\\ud834"', "5", "{}", "\"{'x'}\""]
    names = ["user", "amount", "count", "weight", *seeded.sample(["user", "amount", "x"], seeded.randrange(3))]
    seeded.shuffle(names)
    space = ("", "", "", " ", "\t", "\r\n")
    fields = [
        f'{seeded.choice(space)}"{name}"{seeded.choice(space)}:{seeded.choice(texts if name == "user" else numbers)}'
        for name in names
    ]
    value = bytearray(f"{{{','.join(fields)}{seeded.choice(space)}}}".encode())
    if seeded.random() < 0.3:
        place = seeded.randrange(len(value))
        value[place : place + seeded.randrange(2)] = seeded.choice(
            [b"}", b'"', b",", b"\\", b"0", b".", b"e", b"\xc3", b" "]
        )
    return bytes(value)


def test_any_record_is_what_a_strict_parser_makes_of_it(spark: Spark) -> None:
    seeded = random.Random(SEED)
    form = Json({name: FIELDS[name] for name in ("user", "amount", "count", "weight")})
    records: list[bytes | None] = [mutant(seeded) for _ in range(MUTANTS)]
    used = 0
    for value, (reason, fields) in zip(records, values(spark, form, records), strict=True):
        wanted = strictly(value or b"")
        used += wanted is not None
        assert repr(None if reason else fields) == repr(wanted), (value, reason)
    assert used > MUTANTS / 50


# Keys, and what else a record has


KEYS: list[tuple[Key, bytes | None, object]] = [
    (Key("id", Text), "ä/ b".encode(), "ä/ b"),
    (Key("id", Text), None, NO_KEY),
    (Key("id", Text), b"", NO_KEY),
    (Key("id", Text), b"\xff", NOT_UTF8),
    (Key("id", Int64), b"-7", -7),
    (Key("id", Int64), None, NO_KEY),
    (Key("id", Int64), b"", NOT_AN_ID),
    (Key("id", Int64), b"07", NOT_AN_ID),
    (Key("id", Int64), b" 7", NOT_AN_ID),
    (Key("id", Int64), b"9223372036854775808", NOT_AN_ID),
    (Key("id", Int64), b"\xff", NOT_UTF8),
]


@pytest.mark.parametrize("form", [PlainText(), Json({"user": Text})], ids=["text", "json"])
def test_the_key_of_a_record_is_a_column(spark: Spark, form: PlainText | Json) -> None:
    value = b'{"user":"a"}'
    for key_type in (Text, Int64):
        cases = [(key, wanted) for of, key, wanted in KEYS if of.type is key_type]
        stream = Stream("events", form, key=Key("id", key_type))
        found = judged(spark, stream, [(key, value, 0) for key, _ in cases])
        for (key, wanted), (reason, (found_key, _)) in zip(cases, found, strict=True):
            assert wanted == (found_key if reason is None else reason), key


@pytest.mark.parametrize("form", [PlainText(), Json({"user": Text})], ids=["text", "json"])
def test_what_a_record_has_beside_its_value_is_judged_first(spark: Spark, form: PlainText | Json) -> None:
    good = b'{"user":"a"}'
    cases: list[tuple[Record, str | None]] = [
        ((b"k", good, FURTHEST_MS), None),
        ((b"k", good, FURTHEST_MS + 1), TIMESTAMP_REASON),
        ((b"k", good, EARLIEST_MS), None),
        ((None, b"", EARLIEST_MS - 1), TIMESTAMP_REASON),
        ((b"", None, 0), NO_KEY),
        ((b"k", b" " * (LARGEST_BYTES + 1), 0), TOO_LARGE),
        ((bytes(LARGEST_BYTES + 1), good, 0), TOO_LARGE),
        ((b"k", b" " * (LARGEST_BYTES - len(good)) + good, 0), None),
        ((b"k", b'{"user":"%b"}' % (b"x" * (LARGEST_BYTES - 11)), 0), None),
    ]
    # As it is in a service: without it each step copies what the one before has made.
    spark.session.conf.set("spark.sql.codegen.wholeStage", "true")
    try:
        stream = Stream("events", form, key=Key("id", Text))
        # One by one: the heap has room for a few copies of one, and the tests before have left things in it too.
        found = [of_it for record, _ in cases for of_it in judged(spark, stream, [record])]
    finally:
        spark.session.conf.set("spark.sql.codegen.wholeStage", "false")
    assert [reason for reason, _ in found] == [reason for _, reason in cases]


def test_a_line_of_text_is_taken_as_it_is(spark: Spark) -> None:
    lines = [b"", b"a", b"\0\0\0\0\7a", b"\xff", None]
    found = judged(spark, Stream("lines", PlainText()), [(None, line, 0) for line in lines])
    assert found[:3] == [(None, ("",)), (None, ("a",)), (None, ("\0\0\0\0\7a",))]
    assert [reason for reason, _ in found[3:]] == [NOT_UTF8, NO_VALUE]


def test_a_field_may_be_called_as_what_a_record_has_itself(spark: Spark) -> None:
    stream = Stream(
        "events",
        Json(dict.fromkeys(("timestamp", "reason", "offset", "text", "key", "value"), Text)),
        key=Key("partition", Int64),
    )
    value = b'{"timestamp":"a","reason":"b","offset":"c","text":"d","key":"e","value":"f"}'
    [(reason, columns)] = judged(spark, stream, [(b"9", value, 5)])
    assert (reason, columns) == (None, (9, "a", "b", "c", "d", "e", "f"))


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (lambda: Json({}), "Json has no fields: name at least one"),
        (lambda: Json({"a b": Text}), "a field of Json is 'a b': it has to be a letter or _"),
        (lambda: Json({"at": Text}), "a field of Json is 'at': at, and what begins with __, are columns of the"),
        (lambda: Json({"user": str}), "field user of Json is <class 'str'>: give it a type, Text, Int64"),  # type: ignore[dict-item]
        (lambda: Json({"user": Text}, optional=["city"]), "optional of Json names city, which is none of its fields"),
        (lambda: Json({"user": Text}, optional="user"), r'optional of Json is \'user\': write \["user"\]'),
        (lambda: Stream("t", Json({"user": Text}), key=Key("user", Text)), "stream t has a column user, as its key"),
        (lambda: Stream("t", PlainText(), key=Key("at", Text)), "the key of stream t is 'at'"),
    ],
)  # fmt: skip
def test_a_source_that_cannot_be_says_so(declared: Any, said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        declared()

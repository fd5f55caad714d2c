"""Which records of the three inputs are used, and why the others are not: the tables of `docs/records.md`."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from runtime import Table
from runtime.errors import InvalidRecord
from runtime.records import FURTHEST_MS, LARGEST_BYTES, TIMESTAMP_REASON, TOO_LARGE
from runtime.spark.beside_value import EARLIEST_MS
from runtime.spark.session import Spark
from runtime.table_records import parse_row
from runtime.testing.frames import records_frame
from tests.drivers.records import SCORES, TABLES, USED, TableCase, event
from topology.leaderboard.board import LEADERBOARD
from topology.leaderboard.events import judge, plain_events, with_player

DOCS = Path(__file__).parents[3] / "docs" / "records.md"
SEED = 20261121
MUTANTS = 4_000


def judged(spark: Spark, values: list[bytes | None]) -> list[tuple[str | None, float, int, int]]:
    """Return what Spark makes of each value: the reason, and the fields."""
    frame = records_frame(spark.session, [(value, 0, offset, 0) for offset, value in enumerate(values)])
    rows = with_player(judge(frame)).orderBy("offset").collect()
    return [(row.reason, row.score, row.product_id, row.player_id) for row in rows]


def test_every_kind_of_score_event_comes_out_as_the_docs_say(spark: Spark) -> None:
    cases = [(case, value) for case in SCORES for value in case.values]
    for (case, value), (reason, *fields) in zip(cases, judged(spark, [value for _, value in cases]), strict=True):
        shown = f"{case.what}: {value[:80]!r}" if value else case.what
        if case.outcome == USED:
            assert (reason, *fields) == (None, 5.0, 1, 3), shown
        else:
            assert reason == case.outcome, shown


def test_what_a_record_has_beside_its_value_is_judged_first(spark: Spark) -> None:
    fits = event()[:-1] + b" " * (LARGEST_BYTES - len(event())) + b"}"
    cases = [
        ((None, event(), FURTHEST_MS), None),
        ((None, event(), EARLIEST_MS), None),
        ((None, event(), FURTHEST_MS + 1), TIMESTAMP_REASON),
        ((None, b"", EARLIEST_MS - 1), TIMESTAMP_REASON),
        ((b"\xff", fits, 0), None),
        ((None, b" " + fits, 0), TOO_LARGE),
        ((bytes(LARGEST_BYTES), event(), 0), None),
        ((bytes(LARGEST_BYTES + 1), event(), 0), TOO_LARGE),
    ]
    table = pa.table(
        {
            "key": pa.array([key for (key, _, _), _ in cases], pa.binary()),
            "value": pa.array([value for (_, value, _), _ in cases], pa.binary()),
            "partition": pa.array([0] * len(cases), pa.int32()),
            "offset": pa.array(range(len(cases)), pa.int64()),
            "timestamp_ms": pa.array([timestamp for (_, _, timestamp), _ in cases], pa.int64()),
        }
    )
    records = spark.session.createDataFrame(table).withColumn("timestamp", F.timestamp_millis("timestamp_ms"))
    reasons = judge(records).select("offset", "reason").orderBy("offset").toArrow()["reason"]
    assert reasons.to_pylist() == [reason for _, reason in cases]


@pytest.mark.parametrize("table", LEADERBOARD.tables[:2], ids=lambda table: table.topic)
def test_a_table_record_is_taken_up_to_a_size(table: Table) -> None:
    row = b'{"id": 3, "name": "Isabelle"}'
    assert parse_row(table, b"3", b" " * (LARGEST_BYTES - len(row)) + row)[0] == 3
    for key, value in ((b"3", b" " * (LARGEST_BYTES - len(row) + 1) + row), (b"3" * (LARGEST_BYTES + 1), None)):
        with pytest.raises(InvalidRecord) as caught:
            parse_row(table, key, value)
        assert caught.value.reason == TOO_LARGE


@pytest.mark.parametrize("table", LEADERBOARD.tables[:2], ids=lambda table: table.topic)
@pytest.mark.parametrize("case", TABLES, ids=lambda case: case.what)
def test_every_kind_of_table_record_comes_out_as_the_docs_say(case: TableCase, table: Table) -> None:
    for key, value in case.records:
        if case.outcome == USED:
            assert parse_row(table, key, value) in ((3, {"name": "Isabelle"}), (99, None))
        else:
            with pytest.raises(InvalidRecord) as caught:
                parse_row(table, key, value)
            assert caught.value.reason == case.outcome


@pytest.mark.parametrize(("heading", "cases"), [("score-events", SCORES), ("players", TABLES)])
def test_the_docs_list_these_cases_and_no_others(heading: str, cases: tuple[TableCase, ...]) -> None:
    section = next(part for part in DOCS.read_text().split("\n## ") if heading in part.partition("\n")[0])
    rows = re.findall(r"^\| (.*) \| (.*) \|$", section, re.MULTILINE)[2:]
    assert rows == [(case.what, case.outcome) for case in cases]


def test_damaged_records_are_judged_as_a_strict_parser_does(spark: Spark) -> None:
    seeded = random.Random(SEED)
    base = [event(), event(b'"5"', b'"1"', b'"3"'), event(b"-1.5e3", more=b', "x": [1, {"y": "z"}]')]
    values: list[bytes | None] = [damaged(seeded, seeded.choice(base)) for _ in range(MUTANTS)]
    expected = [strictly_parsed(value or b"") for value in values]
    assert sum(fields is not None for fields in expected) > MUTANTS / 50, "some stay usable"
    for value, want, (reason, *fields) in zip(values, expected, judged(spark, values), strict=True):
        # By their texts: -0.0 is equal to 0.0.
        assert repr(None if reason else tuple(fields)) == repr(want), (value, reason)
        assert want is not None or reason, value


def test_events_that_need_no_json_reader_are_what_a_strict_parser_makes_of_them(spark: Spark) -> None:
    seeded = random.Random(SEED)
    values: list[bytes | None] = [plain(seeded) for _ in range(MUTANTS)]
    for value, (reason, *fields) in zip(values, judged(spark, values), strict=True):
        want = strictly_parsed(value or b"")
        assert repr(None if reason else tuple(fields)) == repr(want), (value, reason)


def test_what_is_read_by_columns_is_what_spark_makes_of_it(spark: Spark) -> None:
    seeded = random.Random(SEED)
    base = [event(), event(b"-1.5", b"0", b"-3")]
    values: list[bytes | None] = [None, *(plain(seeded) for _ in range(MUTANTS))]
    values += [damaged(seeded, seeded.choice(base)) for _ in range(MUTANTS)]
    found = 0
    for value, want, rows in zip(values, judged(spark, values), read_by_columns(values), strict=True):
        found += len(rows)
        fields = [(None, row["score"], row["product_id"], row["player_id"]) for row in rows]
        assert repr(fields) in (repr([want]), "[]"), value
    assert found > MUTANTS / 10, "some are plain"


def read_by_columns(values: list[bytes | None]) -> list[list[dict[str, Any]]]:
    """Return what `plain_events` reads of each value, by one call: an event of another product stands before each."""
    separator = -123456789012345678
    separated = [part for value in values for part in (event(b"0", b"%d" % separator), value)]
    found: list[list[dict[str, Any]]] = []
    for row in seen(separated):
        if row["product_id"] == separator:
            found.append([])
        else:
            found[-1].append(row)
    return found


def test_columns_have_the_plain_events_of_many(spark: Spark) -> None:
    values = [event(), b"\xff\xfe", None, event(b'"5"'), event(b"0.5", b"-7", b"123456789012345678"), b"{}"]
    assert seen(values) == [
        {"product_id": 1, "player_id": 3, "score": 5.0, "at_ms": 0},
        {"product_id": -7, "player_id": 123456789012345678, "score": 0.5, "at_ms": 4},
    ]


def seen(values: list[bytes | None]) -> list[dict[str, Any]]:
    """Return the plain events of values whose times are their places."""
    found: list[dict[str, Any]] = plain_events(pa.array(values, pa.binary()), pa.array(range(len(values)))).to_pylist()
    return found


def test_a_zero_keeps_its_sign_unless_it_is_spelled_as_a_whole_number(spark: Spark) -> None:
    spelled = {b"-0": "0.0", b'"-0"': "-0.0", b"-0.0": "-0.0", b'"-0.0"': "-0.0", b"-0e5": "-0.0", b"-1e-400": "-0.0"}
    spelled |= {b"0": "0.0", b"0.0": "0.0", b'"0"': "0.0", b"1e-400": "0.0"}
    found = judged(spark, [event(score) for score in spelled])
    assert {score: repr(fields[1]) for score, fields in zip(spelled, found, strict=True)} == spelled
    assert {reason for reason, *_ in found} == {None}


def plain(seeded: random.Random) -> bytes:
    """Return the three fields in any order, with any white space, and with numbers at and beyond their bounds."""
    numbers = [
        "0",
        "-0",
        "7",
        "-1.50",
        "0.1",
        "-0.0",
        "1e3",
        "1E-400",
        "1.5e308",
        "2e308",
        "007",
        "1.",
        ".5",
        "+1",
        "NaN",
    ]
    numbers += [str(seeded.randrange(-(10**digits), 10**digits)) for digits in (3, 17, 18, 19, 20)]
    numbers += [f"{seeded.random() * 10**digits:.{seeded.randrange(25)}f}" for digits in (0, 6, 17, 22)]

    def space() -> str:
        return seeded.choice(("", "", "", " ", "\t", "\r\n", "  "))

    names = ["score", "product_id", "player_id"]
    seeded.shuffle(names)
    ids = ["0", "-0", "1", "-17", *numbers[-9:-4], seeded.choice(numbers)]
    fields = [
        f'{space()}"{name}"{space()}:{space()}{seeded.choice(numbers if name == "score" else ids)}{space()}'
        for name in names
    ]
    return f"{space()}{{{','.join(fields)}}}{space()}".encode()


def damaged(seeded: random.Random, value: bytes) -> bytes:
    """Return a value with one to three small damages."""
    changed = bytearray(value)
    tokens = (
        b"}",
        b"{",
        b"]",
        b"[",
        b'"',
        b",",
        b":",
        b"0",
        b"7",
        b" ",
        b"\\",
        b"e",
        b".",
        b"-",
        b"\n",
        b"\xc3",
        b"\0",
    )
    for _ in range(seeded.randrange(1, 4)):
        at = seeded.randrange(len(changed) + 1)
        match seeded.randrange(3):
            case 0:
                changed[at : at + 1] = b""
            case 1:
                changed[at:at] = seeded.choice(tokens)
            case _:
                changed[at : at + 1] = seeded.randbytes(1)
    return bytes(changed)


class _Number(str):
    """A JSON number as it is spelled."""

    __slots__ = ()


def _whole(spelled: str) -> _Number:
    return _Number("0" if spelled == "-0" else spelled)


def strictly_parsed(value: bytes) -> tuple[float, int, int] | None:
    """Return score, product id and player id by Python's own parser, or None."""
    try:
        fields = json.loads(value.decode(), parse_int=_whole, parse_float=_Number, parse_constant=int)
        score, product, player = (fields[name] for name in ("score", "product_id", "player_id"))
    except (ValueError, LookupError, TypeError):
        return None
    number = r"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?"
    is_number = isinstance(score, str) and re.fullmatch(number, score, re.ASCII) and math.isfinite(float(score))
    ids = [_id(each) for each in (product, player)]
    return (float(score), ids[0], ids[1]) if is_number and ids[0] is not None and ids[1] is not None else None


def _id(spelled: object) -> int | None:
    if not isinstance(spelled, str) or not re.fullmatch(r"-?(0|[1-9]\d*)", spelled, re.ASCII):
        return None
    if spelled == "-0":
        return None
    return int(spelled) if -(2**63) <= int(spelled) < 2**63 else None

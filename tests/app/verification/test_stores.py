"""What is served of any store beside what has to be: pure comparisons, and how they are told."""

from __future__ import annotations

import decimal
import json
from typing import Any

import pytest

from app.verification.stores.comparison import Comparison, Difference, ServedStore, compare
from app.verification.stores.report import SHOWN, StoresResult
from runtime import Count, Decimal, Double, Int64, Key, Max, Row, Session, Store, Sum, Tables, Text
from runtime.records import json_bytes
from runtime.windows import time_text

HELLO, WORLD = {"word": "hello", "count": 2}, {"word": "world", "count": 1}


def shout(row: Row, tables: Tables) -> str:
    return str(row["word"]).upper()


COUNTS = Store("counts-store", "counts", Key("word", Text), {"count": Count()})
MOST = Store("most", "most-output", Key("word", Text), {"count": Max("count", Int64)})
DOUBLES = Store("sums", "sums-output", Key("word", Text), {"sum": Sum("x", Double)})
DECIMALS = Store("sums", "sums-output", Key("word", Text), {"sum": Sum("x", Decimal(2))})
MIXED = Store("sums", "sums-output", Key("word", Text), {"sum": Sum("x", Double), "paid": Sum("y", Decimal(2))})
SHOUTED = Store("shouted", "shouted-output", Key("word", Text), {"count": Count()}, show=shout)
SESSIONS = Store("sat", "sat-output", Key("word", Text), {"count": Count()}, window=Session("30 seconds"))
PAID = Store("paid", "paid-output", Key("word", Text), {"count": Max("count", Int64)}, of_join=True)


def summed(total: str) -> dict[str, Any]:
    return {"word": "a", "sum": decimal.Decimal(total)}


def mixed(total: str, paid: str) -> dict[str, Any]:
    return {**summed(total), "paid": decimal.Decimal(paid)}


def sat(word: str, begin_s: int, end_s: int, count: int) -> dict[str, Any]:
    """Return the row of a session."""
    times = {"windowStart": time_text(begin_s * 1000), "windowEnd": time_text(end_s * 1000)}
    return {"word": word, **times, "count": count}


def served(*rows: Any, url: str = "http://one", counted: int | None = None) -> ServedStore:
    return ServedStore(url, json_bytes(rows), rows, len(rows) if counted is None else counted)


@pytest.mark.parametrize(
    ("store", "expected", "answer", "lost", "what"),
    [
        (COUNTS, [HELLO, WORLD], [HELLO, WORLD], False, {}),
        (COUNTS, [HELLO, WORLD], [HELLO], False, {'"world"': "is not served"}),
        (COUNTS, [HELLO], [HELLO, WORLD], False, {'"world"': "is served, and should not be"}),
        (COUNTS, [HELLO], [{**HELLO, "count": 1}], False, {'"hello"': "differs"}),
        (MOST, [{"word": "a", "count": 0.0}], [{"word": "a", "count": -0.0}], False, {'"a"': "differs"}),
        # Doubles as nearly as their sums are, decimals to the last digit.
        (DOUBLES, [summed("0.30000000000000004")], [summed("0.3")], False, {}),
        (DOUBLES, [summed("0.1")], [summed("0.3")], False, {'"a"': "differs"}),
        # Where doubles cancel out, what is left is of the size of what was lost on the way.
        (DOUBLES, [summed("0.0")], [summed("5.5e-17")], False, {}),
        (DOUBLES, [summed("0.0")], [summed("1e-8")], False, {'"a"': "differs"}),
        (DECIMALS, [summed("1234567890123.40")], [summed("1234567890123.41")], False, {'"a"': "differs"}),
        # A cent is a cent, whatever is beside it.
        (MIXED, [mixed("0.30000000000000004", "12345678901.40")], [mixed("0.3", "12345678901.40")], False, {}),
        (MIXED, [mixed("0.3", "12345678901.40")], [mixed("0.3", "12345678901.41")], False, {'"a"': "differs"}),
        (COUNTS, [{"word": "a", "count": 1}], [{"word": "a", "count": 1.0}], False, {'"a"': "differs"}),
        # Where records are gone, nobody can tell what they would have counted; what is there is served all the same.
        (COUNTS, [HELLO], [{**HELLO, "count": 1}, WORLD], True, 2),
        (COUNTS, [HELLO, WORLD], [HELLO], True, {'"world"': "is not served"}),
        # A maximum of more is not lower.
        (MOST, [HELLO], [{**HELLO, "count": 3}], True, 1),
        (MOST, [HELLO], [{**HELLO, "count": 1}], True, {'"hello"': "differs"}),
        (MOST, [HELLO], [{"word": "hello", "count": "many"}], True, 1),
        # By their places, where a row does not say its key.
        (SHOUTED, ["HELLO", "WORLD"], ["HELLO", "WORLD"], False, {}),
        (SHOUTED, ["HELLO", "WORLD"], ["HELLO"], False, {"1": "is not served"}),
        (SHOUTED, ["HELLO"], [], True, 1),
    ],
)
def test_a_row_differs_or_cannot_be_proved(
    store: Store, expected: list[Any], answer: list[Any], lost: bool, what: dict[str, str] | int
) -> None:
    found = compare(store, expected, [served(*answer)], events_lost=lost)
    said = {key: difference.what for (_, _, key), difference in found.differences.items()}
    assert (said, found.unproved) == ((what, 0) if isinstance(what, dict) else ({}, what))


WHOLE = sat("a", 0, 55, 3)
"""A session of three records."""
SPANS = {"a": [(0, 55_000)], "open": [(0, 55_000)]}
"""It, and one that has not ended."""


@pytest.mark.parametrize(
    ("store", "expected", "answer", "late", "what"),
    [
        (SESSIONS, [WHOLE], [WHOLE], 0, []),
        # A record that came too late is left out, at the end of its session, at the begin, or in between.
        (SESSIONS, [WHOLE], [sat("a", 0, 30, 2)], 1, []),
        (SESSIONS, [WHOLE], [sat("a", 10, 55, 2)], 2, []),
        (SESSIONS, [WHOLE], [sat("a", 0, 55, 2)], 1, []),
        (SESSIONS, [WHOLE], [], 1, []),
        # One that came in time, but when the row was there, begins another session: nothing is left out.
        (SESSIONS, [WHOLE], [sat("a", 0, 30, 2), sat("a", 25, 55, 1)], 0, []),
        (SESSIONS, [WHOLE], [sat("a", 0, 30, 1), sat("a", 10, 40, 1), sat("a", 25, 55, 1)], 0, []),
        (SESSIONS, [WHOLE], [sat("a", 0, 30, 1), sat("a", 25, 55, 1)], 2, []),
        (SESSIONS, [WHOLE], [sat("a", 0, 20, 2), sat("a", 25, 55, 1)], 2, []),
        (SESSIONS, [WHOLE], [sat("a", 0, 30, 2), sat("a", 25, 55, 2)], 2, []),
        (SESSIONS, [], [sat("open", 0, 30, 2)], 1, []),
        # No record that is missing makes more of a session.
        (SESSIONS, [WHOLE], [sat("a", 0, 55, 4)], 0, ["differs"]),
        (SESSIONS, [WHOLE], [sat("a", 0, 60, 3)], 0, ["differs"]),
        (SESSIONS, [WHOLE], [sat("a", 5, 55, 4)], 1, ["is served, and should not be"]),
        (SESSIONS, [WHOLE], [WHOLE, sat("a", 90, 120, 1)], 0, ["is served, and should not be"]),
        (SESSIONS, [], [sat("b", 0, 30, 1)], 0, ["is served, and should not be"]),
        (PAID, [HELLO, WORLD], [HELLO], 1, []),
        (PAID, [HELLO], [{**HELLO, "count": 1}], 1, []),
        (PAID, [HELLO], [{**HELLO, "count": 3}], 0, ["differs"]),
        (PAID, [], [HELLO], 0, ["is served, and should not be"]),
    ],
)
def test_what_records_that_came_too_late_explain_is_no_difference(
    store: Store, expected: list[Any], answer: list[Any], late: int, what: list[str]
) -> None:
    found = compare(store, expected, [served(*answer)], events_lost=False, sessions=SPANS)
    assert (found.late_rows, [each.what for each in found.differences.values()]) == (late, what)
    assert found.unproved == 0


def test_a_row_that_cannot_be_proved_is_unsettled_until_it_has_agreed_once() -> None:
    missing = result(compare(PAID, [HELLO], [served()], events_lost=False))
    equal = result(compare(PAID, [HELLO], [served(HELLO)], events_lost=False))
    assert (missing.differences, missing.unsettled) == (0, 1)
    assert missing.still(missing).unsettled == 1
    assert missing.still(equal).unsettled == 0


def test_answers_of_several_instances_are_the_same_bytes_and_agree_with_their_count() -> None:
    other = ServedStore("http://two", b"[]  ", [], 3)
    found = compare(COUNTS, [], [served(), other], events_lost=False).differences
    assert [(each.url, each.what) for each in found.values()] == [
        ("http://two", "the count is 3, and 0 rows are served"),
        ("http://two", "the answer is not the bytes that http://one answers with"),
    ]


def result(found: Comparison, lost: dict[str, int] | None = None) -> StoresResult:
    return StoresResult("lines", {"counts-store": found}, records=3, unusable=1, lost=lost or {})


def test_what_agreed_once_is_right() -> None:
    before = result(compare(COUNTS, [HELLO], [served(WORLD)], events_lost=False))
    now = result(compare(COUNTS, [HELLO, {"word": "new", "count": 1}], [served()], events_lost=False))
    assert [each.key for each in now.still(before).found] == ["hello"]


def test_the_text_shows_both_sides_and_what_was_compared() -> None:
    found = compare(COUNTS, [HELLO], [served({**HELLO, "count": 3})], events_lost=False)
    assert result(found).text().splitlines() == [
        'http://one: counts-store "hello" differs',
        '    expected  {"word":"hello","count":2}',
        '    served    {"word":"hello","count":3}',
        "",
        "1 row of counts-store compared with 3 records of lines (1 of them unusable): 1 difference",
    ]
    assert json.loads(result(found).json())["differences"][0]["served"] == {"word": "hello", "count": 3}


def test_the_text_tells_what_cannot_be_proved() -> None:
    found = compare(COUNTS, [HELLO], [served(HELLO, WORLD)], events_lost=True)
    summary, note = result(found, {"0": 12, "3": 40}).text().splitlines()
    assert summary == "2 rows of counts-store compared with 3 records of lines (1 of them unusable): equal"
    assert note.startswith("note: lines has lost records (partition 0 begins at 12, partition 3 begins at 40); ")
    assert note.endswith("; 1 row of counts-store cannot be proved by those that are there")


def test_the_text_tells_what_may_have_come_too_late() -> None:
    found = result(compare(PAID, [HELLO, WORLD], [served(HELLO)], events_lost=False))
    assert found.text().splitlines() == [
        "2 rows of counts-store compared with 3 records of lines (1 of them unusable): equal",
        "note: 1 row of counts-store cannot be proved: records that came too late may be what is missing",
    ]
    assert json.loads(found.json())["stores"] == {"counts-store": {"rows": 2, "unproved": 1}}


def test_the_text_shows_the_first_differences_and_the_json_all() -> None:
    rows = [{"word": str(number), "count": 1} for number in range(25)]
    found = result(compare(COUNTS, rows, [served()], events_lost=False), {"1": 5})
    assert found.text().count("is not served") == SHOWN
    assert "… and 5 more differences" in found.text()
    fields = json.loads(found.json())
    assert len(fields.pop("differences")) == 25
    assert fields == {
        "equal": False,
        "stores": {"counts-store": {"rows": 25, "unproved": 0}},
        "records": 3,
        "unusable": 1,
        "lost_before": {"1": 5},
    }


def test_no_more_rows_say_less_than_rows_came_too_late() -> None:
    differences = {("url", "store", key): Difference("url", "store", key, "is missing") for key in ("a", "b")}
    found = Comparison(9, {}, 0, differences, {about: about for about in differences})
    assert found.proved_by(2) == found
    assert found.proved_by(1).differences == differences
    assert found.proved_by(1).late == {}


@pytest.mark.parametrize(
    "answer",
    [
        # Its first record came too late: the row of all is missing, and there is another one.
        [sat("a", 5, 55, 2)],
        # It lay between two sessions, and would have made one of them.
        [sat("a", 0, 25, 1), sat("a", 25, 55, 1)],
    ],
)
def test_one_record_that_came_too_late_may_explain_several_rows(answer: list[Any]) -> None:
    found = compare(SESSIONS, [WHOLE], [served(*answer)], events_lost=False, sessions=SPANS)
    assert found.late_rows == 2
    assert found.proved_by(1).differences == {}
    assert len(found.proved_by(0).differences) == 2


def test_one_record_of_a_join_that_came_too_late_is_in_the_row_of_its_key_where_that_is_joined_on() -> None:
    found = compare(PAID, [HELLO, WORLD], [served()], events_lost=False, joined_on="word")
    assert found.proved_by(2).differences == {}
    assert len(found.proved_by(1).differences) == 2


def test_one_record_of_a_join_that_came_too_late_may_be_in_several_rows() -> None:
    found = compare(PAID, [HELLO, WORLD], [served()], events_lost=False)
    assert found.proved_by(1).differences == {}
    assert len(found.proved_by(0).differences) == 2

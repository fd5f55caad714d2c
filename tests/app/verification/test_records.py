"""What a record of the inputs means to the independent check: a table of byte strings around every edge."""

from __future__ import annotations

import json

import pytest

from app.verification.boards.records import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_TIME_MS,
    Row,
    Score,
    judge_row,
    judge_score,
    judge_score_at,
)

USABLE = Score(6, 1, 422.0)


def event(score: str = "422", product_id: str = "6", player_id: str = "1") -> bytes:
    return f'{{"score": {score}, "product_id": {product_id}, "player_id": {player_id}}}'.encode()


def nested(levels: int) -> bytes:
    """Return a usable event, but for its depth, with a string full of brackets before it."""
    return b'{"text": "[[[\\"[[[", "x": %b%b, ' % (b"[" * (levels - 1), b"]" * (levels - 1)) + event()[1:]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (event(), USABLE),
        (event('"422"', '"6"', '"1"'), USABLE),
        (event("4.22e2"), USABLE),
        (event('"4220E-1"'), USABLE),
        (event("-0.5"), Score(6, 1, -0.5)),
        (event("-0.0"), Score(6, 1, -0.0)),
        (event('"-0.0"'), Score(6, 1, -0.0)),
        (event("-0e5"), Score(6, 1, -0.0)),
        (event("-1e-400"), Score(6, 1, -0.0)),
        (event("-0"), Score(6, 1, 0.0)),
        (event('"-0"'), Score(6, 1, -0.0)),
        (event("0.0"), Score(6, 1, 0.0)),
        (event("1e308"), Score(6, 1, 1e308)),
        (event("1e-400"), Score(6, 1, 0.0)),
        (event("0." + "0" * 900 + "1"), Score(6, 1, 0.0)),
        (event(product_id=str(2**63 - 1), player_id=str(-(2**63))), Score(2**63 - 1, -(2**63), 422.0)),
        (event(product_id="0", player_id="-1"), Score(0, -1, 422.0)),
        (b" \t\r\n" + event() + b"\n", USABLE),
        (b'{"further": [1, {"score": 1}, null], "huge": 1e999, ' + event()[1:], USABLE),
        (b'{"digits": ' + b"9" * 1000 + b", " + event()[1:], USABLE),
        (event(product_id="-0"), Score(0, 1, 422.0)),
        (b'{"score": 1, "product_id": null, ' + event()[1:], USABLE),
        (b'{"s\\u0063ore": 422, "product_id": 6, "player_id": "\\u0031"}', USABLE),
        (b'{"\\ud800": "\\udfff", ' + event()[1:], USABLE),
        (b'{"x": "' + b"x" * 1_000_000 + b'", ' + event()[1:], USABLE),
        (nested(999), USABLE),
        (nested(MAX_DEPTH), USABLE),
    ],
)
def test_a_record_that_can_be_used_is_a_score(value: bytes, expected: Score) -> None:
    # By its text: -0.0 is equal to 0.0.
    assert repr(judge_score(value)) == repr(expected)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b" ",
        b"null",
        b"5",
        b"[]",
        b"[" + event() + b"]",
        b"{}",
        event()[:-1],
        event() + b"xx",
        event() + event(),
        event() + b"\x00",
        event() + b"// more",
        b"\xef\xbb\xbf" + event(),
        event().decode().encode("utf-16"),
        event().replace(b'"', b"'"),
        event().replace(b"}", b",}"),
        event().replace(b"score", b"sc\xffore"),
        b'{"x": "\xed\xa0\x80", ' + event()[1:],
        b'{"x": "\n", ' + event()[1:],
        b'{"x": NaN, ' + event()[1:],
        b'{"x": -Infinity, ' + event()[1:],
        event("NaN"),
        event("Infinity"),
        event('"NaN"'),
        event("1e309"),
        event('"-1e309"'),
        event("9" * 400),
        event("null"),
        event("true"),
        event("[422]"),
        event("{}"),
        event('""'),
        event('" 422"'),
        event('"422 "'),
        event('"+422"'),
        event('"0422"'),
        event('"422."'),
        event('".5"'),
        event('"4_2"'),
        event('"0x1"'),
        event('"٤٢"'),
        event('"many"'),
        event("+1"),
        event("01"),
        event("1."),
        event("-"),
        event(product_id="6.0"),
        event(product_id="6e0"),
        event(product_id='"-0"'),
        event(product_id='"06"'),
        event(product_id='"+6"'),
        event(product_id='" 6"'),
        event(product_id='"six"'),
        event(product_id="true"),
        event(product_id="null"),
        event(product_id="[6]"),
        event(product_id=str(2**63)),
        event(player_id=str(-(2**63) - 1)),
        event(player_id="1" + "0" * 5000),
        b'{"digits": ' + b"9" * 1001 + b", " + event()[1:],
        event(player_id='"٣"'),
        b'{"score": 422, "product_id": 6}',
        b'{"Score": 422, "product_id": 6, "player_id": 1}',
        event()[:-1] + b', "score": null}',
        nested(MAX_DEPTH + 1),
        b"[" * 1_000_000,
        b"[" * 1_000 + b'"' + b'\\"' * 500_000,
    ],
    ids=lambda value: repr(value[:60]) if value is not None else "no value",
)
def test_a_record_that_cannot_be_used_is_no_score(value: bytes | None) -> None:
    assert judge_score(value) is None


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (b"2", b'{"id": 2, "name": "Mitch"}', Row(2, "Mitch")),
        (b"2", b'{"id": "2", "name": "", "further": 1}', Row(2, "")),
        (b"2", b'{"id": 2, "name": "\\ud83d\\ude00"}', Row(2, "\U0001f600")),
        (b"2", b'{"id": 1, "name": 1, "id": 2, "name": "last"}', Row(2, "last")),
        (str(-(2**63)).encode(), None, Row(-(2**63), None)),
        (b"0", None, Row(0, None)),
        (None, b'{"id": 2, "name": "Mitch"}', None),
        (None, None, None),
        (b"", None, None),
        (b"02", None, None),
        (b"-0", None, None),
        (b"\xff", None, None),
        (str(2**63).encode(), None, None),
        (b"2", b"", None),
        (b"2", b"null", None),
        (b"2", b'["id", "name"]', None),
        (b"2", b'{"id": 3, "name": "Mitch"}', None),
        (b"2", b'{"id": 2.0, "name": "Mitch"}', None),
        (b"1", b'{"id": true, "name": "Mitch"}', None),
        (b"2", b'{"name": "Mitch"}', None),
        (b"2", b'{"id": 2}', None),
        (b"2", b'{"id": 2, "name": null}', None),
        (b"2", b'{"id": 2, "name": 5}', None),
        (b"2", b'{"id": 2, "name": ["Mitch"]}', None),
        (b"2", b'{"id": 2, "name": "\\ud83d"}', None),
        (b"2", b'{"id": 2, "name": "\xff"}', None),
        (b"2", b'{"id": 2, "name": "Mitch"} x', None),
        (b"2", b'{"id": 2, "name": "Mitch", "x": NaN}', None),
    ],
)
def test_a_table_record_is_a_row_a_delete_or_nothing(key: bytes | None, value: bytes | None, expected: Row) -> None:
    assert judge_row(key, value) == expected


@pytest.mark.parametrize("timestamp", [0, -1, 1_795_622_429_884_000, MAX_TIME_MS, -MAX_TIME_MS])
def test_a_score_event_of_any_time_that_can_be_kept_counts(timestamp: int) -> None:
    assert judge_score_at(timestamp, None, event()) == judge_score(event())


@pytest.mark.parametrize("timestamp", [1_795_622_429_884_000_000, MAX_TIME_MS + 1, -MAX_TIME_MS - 1, -(2**63)])
def test_one_of_another_time_does_not(timestamp: int) -> None:
    assert judge_score_at(timestamp, None, event()) is None


def test_a_record_counts_up_to_a_size() -> None:
    fits = event()[:-1] + b" " * (MAX_BYTES - len(event())) + b"}"
    assert judge_score_at(0, bytes(MAX_BYTES), fits) == judge_score(event())
    assert judge_score(b" " + fits) is None
    assert judge_score_at(0, bytes(MAX_BYTES + 1), event()) is None
    row = b'{"id": 2, "name": "Mitch"}'
    assert judge_row(b"2", b" " * (MAX_BYTES - len(row)) + row) == Row(2, "Mitch")
    assert judge_row(b"2", b" " * (MAX_BYTES - len(row) + 1) + row) is None
    assert judge_row(b"2" * (MAX_BYTES + 1), None) is None


def test_every_text_of_a_number_is_taken_as_python_takes_it() -> None:
    for number in (0.1, 1 / 3, 5e-324, 1.7976931348623157e308, 2.0**53 + 2, -0.0):
        found = judge_score(event(json.dumps(number)))
        assert found is not None
        assert repr(found.score) == repr(number)

"""Records: ids, tables and boards as bytes."""

from __future__ import annotations

import pytest
from topology.leaderboard.records import Board, Entry

from runtime.errors import InvalidRecord
from runtime.records import Named, parse_id, parse_named


@pytest.mark.parametrize("text", ["0", "1", "-1", "42", str(2**63 - 1), str(-(2**63))])
def test_an_id_is_a_signed_64_bit_integer(text: str) -> None:
    assert str(parse_id(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "+1",
        "01",
        "-0",
        "00",
        "1.0",
        " 1",
        "1 ",
        "1e3",
        "0x1",
        "\u0661",
        "1_000",
        str(2**63),
        str(-(2**63) - 1),
    ],
)
def test_anything_else_is_no_id(text: str) -> None:
    with pytest.raises(InvalidRecord):
        parse_id(text)


def test_a_table_record_is_a_row_or_a_delete() -> None:
    assert parse_named(b"2", b'{"id": 2, "name": "Mitch"}') == (2, Named(2, "Mitch"))
    assert parse_named(b"2", None) == (2, None)


def test_an_id_in_quotes_is_an_id() -> None:
    assert parse_named(b"2", b'{"id": "2", "name": "Mitch"}') == (2, Named(2, "Mitch"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b'{"id": 1, "name": "a"}'),
        (b"", b'{"id": 1, "name": "a"}'),
        (b"one", b'{"id": 1, "name": "a"}'),
        (b"\xff", b'{"id": 1, "name": "a"}'),
        (b"1", b""),
        (b"1", b"null"),
        (b"1", b"[]"),
        (b"1", b"5"),
        (b"1", b'{"id": 1, "name": "a"'),
        (b"1", b'{"id": 1, "name": "a"}xx'),
        (b"1", b'{"id": 1}'),
        (b"1", b'{"name": "a"}'),
        (b"1", b'{"id": 2, "name": "a"}'),
        (b"1", b'{"id": true, "name": "a"}'),
        (b"1", b'{"id": 1.0, "name": "a"}'),
        (b"1", b'{"id": 1, "name": null}'),
        (b"1", b'{"id": 1, "name": 5}'),
        (b"1", b'{"id": NaN, "name": "a"}'),
        (b"1", b'{"id": 1, "name": "\\ud800"}'),
        (b"1", b'{"id": 1, "name": "\xff"}'),
        (b"1", b'{"id": 1, "name": ' + b"[" * 100_000),
    ],
    ids=lambda part: repr(part)[:40],
)
def test_a_table_record_that_cannot_be_used_says_why(key: bytes | None, value: bytes) -> None:
    with pytest.raises(InvalidRecord, match=r"\w"):
        parse_named(key, value)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{}",
        b'{"generation": 1e999, "known": [], "pending": [], "pending_lost": 0}',
        b'{"generation": 1, "known": [{}], "pending": [], "pending_lost": 0}',
        Board(1, (Entry(float("nan"), 1, 0, 1, 1),), ()).to_json(),
        Board(1, (Entry(float("inf"), 1, 0, 1, 1),), ()).to_json(),
    ],
)
def test_bytes_that_are_no_board_are_refused(value: bytes) -> None:
    with pytest.raises(InvalidRecord):
        Board.from_json(value)


def test_an_entry_that_stands_in_both_lists_ranks_once() -> None:
    entry, other = Entry(5.0, 1, 0, 1, 1), Entry(6.0, 2, 0, 2, 2)
    assert Board(1, (entry,), (entry, other)).ranked() == [other, entry]

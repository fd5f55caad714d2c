"""Records of tables: a key and the declared fields, or what cannot be used and why."""

from __future__ import annotations

import pytest

from runtime import Int64, Key, Table, Text
from runtime.errors import InvalidRecord
from runtime.table_records import parse_row

NAMED = Table("towns", Key("id", Int64), {"name": Text}, key_field="id")
FREE = Table("countries", Key("country", Text), {"capital": Text, "people": Int64})


def test_a_table_record_is_a_row_or_a_delete() -> None:
    assert parse_row(NAMED, b"2", b'{"id": 2, "name": "Rome"}') == (2, {"name": "Rome"})
    assert parse_row(NAMED, b"2", None) == (2, None)


def test_an_id_in_quotes_is_an_id() -> None:
    assert parse_row(NAMED, b"2", b'{"id": "2", "name": "Rome"}') == (2, {"name": "Rome"})


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
        parse_row(NAMED, key, value)


def test_a_key_may_be_a_text_and_the_object_need_not_repeat_it() -> None:
    value = b'{"capital": "Roma", "people": 59000000, "id": 7}'
    assert parse_row(FREE, "Italia/Südtirol".encode(), value) == (
        "Italia/Südtirol",
        {"capital": "Roma", "people": 59_000_000},
    )
    assert parse_row(FREE, b"Italia", None) == ("Italia", None)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b"", b'{"capital": "Roma", "people": 1}', "no key"),
        (b"Italia", b'{"people": 1}', "capital is missing or no text"),
        (b"Italia", b'{"capital": "Roma"}', "people is missing or no 64-bit integer"),
        (b"Italia", b'{"capital": "Roma", "people": "1"}', "people is missing or no 64-bit integer"),
        (b"Italia", b'{"capital": "Roma", "people": true}', "people is missing or no 64-bit integer"),
        (b"Italia", b'{"capital": "Roma", "people": 1.0}', "people is missing or no 64-bit integer"),
        (b"Italia", b'{"capital": "Roma", "people": 9223372036854775808}', "people is missing or no 64-bit integer"),
    ],
)
def test_the_reason_names_the_field(key: bytes, value: bytes, reason: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        parse_row(FREE, key, value)
    assert caught.value.reason == reason

"""Records of tables: a key and the declared fields, or what cannot be used and why."""

from __future__ import annotations

import pytest

from runtime import Int64, Key, Table, Text
from runtime.errors import InvalidRecord
from runtime.records import NO_KEY, NO_VALUE, NOT_AN_ID, NOT_JSON_OBJECT, NOT_UTF8
from runtime.table_records import parse_row

NAMED = Table("towns", Key("id", Int64), {"name": Text}, key_field="id")
SENSORS = Table("sensors", key=Key("sensor_id", Int64), fields={"name": Text}, key_field="id")
CUSTOMERS = Table("customers", key=Key("customer", Text), fields={"name": Text, "age": Int64})


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


def test_a_row_is_its_declared_fields() -> None:
    assert parse_row(SENSORS, b"3", b'{"id":"3","name":"","x":[]}') == (3, {"name": ""})
    assert parse_row(CUSTOMERS, "ä/ü".encode(), b'{"age":41,"name":"A"}') == ("ä/ü", {"name": "A", "age": 41})
    assert parse_row(CUSTOMERS, b"x", None) == ("x", None)


@pytest.mark.parametrize(
    ("table", "key", "value", "reason"),
    [
        (SENSORS, None, None, NO_KEY),
        (SENSORS, b"", None, NOT_AN_ID),
        (SENSORS, b"03", None, NOT_AN_ID),
        (SENSORS, b"\xff", None, NOT_UTF8),
        (SENSORS, b"3", b"", NO_VALUE),
        (SENSORS, b"3", b"[]", NOT_JSON_OBJECT),
        (SENSORS, b"3", b'{"id":true,"name":"x"}', "id is missing or not the key"),
        (SENSORS, b"3", b'{"id":3.0,"name":"x"}', "id is missing or not the key"),
        (SENSORS, b"3", b'{"id":3,"name":5}', "name is missing or no text"),
        (SENSORS, b"3", b'{"id":3,"name":"\\ud800"}', "name is missing or no text"),
        (CUSTOMERS, b"", None, NO_KEY),
        (CUSTOMERS, b"x", b'{"name":"A"}', "age is missing or no 64-bit integer"),
        (CUSTOMERS, b"x", b'{"name":"A","age":true}', "age is missing or no 64-bit integer"),
        (CUSTOMERS, b"x", b'{"name":"A","age":9223372036854775808}', "age is missing or no 64-bit integer"),
        (CUSTOMERS, b"x", b'{"name":"A","age":1.5}', "age is missing or no 64-bit integer"),
    ],
)
def test_what_cannot_be_used_says_why(table: Table, key: bytes | None, value: bytes | None, reason: str) -> None:
    with pytest.raises(InvalidRecord) as refused:
        parse_row(table, key, value)
    assert refused.value.reason == reason

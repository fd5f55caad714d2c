"""Records of tables: what is read of them, and why some cannot be used."""

from __future__ import annotations

import pytest

from runtime import Int64, Key, Table, Text
from runtime.errors import InvalidRecord
from runtime.records import NO_KEY, NO_VALUE, NOT_AN_ID, NOT_JSON_OBJECT, NOT_UTF8
from runtime.table_records import parse_row

SENSORS = Table("sensors", key=Key("sensor_id", Int64), fields={"name": Text}, key_field="id")
CUSTOMERS = Table("customers", key=Key("customer", Text), fields={"name": Text, "age": Int64})


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

"""What a store of a global table holds of a key, and which of several rows counts.

A key may lie in several partitions: producers partition in different ways (librdkafka's default is not Java's), and a
topic that gets partitions sends a key elsewhere. Within a partition the last record of a key counts, by offset,
whatever its time says: compaction keeps that one, so that a copy which is filled later finds no other. Of the last
records of several partitions the latest counts, a delete as well, and of equal times that of the highest partition.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

_HEAD: Final = struct.Struct(">Bqq")
_DELETE: Final = 1
_ELSEWHERE: Final = 2


def _with_exponent(value: Decimal) -> str:
    sign, digits, exponent = value.as_tuple()
    return f"{'-' * sign}{''.join(map(str, digits))}E{exponent}"


def _decimal_or_float(text: str) -> Decimal | float:
    """Return a number as it was: a store spells decimals with an E, `3050E-2`, and no float has one."""
    return Decimal(text) if "E" in text else float(text)


_DECODER: Final = json.JSONDecoder(parse_float=_decimal_or_float)
_TEXT: Final = json.JSONEncoder(ensure_ascii=False).encode
_NAME: Final = cache(_TEXT)
"""Of the fields that tables declare, which are few."""
_SPELLED: Final[Mapping[type, Callable[[Any], str]]] = {
    str: _TEXT,
    int: repr,
    float: repr,
    bool: {False: "false", True: "true"}.__getitem__,
    Decimal: _with_exponent,
}
"""What columns have in Python, and what makes JSON of it. `runtime.records.json_bytes` takes three times as long for a
row, and each row that a table is filled with is encoded."""


class TableRow(NamedTuple):
    """The last record of a key in one partition.

    Attributes:
        fields: by name; None is a delete. It is kept, since an older row may lie in another partition.
        time_ms: the record's time, as Kafka has it; -1 when it has none.
        offset: of the record.
        is_elsewhere: another partition may have the key as well. False is certain: a look-up need not go on.
    """

    fields: Mapping[str, Any] | None
    time_ms: int
    offset: int
    is_elsewhere: bool = False

    def encode(self) -> bytes:
        """Return the value that a store keeps."""
        return stored(self.fields, self.time_ms, self.offset, is_elsewhere=self.is_elsewhere)

    @classmethod
    def decode(cls, value: bytes) -> TableRow:
        """Return the row that a store's value is."""
        flags, time_ms, offset = _HEAD.unpack_from(value)
        fields = None if flags & _DELETE else _fields(value)
        return cls(fields, time_ms, offset, bool(flags & _ELSEWHERE))


def stored(fields: Mapping[str, Any] | None, time_ms: int, offset: int, *, is_elsewhere: bool = False) -> bytes:
    """Return what a store keeps of a row; see `TableRow`."""
    head = _HEAD.pack((fields is None) * _DELETE | is_elsewhere * _ELSEWHERE, time_ms, offset)
    if fields is None:
        return head
    texts = [f"{_NAME(name)}:{_SPELLED[type(value)](value)}" for name, value in fields.items()]
    return head + f"{{{','.join(texts)}}}".encode()


def _fields(value: bytes) -> Mapping[str, Any]:
    # `json.loads` takes twice as long. Read only, since a row may be shared.
    return MappingProxyType(_DECODER.raw_decode(value[_HEAD.size :].decode())[0])


def is_certain(value: bytes) -> bool:
    """Return whether a store's value is a row, and no other partition can have another one."""
    return not value[0]


def offset_of(value: bytes) -> int:
    """Return the offset of the record that a store's value comes from."""
    offset: int = _HEAD.unpack_from(value)[2]
    return offset


def certain_fields(value: bytes) -> Mapping[str, Any] | None:
    """Return the fields in a store's value when no other partition can have others; else None."""
    return None if value[0] else _fields(value)


def newest(rows: Mapping[int, TableRow]) -> int | None:
    """Return the partition whose row of a key counts, or None when there is no row.

    Args:
        rows: the rows of one key by partition.
    """
    return max(rows, key=lambda partition: (rows[partition].time_ms, partition), default=None)


def newest_fields(rows: Mapping[int, TableRow]) -> Mapping[str, Any] | None:
    """Return the fields that count, or None when the key does not exist."""
    partition = newest(rows)
    return None if partition is None else rows[partition].fields

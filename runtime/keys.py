"""Keys: what tells the rows of a store or a table apart, as text, as Python has it, and as bytes in order.

In a topic a key is text, in a store it is bytes whose order is the key's own, in between an `int` or a `str`, which
cost nothing to compare and to look up.

>>> Int64.parse("7"), Int64.text(7), Int64.encode(7) < Int64.encode(10)
(7, '7', True)
>>> Int64.following(7), Text.following("a"), Int64.following(2**63 - 1)
(8, 'a\\x00', None)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from runtime.errors import InvalidRecord
from runtime.records import ID_MAX, NO_KEY, parse_id
from runtime.types import ColumnType, check_integer, check_text

KeyValue = Any
"""A key as Python has it: an `int` or a `str`, whatever its type says. All keys of one store are of one type."""

_SIGN: Final = 1 << 63
_HIGHEST_CHARACTER: Final = "\U0010ffff"
_FIRST_SURROGATE: Final = 0xD800
_PAST_SURROGATES: Final = 0xE000
_INTEGER_BYTES: Final = 8


@dataclass(frozen=True, repr=False)
class KeyType(ColumnType):
    """A type of columns that may be keys as well.

    Attributes:
        parse: the key that a text is; raises `InvalidRecord`.
        text: the text of a key, in its one form.
        encode: the key as bytes; their order is the keys'.
        decode: the key that such bytes are; raises ValueError when they are none.
        following: the lowest key above a key; None when there is none.
    """

    parse: Callable[[str], KeyValue]
    text: Callable[[KeyValue], str]
    encode: Callable[[KeyValue], bytes]
    decode: Callable[[bytes], KeyValue]
    following: Callable[[KeyValue], KeyValue | None]

    @property
    def key_schema(self) -> dict[str, Any]:
        """The JSON Schema of a key: no text that is one is empty."""
        return {**dict(self.json_schema), **({"minLength": 1} if self.spark == "string" else {})}


def _encode_integer(key: int) -> bytes:
    # With its sign bit flipped, big endian: the order of the bytes is the order of the numbers.
    return (key + _SIGN).to_bytes(_INTEGER_BYTES, "big")


def _decode_integer(encoded: bytes) -> int:
    if len(encoded) != _INTEGER_BYTES:
        raise ValueError(f"{len(encoded)} bytes are no 64-bit integer")
    return int.from_bytes(encoded, "big") - _SIGN


def _parse_text(text: str) -> str:
    if not text:
        raise InvalidRecord(NO_KEY, "it is empty")
    return text


Int64: Final = KeyType(
    name="integer",
    spark="bigint",
    json_schema=(("type", "integer"), ("format", "int64")),
    wanted="64-bit integer",
    check=check_integer,
    published="bigint",
    parse=parse_id,
    text=str,
    encode=_encode_integer,
    decode=_decode_integer,
    following=lambda key: None if key >= ID_MAX else key + 1,
)
"""A signed 64-bit integer; the text of a key is its shortest decimal form."""

Text: Final = KeyType(
    name="text",
    spark="string",
    json_schema=(("type", "string"),),
    wanted="text",
    check=check_text,
    published="string",
    parse=_parse_text,
    text=str,
    encode=str.encode,
    decode=bytes.decode,
    following=lambda key: f"{key}\0",
)
"""A text; as a key it is not empty, and in order of its UTF-8 bytes, which is that of its code points."""


def past_prefix(prefix: str) -> str | None:
    """Return the lowest text above all that begin with `prefix`; None when nothing is above them.

    >>> past_prefix("ab"), past_prefix("a\U0010ffff"), past_prefix("\U0010ffff")
    ('ac', 'b', None)
    """
    kept = prefix.rstrip(_HIGHEST_CHARACTER)
    if not kept:
        return None
    above = ord(kept[-1]) + 1
    # Surrogates stand between, which are no characters.
    return kept[:-1] + chr(_PAST_SURROGATES if above == _FIRST_SURROGATE else above)


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a store or a table: the column that it is in, and its type.

    >>> Key("word", Text)
    Key(name='word', type=Text)
    """

    name: str
    type: KeyType

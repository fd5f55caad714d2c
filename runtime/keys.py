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
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

from runtime.errors import DeclarationError, InvalidRecord
from runtime.records import ID_MAX, ID_MIN, NO_KEY, parse_id
from runtime.types import ColumnType, check_integer, check_text

KeyValue = Any
"""A key as Python has it: an `int`, a `str` or a `KeyPair`, whatever its type says. All keys of one store are of one
type."""

_SIGN: Final = 1 << 63
_HIGHEST_CHARACTER: Final = "\U0010ffff"
_FIRST_SURROGATE: Final = 0xD800
_PAST_SURROGATES: Final = 0xE000
_INTEGER_BYTES: Final = 8
_ANY_INTEGER: Final = "(?:0|-?[1-9][0-9]{0,18})"
_ANY_TEXT: Final = r"[\s\S]+"
_END_OF_TEXT: Final = b"\x00\x00"
_NUL: Final = b"\x00\x01"


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


_LOWEST: Final = {Int64: ID_MIN, Text: ""}
"""Below or at each key of a type."""


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


def first_bytes(of: KeyType, key: KeyValue) -> bytes:
    """Return the bytes of a key that others follow: those of no other key begin with them, and their order stays.

    All integers are of one length. A text ends with two zeros, which stand before whatever a longer one has.
    """
    encoded = of.encode(key)
    return encoded if of is Int64 else encoded.replace(b"\x00", _NUL) + _END_OF_TEXT


def key_of_first_bytes(of: KeyType, encoded: bytes) -> KeyValue:
    """Return the key that `first_bytes` made these bytes of; raises ValueError when they are none."""
    if of is Int64:
        return of.decode(encoded)
    if not encoded.endswith(_END_OF_TEXT):
        raise ValueError(f"{encoded!r} are no bytes of a text that others follow")
    return of.decode(encoded[: -len(_END_OF_TEXT)].replace(_NUL, b"\x00"))


class KeyPair(NamedTuple):
    """A key of two parts.

    Attributes:
        first: all rows that have it are in one partition, and stand together.
        second: tells them apart.
    """

    first: KeyValue
    second: KeyValue


@lru_cache
def pair_of(first: KeyType, second: KeyType) -> KeyType:
    """Return the type of keys of two parts: `KeyPair` in Python, and in order of the first part, then of the second.

    >>> keys = pair_of(Int64, Text)
    >>> keys.parse("7/a/b"), keys.text(KeyPair(7, "a")), keys.following(KeyPair(7, "a"))
    (KeyPair(first=7, second='a/b'), '7/a', KeyPair(first=7, second='a\\x00'))

    Args:
        first: the type of the first part; of two texts nobody could tell where the first one ends.
        second: the type of the second part.
    """
    cut = str.partition if first is Int64 else str.rpartition
    wanted = f"{first.wanted} and {second.wanted} with / between"
    pattern = "/".join(_ANY_INTEGER if part is Int64 else _ANY_TEXT for part in (first, second))

    def parse(text: str) -> KeyPair:
        one, slash, other = cut(text, "/")
        if not slash:
            raise InvalidRecord(NO_KEY, f"{text[:40]!r} is not a {wanted}")
        return KeyPair(first.parse(one), second.parse(other))

    def decode(encoded: bytes) -> KeyPair:
        at = _INTEGER_BYTES if first is Int64 else len(encoded) - _INTEGER_BYTES
        return KeyPair(key_of_first_bytes(first, encoded[:at]), second.decode(encoded[at:]))

    def following(key: KeyPair) -> KeyPair | None:
        if (above := second.following(key.second)) is not None:
            return KeyPair(key.first, above)
        next_first = first.following(key.first)
        return None if next_first is None else KeyPair(next_first, _LOWEST[second])

    return KeyType(
        name=f"{first.name}/{second.name}",
        spark="string",
        json_schema=(("type", "string"), ("pattern", f"^{pattern}$")),
        wanted=wanted,
        check=check_text,
        published="string",
        parse=parse,
        text=lambda key: f"{first.text(key.first)}/{second.text(key.second)}",
        encode=lambda key: first_bytes(first, key.first) + second.encode(key.second),
        decode=decode,
        following=following,
    )


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a store or a table: the column that it is in, and its type; of a store also two columns.

    >>> Key("word", Text)
    Key(name='word', type=Text)
    >>> (Key("city", Text) / Key("year", Int64)).type.parse("Rome/2026")
    KeyPair(first='Rome', second=2026)

    Attributes:
        name: of the column.
        type: what the column holds.
        parts: the two columns of a key of two parts, which `/` makes of two keys; the first one says which partition
            a row is in.
    """

    name: str
    type: KeyType
    parts: tuple[Key, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.type, KeyType):
            raise DeclarationError(f"the key {self.name} is of {self.type!r}: give it Text or Int64")

    def __truediv__(self, other: Key) -> Key:
        """Return the key that these two are together."""
        types = (self.type, other.type)
        if any(of not in (Int64, Text) for of in types) or types == (Text, Text):
            raise DeclarationError(
                f"the key {self.name}/{other.name} is of {self.type.name} and {other.type.name}: give it two parts of"
                " which one is an Int64 at least, so that its text says where the first one ends"
            )
        if self.name == other.name:
            raise DeclarationError(f"both parts of the key {self.name}/{other.name} have one name: give one another")
        return Key(f"{self.name}/{other.name}", pair_of(*types), (self, other))

    def turned(self, key: KeyPair) -> bytes:
        """Return the bytes of a key of two parts with the second part first, so that its rows stand together."""
        first, second = self.parts
        return first_bytes(second.type, key.second) + first.type.encode(key.first)

    def unturned(self, entry: bytes) -> KeyPair:
        """Return the key that `turned` made these bytes of; raises ValueError when they are none."""
        first, second = self.parts
        turned = pair_of(second.type, first.type).decode(entry)
        return KeyPair(turned.second, turned.first)

    @property
    def columns(self) -> tuple[Key, ...]:
        """The columns that tell rows apart: itself, or those of its two parts."""
        return self.parts or (self,)

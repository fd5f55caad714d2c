"""Records of result topics: of what each is made, and which of two is to be kept.

A result record is the key's text, the values as JSON, and headers that say of what it is made. What comes twice, late
or out of order changes nothing: lattices merge, and of accumulators a record replaces another only when it counts every
event that the other does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from pydantic_core import from_json

from runtime.errors import InvalidRecord
from runtime.records import ID_MAX, ID_MIN
from runtime.values import Values

NOT_A_RESULT: Final = "not a result"

# One for all records: `json.dumps` would look at its arguments again for each.
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))

_NUMBERS: Final = ("generation", "version", "events", "newest_ms")
_numbers_of: Final = itemgetter(*_NUMBERS)
_NUMBER: Final = rb"(?:0|[1-9][0-9]{0,17})"
_OF_PARTITION: Final = rb'"(?:0|[1-9][0-9]{0,9})":N'.replace(b"N", _NUMBER)
_OF_TOPIC: Final = rb'"[!#-\[\]-~]+":\{(?:P(?:,P)*)?\}'.replace(b"P", _OF_PARTITION)
_PLAIN_NUMBERS: Final = re.compile(rb"N,N,N,N".replace(b"N", _NUMBER))
_PLAIN_OFFSETS: Final = re.compile(rb"\{(?:T(?:,T)*)?\}".replace(b"T", _OF_TOPIC))
"""Offsets as Spark and this module write them."""

Offsets = Mapping[str, Mapping[str, int]]
"""By topic id and partition the offset of the last record that is in a result."""

Headers = Iterable[tuple[str, bytes]]

_NO_OFFSETS: Final[Offsets] = MappingProxyType({})


class _Fields(NamedTuple):
    generation: int
    version: int
    events: int
    newest_ms: int | None
    offsets: Offsets


class Made:
    """Of what a result is made.

    Attributes:
        generation: of the checkpoint that it comes from; a later one begins with what was published.
        version: of the store.
        events: how many are in it; for people.
        newest_ms: the timestamp of the newest event in it, in milliseconds; None when it is of none.
        offsets: see `Offsets`; empty where the values are a lattice, which needs none.
    """

    __slots__ = ("_fields", "_line")

    def __init__(
        self,
        generation: int,
        version: int = 1,
        events: int = 0,
        newest_ms: int | None = None,
        offsets: Offsets = _NO_OFFSETS,
    ) -> None:
        self._fields: _Fields | None = _Fields(generation, version, events, newest_ms, offsets)
        self._line = b""

    @classmethod
    def of_headers(cls, headers: Headers) -> Made | None:
        """Return what the headers of a record say; None when they say nothing.

        Raises:
            InvalidRecord: they say something that cannot be.
        """
        found = dict(headers)
        if "generation" not in found:
            return None
        line = _plain_line(found)
        if line is not None:
            return _Said(line)
        try:
            return cls(
                _number(found["generation"]),
                _number(found.get("version", b"1")),
                _number(found.get("events", b"0")),
                _number(found["newest_ms"]) if "newest_ms" in found else None,
                _offsets(found["offsets"]) if "offsets" in found else {},
            )
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidRecord(NOT_A_RESULT, f"its headers: {error!r}") from error

    def to_headers(self) -> list[tuple[str, bytes]]:
        """Return the headers that say this."""
        *numbers, offsets = self.fields
        said = [(name, b"%d" % number) for name, number in zip(_NUMBERS, numbers, strict=True) if number is not None]
        return [*said, ("offsets", _offsets_text(offsets))]

    @property
    def fields(self) -> _Fields:
        """The attributes, in their order."""
        if self._fields is None:
            # Each result that is merged has two of these read; `json` takes four times as long.
            self._fields = _Fields(*from_json(self._line))
        return self._fields

    @property
    def line(self) -> bytes:
        """The same as JSON in one line: what a store keeps."""
        if not self._line:
            generation, version, events, newest_ms, offsets = self.fields
            # By hand: each result that was merged is written so.
            newest = b"null" if newest_ms is None else b"%d" % newest_ms
            self._line = b"[%d,%d,%d,%b,%b]" % (generation, version, events, newest, _offsets_text(offsets))
        return self._line

    @property
    def generation(self) -> int:
        return self.fields.generation

    @property
    def version(self) -> int:
        return self.fields.version

    @property
    def events(self) -> int:
        return self.fields.events

    @property
    def newest_ms(self) -> int | None:
        return self.fields.newest_ms

    @property
    def offsets(self) -> Offsets:
        return self.fields.offsets

    def covers(self, other: Made) -> bool:
        """Return whether every event of the other is in this one, by the offsets."""
        own = self.offsets
        for topic_id, partitions in other.offsets.items():
            of_topic = own.get(topic_id, {})
            for partition, offset in partitions.items():
                if of_topic.get(partition, -1) < offset:
                    return False
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Made):
            return NotImplemented
        return self.line == other.line or self.fields == other.fields

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.fields).replace(_Fields.__name__, Made.__name__)


class _Said(Made):
    """What a record or a store says, read when somebody asks: a restore keeps most records without that.

    Args:
        line: in the form that is known to be right.
    """

    __slots__ = ()

    def __init__(self, line: bytes) -> None:
        self._fields = None
        self._line = line


class Result(NamedTuple):
    """A result record of one key.

    Attributes:
        made: of what it is made.
        values: as the store's `Values` has them.
    """

    made: Made
    values: Any


BELOW_VERSION: Final = "below_version"
"""The header of a record without a value that deletes results of earlier versions alone: earlier than this one."""


def delete_headers(below_version: int) -> list[tuple[str, bytes]]:
    """Return the headers of a record that deletes a result of versions before this one alone. Its value is null."""
    return [(BELOW_VERSION, b"%d" % below_version)]


def outlives(held: Made, headers: Headers) -> bool:
    """Return whether a result stays when a record without a value comes: one that deletes those of earlier versions.

    >>> outlives(Made(1, version=2), delete_headers(2)), outlives(Made(1, version=1), delete_headers(2))
    (True, False)
    >>> outlives(Made(1, version=2), [])
    False

    Args:
        held: of what the result is made.
        headers: of the record.
    """
    said = dict(headers).get(BELOW_VERSION)
    try:
        return said is not None and held.version >= _number(said)
    except (ValueError, TypeError, RecursionError):
        # It deletes whatever is there, as one without headers.
        return False


def parse(values: Values, value: bytes, headers: Headers) -> Result:
    """Return the result that a record is.

    Raises:
        InvalidRecord: it is none.
    """
    found = values.parse(value)
    made = Made.of_headers(headers)
    if made is None:
        generation = values.generation_of(found)
        if generation is None:
            raise InvalidRecord(NOT_A_RESULT, "it has no header generation")
        made = Made(generation)
    return Result(made, found)


def stored_unread(values: Values, value: bytes, headers: Headers) -> bytes | None:
    """Return what a store keeps of a record that is a result at a glance; None when it has to be parsed first."""
    line = _plain_line(dict(headers)) if values.is_plain(value) else None
    return None if line is None else b"%b\n%b" % (line, value)


def merge(values: Values, held: Result | None, new: Result) -> Result:
    """Return what a store keeps of what it holds and a record that comes; the same for any repeat, in any order.

    Args:
        values: of the store.
        held: what it holds, if anything. It is what is returned where the record says the same.
        new: the record.
    """
    if held is None:
        return new
    if held == new:
        return held
    if held.made.version != new.made.version:
        return new if held.made.version < new.made.version else held
    if values.final:
        return _merged_final(values, held, new)
    if not values.lattice:
        # Where neither counts all that the other does, what is held stays: the driver's next records count all of it.
        return new if new.made.covers(held.made) else held
    if held.made.generation != new.made.generation:
        return new if held.made.generation < new.made.generation else held
    return Result(_latest(held.made, new.made), values.merge(held.values, new.values))


def stands_for(values: Values, record: Result, merged: Result) -> bool:
    """Return whether a record says all that came of merging it; if not, the merged one has to be published again."""
    if record.made.version != merged.made.version:
        return False
    if values.final:
        return values.stands_for(record.values, merged.values)
    if not values.lattice:
        return record == merged
    return record.made.generation == merged.made.generation and values.stands_for(record.values, merged.values)


def to_stored(values: Values, result: Result, value: bytes | None = None) -> bytes:
    """Return a result as a store keeps it: a line that says of what it is made, and the values as JSON.

    Args:
        values: of the store.
        result: what to keep.
        value: the values as JSON where they are there already; to encode them again would cost more than the rest.
    """
    return b"%b\n%b" % (result.made.line, values.to_json(result.values) if value is None else value)


def values_of(stored: bytes) -> bytes:
    """Return the values of what a store keeps, as JSON."""
    return stored[stored.index(b"\n") + 1 :]


def made_of(stored: bytes) -> Made:
    """Return of what it is made what a store keeps."""
    return _Said(stored[: stored.index(b"\n")])


def from_stored(values: Values, stored: bytes) -> Result:
    """Return the result that a store keeps."""
    return Result(made_of(stored), values.parse(values_of(stored)))


def _plain_line(headers: Mapping[str, bytes]) -> bytes | None:
    """Return the line of `Made` that headers say as Spark and this module write them; None where they may be others."""
    try:
        numbers = b",".join(_numbers_of(headers))
        if not _PLAIN_NUMBERS.fullmatch(numbers):
            return None
        if "offsets" not in headers:
            # Of a lattice.
            return b"[%b,{}]" % numbers
        offsets = headers["offsets"]
        return b"[%b,%b]" % (numbers, offsets) if _PLAIN_OFFSETS.fullmatch(offsets) else None
    except (KeyError, TypeError):
        # One is not there, or null.
        return None


def _number(value: bytes | None) -> int:
    """Return the number that a header says; Kafka's headers may be null."""
    return _whole(json.loads(value or b""))


def _offsets(value: bytes | None) -> Offsets:
    """Return the offsets that a header says."""
    return {
        str(topic_id): {str(int(partition)): _whole(offset) for partition, offset in partitions.items()}
        for topic_id, partitions in json.loads(value or b"").items()
    }


def _whole(value: Any) -> int:
    """Return a number as JSON has whole ones; no other is one to Spark, whose half leaves out what this refuses."""
    if isinstance(value, bool) or not isinstance(value, int) or not ID_MIN <= value <= ID_MAX:
        raise TypeError(f"{value!r:.40} is no 64-bit integer")
    return value


def _latest(left: Made, right: Made) -> Made:
    newest_ms = max((each.newest_ms for each in (left, right) if each.newest_ms is not None), default=None)
    return Made(left.generation, left.version, max(left.events, right.events), newest_ms, left.offsets)


def _offsets_text(offsets: Offsets) -> bytes:
    return _ENCODER.encode(dict(offsets)).encode() if offsets else b"{}"


def _merged_final(values: Values, held: Result, new: Result) -> Result:
    """Return what is kept of two results of which each says all: one for all who read both, in whatever order."""
    first, other = sorted((held, new), key=lambda each: each.made.generation)
    if values.lattice:
        return Result(_latest(first.made, other.made), values.merge(held.values, new.values))
    return first

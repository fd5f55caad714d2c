"""Records of result topics: of what each is made, and which of two is to be kept.

A result record is the key's text, the values as JSON, and headers that say of what it is made. What comes twice, late
or out of order changes nothing: lattices merge, and of accumulators a record replaces another only when it counts every
event that the other does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from runtime.errors import InvalidRecord
from runtime.records import ID_MAX, ID_MIN
from runtime.values import Values

NOT_A_RESULT: Final = "not a result"

# One of each for all records: `json.loads` and `json.dumps` would look at their arguments again for each.
_DECODER: Final = json.JSONDecoder()
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))
_SHORT_DIGITS: Final = 19
_ZERO: Final = ord("0")
_OF_PARTITION: Final = rb'"(?:0|[1-9][0-9]{0,9})":(?:0|[1-9][0-9]{0,17})'
_OF_TOPIC: Final = rb'"[!#-\[\]-~]+":\{(?:P(?:,P)*)?\}'.replace(b"P", _OF_PARTITION)
_PLAIN_OFFSETS: Final = re.compile(rb"\{T(?:,T)*\}".replace(b"T", _OF_TOPIC))
"""Offsets as Spark and this module write them."""

Offsets = Mapping[str, Mapping[str, int]]
"""By topic id and partition the offset of the last record that is in a result."""

Headers = Iterable[tuple[str, bytes]]


class _Said(Mapping[str, Mapping[str, int]]):
    """Offsets as a header says them, read when somebody asks: most records are kept without that.

    Args:
        text: JSON in the form that is known to be right.
    """

    __slots__ = ("_read", "text")

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._read: dict[str, dict[str, int]] | None = None

    def __getitem__(self, topic_id: str) -> Mapping[str, int]:
        return self._offsets[topic_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    def __bool__(self) -> bool:
        # In the plain form there is one at least.
        return True

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, _Said) and self.text == other.text) or super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._offsets)

    @property
    def _offsets(self) -> dict[str, dict[str, int]]:
        if self._read is None:
            self._read = _DECODER.decode(self.text.decode())
        return self._read


class Made(NamedTuple):
    """Of what a result is made.

    Attributes:
        generation: of the checkpoint that it comes from; a later one begins with what was published.
        version: of the store.
        events: how many are in it; for people.
        newest_ms: the timestamp of the newest event in it, in milliseconds; None when it is of none.
        offsets: see `Offsets`; empty where the values are a lattice, which needs none.
    """

    generation: int
    version: int = 1
    events: int = 0
    newest_ms: int | None = None
    offsets: Offsets = MappingProxyType({})

    @classmethod
    def of_headers(cls, headers: Headers) -> Made | None:
        """Return what the headers of a record say; None when they say nothing.

        Raises:
            InvalidRecord: they say something that cannot be.
        """
        found = dict(headers)
        if "generation" not in found:
            return None
        try:
            return cls(
                _usual_number(found["generation"]),
                _usual_number(found.get("version", b"1")),
                _usual_number(found.get("events", b"0")),
                _number(found["newest_ms"]) if "newest_ms" in found else None,
                _offsets(found["offsets"]) if "offsets" in found else {},
            )
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidRecord(NOT_A_RESULT, f"its headers: {error!r}") from error

    def to_headers(self) -> list[tuple[str, bytes]]:
        """Return the headers that say this."""
        numbers = [(name, _json(value)) for name, value in zip(self._fields[:-1], self[:-1], strict=True)]
        return [*((name, said) for name, said in numbers if said != b"null"), ("offsets", _offsets_text(self.offsets))]

    def covers(self, other: Made) -> bool:
        """Return whether every event of the other is in this one, by the offsets."""
        return all(
            self.offsets.get(topic_id, {}).get(partition, -1) >= offset
            for topic_id, partitions in other.offsets.items()
            for partition, offset in partitions.items()
        )


class Result(NamedTuple):
    """A result record of one key.

    Attributes:
        made: of what it is made.
        values: as the store's `Values` has them.
    """

    made: Made
    values: Any


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


def merge(values: Values, held: Result | None, new: Result) -> Result:
    """Return what a store keeps of what it holds and a record that comes; the same for any repeat, in any order.

    Args:
        values: of the store.
        held: what it holds, if anything.
        new: the record.
    """
    if held is None or held == new or held.made.version < new.made.version:
        return new
    if held.made.version > new.made.version:
        return held
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
    return _line(result.made) + b"\n" + (values.to_json(result.values) if value is None else value)


def values_of(stored: bytes) -> bytes:
    """Return the values of what a store keeps, as JSON."""
    return stored[stored.index(b"\n") + 1 :]


def made_of(stored: bytes) -> Made:
    """Return of what it is made what a store keeps."""
    return Made(*_DECODER.decode(stored[: stored.index(b"\n")].decode()))


def from_stored(values: Values, stored: bytes) -> Result:
    """Return the result that a store keeps."""
    return Result(made_of(stored), values.parse(values_of(stored)))


def _number(value: bytes | None) -> int:
    """Return the number that a header says; Kafka's headers may be null."""
    # Plain digits, as nearly all are, are read in a tenth of the time that JSON's decoder takes.
    if value and value.isdigit() and len(value) < _SHORT_DIGITS and (value[0] != _ZERO or len(value) == 1):
        return int(value)
    return _whole(json.loads(value or b""))


_usual_number: Final = lru_cache(1024)(_number)
"""Of what many records say alike."""


def _offsets(value: bytes | None) -> Offsets:
    """Return the offsets that a header says."""
    if value and _PLAIN_OFFSETS.fullmatch(value):
        return _Said(value)
    return {
        str(topic_id): {str(int(partition)): _whole(offset) for partition, offset in partitions.items()}
        for topic_id, partitions in json.loads(value or b"").items()
    }


def _whole(value: Any) -> int:
    """Return a number as JSON has whole ones; no other is one to Spark, whose half leaves out what this refuses."""
    if isinstance(value, bool) or not isinstance(value, int) or not ID_MIN <= value <= ID_MAX:
        raise TypeError(f"{value!r:.40} is no 64-bit integer")
    return value


def _line(made: Made) -> bytes:
    # By hand: each record of a restore is written so.
    generation, version, events, newest_ms, offsets = made
    newest = b"null" if newest_ms is None else b"%d" % newest_ms
    return b"[%d,%d,%d,%b,%b]" % (generation, version, events, newest, _offsets_text(offsets))


def _offsets_text(offsets: Offsets) -> bytes:
    if isinstance(offsets, _Said):
        return offsets.text
    return _json(dict(offsets)) if offsets else b"{}"


def _merged_final(values: Values, held: Result, new: Result) -> Result:
    """Return what is kept of two results of which each says all: one for all who read both, in whatever order."""
    first, other = sorted((held, new), key=lambda each: each.made.generation)
    if values.lattice:
        return Result(_latest(first.made, other.made), values.merge(held.values, new.values))
    return first


def _latest(left: Made, right: Made) -> Made:
    newest_ms = max((each.newest_ms for each in (left, right) if each.newest_ms is not None), default=None)
    return left._replace(events=max(left.events, right.events), newest_ms=newest_ms)


def _json(value: Any) -> bytes:
    return _ENCODER.encode(value).encode()

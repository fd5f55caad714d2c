"""What a record of the inputs means, written a second time: by Python's own JSON parser and in the plainest way.

`leaderboard verify` is worth something only as long as this shares no decision with the topology and its parser.
"""

from __future__ import annotations

import json
import math
import re
import sys
from typing import Any, Final, NamedTuple

MAX_DEPTH: Final = 1000
"""Objects and arrays inside each other; a record that has more cannot be used."""

MAX_DIGITS: Final = 1000
"""Of a number; a record that has a longer one, anywhere, cannot be used."""

MAX_BYTES: Final = 16 * 1024 * 1024
"""Of a key, and of a value; a record that has more of either cannot be used."""

MAX_TIME_MS: Final = 9_000_000_000_000_000
"""Before and after 1970; a score event that says to be from any other time cannot be used."""

MIN_TIME_IN_SPARK_MS: Final = -8_999_816_313_600_000
"""What such a time before 1970 is in Spark, which takes it that days before 1582 are of the Julian calendar."""

_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
# A string that never ends takes the rest of the text, so that no quote is looked at twice.
_BRACKETS: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_CERTAINLY_FLAT: Final = 500


class Score(NamedTuple):
    """A usable score event."""

    product_id: int
    player_id: int
    score: float


class Row(NamedTuple):
    """A usable table record; no name deletes the row."""

    id: int
    name: str | None


class _NumberText(str):
    """A JSON number as it is written: what becomes of it is decided here, not by a parser."""

    __slots__ = ()


def judge_score_at(timestamp_ms: int, key: bytes | None, value: bytes | None) -> Score | None:
    """Return the score event that a record is, or None when it cannot be used."""
    if abs(timestamp_ms) > MAX_TIME_MS or _is_too_large(key):
        return None
    return judge_score(value)


def judge_score(value: bytes | None) -> Score | None:
    """Return the score event that a value is, or None when it cannot be used."""
    if _is_too_large(value):
        return None
    fields = _object(value)
    if fields is None:
        return None
    product_id, player_id = _id(fields.get("product_id")), _id(fields.get("player_id"))
    score = _finite(fields.get("score"))
    if product_id is None or player_id is None or score is None:
        return None
    return Score(product_id, player_id, score)


def judge_row(key: bytes | None, value: bytes | None) -> Row | None:
    """Return the row that a table record is, or None when it cannot be used."""
    if _is_too_large(key) or _is_too_large(value):
        return None
    key_text = _text(key)
    row_id = _id(key_text)
    if row_id is None:
        return None
    if value is None:
        return Row(row_id, None)
    fields = _object(value)
    if fields is None or fields.get("id") != key_text:
        return None
    name = fields.get("name")
    if not isinstance(name, str) or isinstance(name, _NumberText) or not _is_unicode(name):
        return None
    return Row(row_id, name)


def _is_too_large(part: bytes | None) -> bool:
    return part is not None and len(part) > MAX_BYTES


def _id(field: Any) -> int | None:
    """Return the id that a number or a string is: a signed 64-bit integer in its shortest decimal form."""
    if not isinstance(field, str) or _INTEGER.fullmatch(field) is None:
        return None
    number = int(field)
    return number if -(2**63) <= number < 2**63 else None


def _finite(field: Any) -> float | None:
    """Return the double that a number, or a string that holds just one, is."""
    if not isinstance(field, str) or _NUMBER.fullmatch(field) is None:
        return None
    number = float(field)
    return number if math.isfinite(number) else None


def _object(value: bytes | None) -> dict[str, Any] | None:
    """Return the fields of the one JSON object that a value is, each name with its last value."""
    text = _text(value)
    if text is None or _is_too_deep(text):
        return None
    try:
        found = json.loads(text, parse_int=_number, parse_float=_number, parse_constant=_refuse)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _is_unicode(text: str) -> bool:
    """Return whether a text can be encoded; an escape of JSON's can spell half of a character."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _is_too_deep(text: str) -> bool:
    if text.count("{") + text.count("[") <= _CERTAINLY_FLAT:
        return False
    deepest = depth = 0
    for bracket in _BRACKETS.finditer(text):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(bracket[0], 0)
        deepest = max(deepest, depth)
    # The parser calls itself for each level, and Python's own limit would come before this one.
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 4 * MAX_DEPTH))
    return deepest > MAX_DEPTH


def _number(text: str) -> _NumberText:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a number of {len(text)} digits")
    return _NumberText("0" if text == "-0" else text)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")

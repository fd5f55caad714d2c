"""Records as bytes: what is wrong with some, ids, texts and JSON objects."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from runtime.errors import InvalidRecord

ID_MIN: Final = -(2**63)
ID_MAX: Final = 2**63 - 1

LARGEST_BYTES: Final = 16 << 20
"""Of a key or a value. Spark copies a record several times over, and its heap is 1 GB by default."""

FURTHEST_MS: Final = 9 * 10**15
"""From 1970, either way. Spark's times end at 9.22 * 10**15, and it has to change their calendar before."""

TIMESTAMP_REASON: Final = "the timestamp is not in milliseconds"
TOO_LARGE: Final = "larger than 16 MiB"
NO_KEY: Final = "no key"
NO_VALUE: Final = "no value"
NOT_UTF8: Final = "not UTF-8"
NOT_JSON_OBJECT: Final = "not a JSON object"
NOT_AN_ID: Final = "the key is no 64-bit integer"
MISPLACED: Final = "the key belongs to another partition"

_ID: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")


def parse_id(text: str) -> int:
    """Return the id that `text` is.

    Raises:
        InvalidRecord: `text` is not a signed 64-bit integer in its shortest decimal form.
    """
    if _ID.fullmatch(text) is None or not ID_MIN <= (number := int(text)) <= ID_MAX:
        raise InvalidRecord(NOT_AN_ID, f"{text[:40]!r} is not a signed 64-bit integer in its shortest decimal form")
    return number


def is_unicode(text: str) -> bool:
    """Return whether `text` can be encoded; JSON's escapes can spell half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def json_object(value: bytes) -> dict[str, Any]:
    """Return the JSON object that a record's value is.

    Raises:
        InvalidRecord: it is none.
    """
    if not value:
        raise InvalidRecord(NO_VALUE)
    try:
        fields = _JSON.decode(text_of(value))
    except (ValueError, RecursionError) as error:
        raise InvalidRecord(NOT_JSON_OBJECT, error) from error
    if not isinstance(fields, dict):
        raise InvalidRecord(NOT_JSON_OBJECT, f"but {type(fields).__name__}")
    return fields


def text_of(value: bytes) -> str:
    """Return the text that bytes are; raises InvalidRecord when they are no UTF-8."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRecord(NOT_UTF8, error) from error


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_JSON: Final = json.JSONDecoder(parse_constant=_refuse_constant)
"""One for all records: `json.loads` would make one for each."""

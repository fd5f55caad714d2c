"""Records as bytes: what is wrong with some, ids, texts and JSON objects."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from pydantic_core import from_json

from runtime.errors import InvalidRecord

ID_MIN: Final = -(2**63)
ID_MAX: Final = 2**63 - 1

LARGEST_BYTES: Final = 16 << 20
"""Of a key or a value. Spark copies a record several times over, and its heap is 1 GB by default."""

FURTHEST_MS: Final = 9 * 10**15
"""From 1970, either way. Spark's times end at 9.22 * 10**15, and it has to change their calendar before."""

TIMESTAMP_REASON: Final = "the timestamp is not in milliseconds"
TOO_LARGE: Final = "larger than 16 MiB"
OF_THE_FUTURE: Final = "the timestamp is more than an hour ahead of the clock"
NOT_AFTER_YEAR_1: Final = "the timestamp is of no year that a window can be of"
NO_KEY: Final = "no key"
NO_VALUE: Final = "no value"
NOT_UTF8: Final = "not UTF-8"
NOT_JSON_OBJECT: Final = "not a JSON object"
NOT_AN_ID: Final = "the key is no 64-bit integer"
MISPLACED: Final = "the key belongs to another partition"

_MAY_BE_NO_WHOLE_NUMBER: Final = re.compile(rb"[0-9][.eE]")
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


def json_object(value: bytes, *, exact: bool = False) -> dict[str, Any]:
    """Return the JSON object that a record's value is.

    Args:
        value: of the record.
        exact: have numbers with a fraction or an exponent as decimals, with all their digits, in place of floats.

    Raises:
        InvalidRecord: it is none.
    """
    if not value:
        raise InvalidRecord(NO_VALUE)
    if exact and _MAY_BE_NO_WHOLE_NUMBER.search(value):
        fields = _decoded(value, _EXACT_JSON)
    else:
        try:
            # In half the time of Python's decoder, or less. What this one refuses is judged by that one.
            fields = from_json(value, allow_inf_nan=False)
        except ValueError:
            fields = _decoded(value, _JSON)
    if not isinstance(fields, dict):
        raise InvalidRecord(NOT_JSON_OBJECT, f"but {type(fields).__name__}")
    return fields


def _decoded(value: bytes, decoder: json.JSONDecoder) -> Any:
    text = text_of(value)
    try:
        fields, end = decoder.raw_decode(text) if text[0] == "{" else (None, 0)
        # White space around it takes as long to look for as a small object takes to read.
        return fields if end == len(text) else decoder.decode(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRecord(NOT_JSON_OBJECT, error) from error


def text_of(value: bytes) -> str:
    """Return the text that bytes are; raises InvalidRecord when they are no UTF-8."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRecord(NOT_UTF8, error) from error


def json_bytes(value: Any) -> bytes:
    """Return JSON as bytes, decimals with all their digits.

    >>> json_bytes({"total": Decimal("30.00")})
    b'{"total":30.00}'

    Args:
        value: mappings, lists, texts, numbers, decimals, true, false and None.

    Raises:
        TypeError: there is something else in it.
        ValueError: there is a number in it that JSON does not have: infinity, or none at all.
    """
    try:
        return _ENCODER.encode(value).encode()
    except _DecimalFound:
        return _exact_text(value).encode()


def _exact_text(value: Any) -> str:
    # Python's encoder has no way to write a number that is none of its own.
    match value:
        case Decimal():
            return f"{value:f}"
        case Mapping():
            names = (name if isinstance(name, str) else _ENCODER.encode(name) for name in value)
            fields = zip(names, value.values(), strict=True)
            return f"{{{','.join(f'{_ENCODER.encode(name)}:{_exact_text(each)}' for name, each in fields)}}}"
        case list() | tuple():
            return f"[{','.join(map(_exact_text, value))}]"
        case _:
            return _ENCODER.encode(value)


class _DecimalFound(Exception):
    pass


def _not_json(value: Any) -> Any:
    if isinstance(value, Decimal):
        raise _DecimalFound
    if isinstance(value, Mapping):
        # A row of a table, which nobody can change.
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_not_json)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _exact_number(text: str) -> Decimal | float:
    try:
        return Decimal(text)
    except InvalidOperation:
        # An exponent of more than eighteen digits.
        return float(text)


_JSON: Final = json.JSONDecoder(parse_constant=_refuse_constant)
"""One for all records: `json.loads` would make one for each."""
_EXACT_JSON: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_exact_number)

"""Types of columns: what Spark calls them, how a JSON value is checked in Python, and how one is served.

A value of a column goes Spark → JSON → store → HTTP answer, and no digit of it is lost on the way. Python has a
decimal as a `decimal.Decimal` with all its digits, `30.00`, and a timestamp as text, which is its JSON as well.

>>> Decimal(2).check(decimal.Decimal("30"))
Decimal('30.00')
>>> Timestamp.check("2026-11-25T21:00:00+01:00")
'2026-11-25T20:00:00.000Z'
"""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from runtime.errors import DeclarationError
from runtime.records import ID_MAX, ID_MIN, is_unicode

FIELD_DIGITS: Final = 18
"""How many digits a decimal has in all: Spark keeps so many in 64 bits."""
SUM_DIGITS: Final = 38
"""How many a sum has: twenty more, so that no number of records that a topic may hold overflows it."""

TIME: Final = (
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"(?:[.][0-9]{1,9})?(?:Z|[-+](?:0[0-9]|1[0-7]):[0-5][0-9])"
)
"""An instant as RFC 3339 has it: with a zone, no leap second. Which days a month has is looked at apart."""
FIRST_MS: Final = -62_135_596_800_000
"""0001-01-01, in milliseconds from 1970: the first instant of four digits of a year that Python has."""
LAST_MS: Final = 253_402_300_799_999
"""The last millisecond of 9999."""

_TIME: Final = re.compile(TIME)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CONTEXT: Final = decimal.Context(prec=SUM_DIGITS, traps=[decimal.InvalidOperation, decimal.Inexact])


@dataclass(frozen=True, repr=False)
class ColumnType:
    """What a column holds.

    Attributes:
        name: for people, `integer` or `text`.
        spark: the type of such a column in Spark.
        json_schema: of its values as they are served.
        wanted: what a value that is refused is not: `text`, as in "name is no text".
        check: the value that JSON says, of `runtime.records.json_object`; raises TypeError, ValueError or
            ArithmeticError when it is none.
        published: the type of such a value in a result record.
    """

    name: str
    spark: str
    json_schema: tuple[tuple[str, str], ...]
    wanted: str
    check: Callable[[Any], Any] = field(compare=False)
    published: str

    def __repr__(self) -> str:
        return _NAMES.get(self.name, self.name)


def check_integer(value: Any) -> int:
    """Return a signed 64-bit integer, as JSON has it: without a fraction; raises TypeError."""
    if isinstance(value, bool) or not isinstance(value, int) or not ID_MIN <= value <= ID_MAX:
        raise TypeError(f"{value!r:.40} is no 64-bit integer")
    return value


def check_text(value: Any) -> str:
    """Return a text; raises TypeError."""
    if not isinstance(value, str) or not is_unicode(value):
        raise TypeError(f"{value!r:.40} is no text")
    return value


def check_double(value: Any) -> float:
    """Return a finite number as a double; raises TypeError or OverflowError. No zero is negative."""
    if isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal):
        raise TypeError(f"{value!r:.40} is no number")
    number = float(value)
    if not math.isfinite(number):
        raise OverflowError(f"{value!r:.40} is no finite number")
    return number + 0.0


def check_boolean(value: Any) -> bool:
    """Return true or false; raises TypeError."""
    if not isinstance(value, bool):
        raise TypeError(f"{value!r:.40} is neither true nor false")
    return value


def check_timestamp(value: Any) -> str:
    """Return an instant as it is served, in UTC and cut to milliseconds, of ISO 8601 text or of milliseconds from 1970.

    Raises TypeError or ValueError: it is neither, or not of the years 1 to 9999.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if not FIRST_MS <= value <= LAST_MS:
            raise ValueError(f"{value} ms is not of the years 1 to 9999")
        instant = _EPOCH + timedelta(milliseconds=value)
    elif isinstance(value, str) and _TIME.fullmatch(value):
        try:
            instant = datetime.fromisoformat(value).astimezone(UTC)
        except OverflowError as error:
            raise ValueError(f"{value} is not of the years 1 to 9999") from error
    else:
        raise TypeError(f"{value!r:.40} is no time")
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def exact(value: Any, digits: int, in_all: int) -> decimal.Decimal:
    """Return a number with so many digits behind the point, none of them lost.

    Raises TypeError or ArithmeticError: it is no number, or has more digits.
    """
    if isinstance(value, bool) or not isinstance(value, int | decimal.Decimal):
        raise TypeError(f"{value!r:.40} is no decimal")
    scaled = _CONTEXT.quantize(decimal.Decimal(value), decimal.Decimal(1).scaleb(-digits))
    if len(scaled.as_tuple().digits) > in_all:
        raise OverflowError(f"{value!r:.40} has more than {in_all} digits")
    # No zero is negative: there is none in Spark.
    return scaled or abs(scaled)


class Decimal(ColumnType):
    """A decimal of 18 digits in all, so many of them behind the point; sums of such have 38.

    >>> Decimal(2)
    Decimal(2)

    Args:
        digits: behind the point, 0 to 18.
    """

    digits: int

    def __init__(self, digits: int) -> None:
        if type(digits) is not int or not 0 <= digits <= FIELD_DIGITS:
            raise DeclarationError(
                f"Decimal({digits!r}): say how many digits stand behind the point, 0 to {FIELD_DIGITS}"
            )
        super().__init__(
            name=f"decimal({digits})",
            spark=f"decimal({FIELD_DIGITS},{digits})",
            json_schema=(("type", "number"),),
            wanted=f"decimal of at most {digits} {'digit' if digits == 1 else 'digits'} behind the point",
            check=lambda value: exact(value, digits, FIELD_DIGITS),
            published=f"decimal({FIELD_DIGITS},{digits})",
        )
        object.__setattr__(self, "digits", digits)

    def __repr__(self) -> str:
        return f"Decimal({self.digits})"


Double: Final = ColumnType(
    name="number",
    spark="double",
    json_schema=(("type", "number"), ("format", "double")),
    wanted="finite number",
    check=check_double,
    published="double",
)
"""A floating-point number of 64 bits; not infinite, and none is -0."""

Boolean: Final = ColumnType(
    name="boolean",
    spark="boolean",
    json_schema=(("type", "boolean"),),
    wanted="boolean",
    check=check_boolean,
    published="boolean",
)
"""True or false."""

Timestamp: Final = ColumnType(
    name="timestamp",
    spark="timestamp",
    json_schema=(("type", "string"), ("format", "date-time")),
    wanted="time: ISO 8601 with a zone, or milliseconds",
    check=check_timestamp,
    published="string",
)
"""An instant to the millisecond, of the years 1 to 9999; as text `2026-11-25T20:00:00.000Z`, whose order is theirs."""

_NAMES: Final = {
    "integer": "Int64", "text": "Text", "number": "Double", "boolean": "Boolean", "timestamp": "Timestamp",
}  # fmt: skip

"""Texts to values, strictly: Spark's own casts take `1d`, `+1` and ` 7` for numbers, and read half of a time."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from runtime.types import FIELD_DIGITS, FIRST_MS, LAST_MS, TIME

_JSON_NUMBER: Final = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?\z"


def number(text: Column) -> Column:
    """Return the double that a text is as JSON spells numbers, else null; it may be infinite."""
    return F.when(text.rlike(_JSON_NUMBER), text.try_cast("double"))


def finite(text: Column) -> Column:
    """Return the finite double that a text is as JSON spells numbers, else null; no zero is negative."""
    found = number(text)
    return F.when(F.abs(found) < float("inf"), found + F.lit(0.0))


def integer(text: Column) -> Column:
    """Return the 64-bit integer that a text is in its shortest form, else null."""
    found = text.try_cast("bigint")
    return F.when(found.cast("string") == text, found)


def decimal(text: Column, digits: int) -> Column:
    """Return the decimal that a text is, without an exponent and with so many digits behind the point, else null.

    There may be fewer of them, and zeros behind.
    """
    whole = f"(0|[1-9][0-9]{{0,{FIELD_DIGITS - digits - 1}}})" if digits < FIELD_DIGITS else "0"
    fraction = f"[0-9]{{1,{digits}}}0*" if digits else "0+"
    return F.when(text.rlike(rf"^-?{whole}(\.{fraction})?\z"), text.try_cast(f"decimal({FIELD_DIGITS},{digits})"))


def boolean(text: Column) -> Column:
    """Return whether a text is `true`, or `false`; null for all others."""
    return F.when(text == "true", F.lit(True)).when(text == "false", F.lit(False))


def timestamp(text: Column) -> Column:
    """Return the instant that a text is: ISO 8601 with a zone, or milliseconds from 1970; null for all others."""
    milliseconds = integer(text)
    of_years = milliseconds.between(FIRST_MS, LAST_MS)
    instant = F.when(text.rlike(rf"^{TIME}\z"), text.try_cast("timestamp"))
    return F.when(milliseconds.isNotNull(), F.when(of_years, F.timestamp_millis(milliseconds))).otherwise(
        F.when(F.unix_millis(instant).between(FIRST_MS, LAST_MS), instant)
    )

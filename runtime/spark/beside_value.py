"""What a record has beside its value: its key as a column, and what makes it unusable whatever the value is."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from runtime.keys import Key, Text
from runtime.records import FURTHEST_MS, NO_KEY, NOT_AN_ID, NOT_UTF8, TIMESTAMP_REASON, TOO_LARGE
from runtime.spark.casts import integer
from runtime.spark.sizes import too_large

PLACE: Final = ("topic", "partition", "offset", "timestamp")
"""Which record it is. Of a source that is one topic, its name is in no column."""
OF_RECORD: Final = ("reason", *PLACE)
"""The columns that say of a record what it is itself, until `at` is made of them."""
_MARK: Final = "__its_own_"
_DAY_MS: Final = 86_400_000
_GREGORIAN_FROM_MS: Final = -12_219_292_800_000
_MARCH_OF_YEAR_0: Final = -719_470
"""The first day of March of the year 0 in the Julian calendar, from 1970: with it a leap year's last day is its own."""


def in_spark(timestamp_ms: int) -> int:
    """Return what a record's time in Kafka is in Spark, both in milliseconds from 1970.

    Spark's source takes it that days before 1582 are of the Julian calendar, and has the day of that name in its own.

    >>> in_spark(-62_135_596_800_000)  # the first of January of the year 1, which that calendar calls the third
    -62135424000000

    Args:
        timestamp_ms: of the record.
    """
    if timestamp_ms >= _GREGORIAN_FROM_MS:
        return timestamp_ms
    day = timestamp_ms // _DAY_MS
    year = (4 * (day - _MARCH_OF_YEAR_0) + 3) // 1461
    return timestamp_ms + (2 - year // 100 + year // 400) * _DAY_MS


EARLIEST_MS: Final = in_spark(-FURTHEST_MS)


def column_of(name: str) -> str:
    """Return what a declared column is called while those of the record itself are there: one may be called so too."""
    return f"{_MARK}{name}" if name in OF_RECORD else name


def declared_name(column: str) -> str:
    """Return what a column is declared as, of `column_of`."""
    return column.removeprefix(_MARK)


def place_of(records: DataFrame) -> list[str]:
    """Return the columns of records that say which record it is."""
    return [name for name in PLACE if name in records.columns]


def reason_beside(records: DataFrame, key: Key | None) -> Column:
    """Return why a record cannot be used whatever its value is, else null: its size, its time, its key.

    Args:
        records: `value binary, timestamp timestamp`, and `key binary` where there is one to be.
        key: what the key is, where it is a column.
    """
    reason = F.when(too_large(records), TOO_LARGE).when(
        ~F.unix_millis("timestamp").between(EARLIEST_MS, FURTHEST_MS), TIMESTAMP_REASON
    )
    if key is None:
        return reason
    text = F.col("key").cast("string")
    reason = reason.when(F.col("key").isNull(), NO_KEY).when(~F.is_valid_utf8(text), NOT_UTF8)
    return reason.when(text == "", NO_KEY) if key.type is Text else reason.when(_key(key).isNull(), NOT_AN_ID)


def key_columns(key: Key | None) -> list[Column]:
    """Return the column of the key, where there is one to be."""
    return [] if key is None else [_key(key).alias(column_of(key.name))]


def _key(key: Key) -> Column:
    text = F.col("key").cast("string")
    return text if key.type is Text else integer(text)

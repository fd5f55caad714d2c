"""A record's time in Spark, by Spark's own calendars."""

from __future__ import annotations

import random

from runtime.records import FURTHEST_MS
from runtime.spark.beside_value import EARLIEST_MS, in_spark
from runtime.spark.session import Spark

SEED = 20261128
DAY_MS = 86_400_000
GREGORIAN_FROM = -141_427
"""The first day, from 1970, that both calendars have under one name."""


def test_a_records_time_is_what_sparks_source_takes_it_for(spark: Spark) -> None:
    jvm = spark.session._jvm  # noqa: SLF001  # no function of PySpark does this
    assert jvm is not None
    renamed = jvm.org.apache.spark.sql.catalyst.util.RebaseDateTime.rebaseJulianToGregorianDays
    dice = random.Random(SEED)
    near = range(GREGORIAN_FROM - 500, GREGORIAN_FROM + 2)
    far = [dice.randrange(-FURTHEST_MS // DAY_MS, GREGORIAN_FROM) for _ in range(500)]
    # The turn of a year that is a leap year in one of the two alone.
    leap = range(-171_900, -171_300)
    for day in (*near, *far, *leap, 0, 1):
        of_day = dice.randrange(DAY_MS)
        assert in_spark(day * DAY_MS + of_day) == renamed(day) * DAY_MS + of_day, day


def test_the_earliest_time_is_another_in_spark_and_the_latest_is_not() -> None:
    assert in_spark(-FURTHEST_MS) == EARLIEST_MS == -8_999_816_313_600_000
    assert in_spark(FURTHEST_MS) == FURTHEST_MS

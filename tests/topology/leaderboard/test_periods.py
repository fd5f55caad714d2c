"""Periods: in which an instant lies, which are kept, and what settings say; in Spark and in Python alike."""

from __future__ import annotations

import random
from datetime import date

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F

from runtime.spark.session import Spark
from runtime.testing.frames import frame
from runtime.types import FIRST_MS, LAST_MS
from tests.drivers.periods import ms
from topology.leaderboard.periods import (
    KEPT,
    NAMES,
    Periods,
    before,
    by_period,
    date_of,
    is_kept,
    parse_kept,
    parse_names,
    period_of,
    periods_of,
)

ANY = dict.fromkeys(NAMES, "")
LIES_IN = {
    "2026-11-25T16:00:00": ["day/2026-11-25", "week/2026-11-23", "month/2026-11-01"],
    "2026-11-22T23:59:59.999": ["day/2026-11-22", "week/2026-11-16", "month/2026-11-01"],
    "2026-11-23T00:00:00": ["day/2026-11-23", "week/2026-11-23", "month/2026-11-01"],
    "2026-11-30T23:59:59.999": ["day/2026-11-30", "week/2026-11-30", "month/2026-11-01"],
    "2026-12-01T00:00:00": ["day/2026-12-01", "week/2026-11-30", "month/2026-12-01"],
    "2027-01-01T00:00:00": ["day/2027-01-01", "week/2026-12-28", "month/2027-01-01"],
    "2024-02-29T12:00:00": ["day/2024-02-29", "week/2024-02-26", "month/2024-02-01"],
    "1970-01-01T00:00:00": ["day/1970-01-01", "week/1969-12-29", "month/1970-01-01"],
    "1969-12-31T23:59:59.999": ["day/1969-12-31", "week/1969-12-29", "month/1969-12-01"],
    "0001-01-01T00:00:00": ["day/0001-01-01", "week/0001-01-01", "month/0001-01-01"],
    "9999-12-31T23:59:59.999": ["day/9999-12-31", "week/9999-12-27", "month/9999-12-01"],
}


@pytest.mark.parametrize(("at", "periods"), LIES_IN.items())
def test_an_instant_lies_in_a_day_a_week_and_a_month(at: str, periods: list[str]) -> None:
    assert [period_of(name, date_of(ms(at))) for name in NAMES] == periods


def test_spark_says_the_same_as_python(spark: Spark) -> None:
    generator = random.Random(20261127)
    instants = [*map(ms, LIES_IN), *(generator.randrange(FIRST_MS, LAST_MS + 1) for _ in range(500))]
    instants += [at + shift for at in map(ms, LIES_IN) for shift in (-1, 1) if FIRST_MS <= at + shift <= LAST_MS]
    rows = frame(spark.session, [(at,) for at in instants], pa.schema({"at": pa.int64()}))
    found = rows.select("at", F.array(*periods_of(F.col("at"), ANY).values()).alias("periods")).collect()
    assert [row.periods for row in found] == [[period_of(name, date_of(row["at"])) for name in NAMES] for row in found]


@pytest.mark.parametrize("today", ["1970-01-01", "2024-02-29", "2026-11-25"])
@pytest.mark.parametrize("cutoffs", [dict.fromkeys(NAMES, ""), Periods(now_ms=lambda: ms("2026-11-25")).cutoffs()])
def test_texts_that_are_made_ahead_are_those_that_are_made_of_an_event(
    spark: Spark, today: str, cutoffs: dict[str, str]
) -> None:
    day = date.fromisoformat(today)
    # Around the first and the last day that texts are made of ahead.
    days = [*range(-510, -490), *range(-10, 10), *range(90, 110)]
    instants = [ms(today) + number * 86_400_000 + shift for number in days for shift in (0, 86_399_999)]
    rows = frame(spark.session, [(at,) for at in [*map(ms, LIES_IN), *instants]], pa.schema({"at": pa.int64()}))
    periods = [of.alias(name) for name, of in periods_of(F.col("at"), cutoffs, day).items()]
    for row in rows.select("at", *periods).collect():
        of_each = {name: period_of(name, date_of(row["at"])) for name in NAMES}
        assert {name: row[name] for name in NAMES} == {
            name: text if text >= cutoffs[name] else None for name, text in of_each.items()
        }


@given(st.lists(st.integers(FIRST_MS - 10**9, LAST_MS + 10**9)), st.sampled_from(["", "day/1970-01-01"]))
def test_arrow_says_the_same_as_python(instants: list[int], first_day: str) -> None:
    cutoffs = {"day": first_day, "week": "week/1500-01-01", "month": ""}
    events = pa.table({"at_ms": pa.array(instants, pa.int64()), "place": pa.array(range(len(instants)), pa.int64())})
    expected = {
        (place, text)
        for place, at in enumerate(instants)
        for name in NAMES
        if FIRST_MS <= at <= LAST_MS and (text := period_of(name, date_of(at))) >= cutoffs[name]
    }
    found = [(row["place"], row["period"]) for row in by_period(events, cutoffs).to_pylist()]
    assert len(found) == len(expected)
    assert set(found) == expected


def test_what_is_of_no_calendar_year_lies_in_no_period(spark: Spark) -> None:
    rows = frame(spark.session, [(FIRST_MS - 1,), (LAST_MS + 1,), (-(2**62),), (2**62,)], pa.schema({"at": pa.int64()}))
    assert [tuple(row) for row in rows.select(*periods_of(F.col("at"), ANY).values()).collect()] == [(None,) * 3] * 4


def test_only_periods_that_are_kept_count(spark: Spark) -> None:
    periods = Periods(now_ms=lambda: ms("2026-11-25T00:00:00"))
    cutoffs = periods.cutoffs()
    assert cutoffs == {"day": "day/2026-11-17", "week": "week/2026-10-19", "month": "month/2025-10-01"}
    at = {
        "2026-11-17T00:00:00": ["day/2026-11-17", "week/2026-11-16", "month/2026-11-01"],
        "2026-11-16T23:59:59": ["week/2026-11-16", "month/2026-11-01"],
        "2026-10-18T23:59:59": ["month/2026-10-01"],
        "2025-09-30T23:59:59": [],
    }
    rows = frame(spark.session, [(ms(each),) for each in at], pa.schema({"at": pa.int64()}))
    of_each = periods_of(F.col("at"), cutoffs)
    kept_of_each = [[text for text in row if text] for row in rows.select(*of_each.values()).collect()]
    assert kept_of_each == list(at.values())
    texts = sorted({text for every in LIES_IN.values() for text in every})
    named = frame(spark.session, [(each,) for each in texts], pa.schema({"period": pa.string()}))
    kept = [row[0] for row in named.where(is_kept(F.col("period"), cutoffs)).collect()]
    passed = periods.lapsing.passed()
    assert kept == [text for text in texts if not any(begin <= text < end for begin, end in passed)]


def test_periods_pass_that_are_on_no_longer() -> None:
    on, none = (Periods(names, now_ms=lambda: ms("2026-11-25T00:00:00")) for names in (NAMES, ("day",)))
    assert none.lapsing.passed() == on.lapsing.passed()
    assert [*none.lapsing.running] == ["day"]


@given(st.dates(), st.sampled_from(NAMES), st.integers(0, 40))
def test_so_many_periods_lie_between(day: date, name: str, count: int) -> None:
    begin = before(name, day, count)
    found, steps = before(name, day, 0), 0
    while found > begin:
        found, steps = before(name, found, 1), steps + 1
    assert found == begin
    assert steps == count or begin == date(1, 1, 1)


@pytest.mark.parametrize("text", ["", "day", "all,year", "all,day,day", "day,week", "all;day", "ALL"])
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # it says the text
        parse_names(text)


@pytest.mark.parametrize("text", ["", "day", "day=0", "day=1001", "day=x", "year=1", "day=1,day=2", "day=1=2"])
def test_other_numbers_are_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # it says the text
        parse_kept(text)


def test_what_is_not_named_is_kept_as_by_default() -> None:
    assert parse_kept("week=9") == {**KEPT, "week": 9}
    assert parse_names(" month , all,day") == ("day", "month")

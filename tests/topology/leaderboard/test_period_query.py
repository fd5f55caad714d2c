"""Which events reach the board of a period: on frames, by the floors of each."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F

from runtime.spark.session import Spark
from runtime.testing.frames import frame
from runtime.types import FIRST_MS, LAST_MS
from topology.leaderboard.period_query import PERIODS, by_product, narrowed, period_rows
from topology.leaderboard.periods import ALL, KEPT, Periods, by_period, period_of

NOW = datetime(2026, 11, 25, 16, tzinfo=UTC)
TODAY = NOW.date()
CUTOFFS = {"day": "day/2026-11-17", "week": "week/2026-10-19", "month": "month/2025-10-01"}
EVENTS = pa.schema({"product_id": pa.int64(), "score": pa.float64(), "timestamp": pa.timestamp("us", tz="UTC")})
FLOORS = pa.schema({"product_id": pa.int64(), "period": pa.string(), "floor": pa.float64()})
DAY, WEEK, MONTH = "day/2026-11-25", "week/2026-11-23", "month/2026-11-01"


@pytest.mark.parametrize(
    ("score", "product", "reached"),
    [
        pytest.param(5.0, 1, [DAY], id="it reaches the day's alone"),
        pytest.param(3.0, 1, [DAY], id="an equal score reaches it"),
        pytest.param(2.0, 1, None, id="below all it is dropped"),
        pytest.param(7.0, 1, [DAY, WEEK], id="two of three"),
        pytest.param(9.0, 1, [DAY, WEEK, MONTH], id="all"),
        pytest.param(2.0, 2, [WEEK, MONTH], id="a board without a floor lets everything through"),
        pytest.param(-9.0, 3, [DAY, WEEK, MONTH], id="so does a product without any"),
    ],
)
def test_an_event_counts_for_the_periods_whose_floor_it_reaches(
    spark: Spark, score: float, product: int, reached: list[str] | None
) -> None:
    floors = [(1, DAY, 3.0), (1, WEEK, 6.0), (1, MONTH, 9.0), (1, "day/2026-11-24", 99.0), (2, DAY, 5.0)]
    event = frame(spark.session, [(product, score, datetime(2026, 11, 25, 16, tzinfo=UTC))], EVENTS)
    of_product = by_product(frame(spark.session, floors, FLOORS), CUTOFFS, TODAY)
    found = narrowed(event, CUTOFFS, TODAY, of_product).collect()
    assert [_listed(row) for row in found] == ([] if reached is None else [reached])
    assert all(row.asDict().keys() == {*event.columns, PERIODS} for row in found)


def test_without_floors_an_event_counts_for_all_of_its_periods_that_are_kept(spark: Spark) -> None:
    days = [datetime(2026, 11, 25, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)]
    events = frame(spark.session, [(1, 1.0, day) for day in days], EVENTS)
    found = [_listed(row) for row in narrowed(events, CUTOFFS, TODAY, None).collect()]
    assert found == [[DAY, WEEK, MONTH], ["week/2026-10-26", MONTH]]


@pytest.mark.parametrize("kept", [KEPT, {"day": 3, "week": 80, "month": 24}, {"day": 600, "week": 1, "month": 1}])
def test_each_kept_period_has_a_floor_of_its_own(spark: Spark, kept: dict[str, int]) -> None:
    cutoffs = Periods(kept=kept, now_ms=lambda: int(NOW.timestamp() * 1000)).cutoffs()
    days = [TODAY - timedelta(days=number) for number in range(-40, 800)]
    events = [(1, 1.0, datetime.combine(day, time(12), UTC)) for day in days]
    counting = {period_of(name, day) for name in cutoffs for day in days if day <= TODAY}
    floors = sorted(counting)[::2]
    of_product = by_product(frame(spark.session, [(1, of, 2.0) for of in floors], FLOORS), cutoffs, TODAY)
    found = narrowed(frame(spark.session, events, EVENTS), cutoffs, TODAY, of_product).collect()
    of_each = [{name: period_of(name, day) for name in cutoffs} for day in days]
    reached = [[of for name, of in each.items() if of >= cutoffs[name] and of not in floors] for each in of_each]
    assert [_listed(event) for event in found] == [each for each in reached if each]


def test_a_period_that_is_still_to_come_has_no_floor(spark: Spark) -> None:
    tomorrow = datetime(2026, 11, 26, tzinfo=UTC)
    of_product = by_product(frame(spark.session, [(1, "day/2026-11-26", 2.0)], FLOORS), CUTOFFS, TODAY)
    (found,) = narrowed(frame(spark.session, [(1, 1.0, tomorrow)], EVENTS), CUTOFFS, TODAY, of_product).collect()
    assert _listed(found) == ["day/2026-11-26", WEEK, MONTH]


@pytest.mark.parametrize(
    ("score", "product", "reached"),
    [
        pytest.param(4.0, 1, [DAY], id="not what is below that of all time"),
        pytest.param(12.0, 1, [ALL, DAY], id="what is as good as its last place"),
        pytest.param(2.0, 2, [ALL], id="without a floor of all time"),
    ],
)
def test_all_time_has_a_floor_among_those_of_periods(
    spark: Spark, score: float, product: int, reached: list[str]
) -> None:
    cutoffs = {ALL: ALL, "day": CUTOFFS["day"]}
    floors = frame(spark.session, [(1, ALL, 12.0), (1, DAY, 3.0), (2, DAY, 5.0)], FLOORS)
    event = frame(spark.session, [(product, score, NOW)], EVENTS)
    (found,) = narrowed(event, cutoffs, TODAY, by_product(floors, cutoffs, TODAY)).collect()
    assert _listed(found) == reached


@pytest.mark.parametrize("at", [FIRST_MS - 1, LAST_MS + 1, 0])
def test_all_time_has_what_is_of_no_calendar_year_and_of_no_period_that_is_kept(spark: Spark, at: int) -> None:
    cutoffs = {ALL: ALL, **CUTOFFS}
    event = frame(spark.session, [(1, 1.0, at)], pa.schema([*list(EVENTS)[:2], pa.field("at_ms", pa.int64())]))
    dated = event.withColumn("timestamp", F.timestamp_millis("at_ms"))
    (found,) = narrowed(dated, cutoffs, TODAY, None).select(PERIODS).collect()
    assert _listed(found) == [ALL]
    seen = pa.table({"product_id": [1], "score": [1.0], "at_ms": [at]})
    assert by_period(seen, cutoffs)["period"].to_pylist() == [ALL]


def test_there_is_a_row_for_each_period_that_an_event_is_left_for_and_none_for_the_others(spark: Spark) -> None:
    floors = by_product(frame(spark.session, [(1, WEEK, 9.0)], FLOORS), CUTOFFS, TODAY)
    record = {"partition": 0, "offset": 7, "timestamp": NOW}
    event = (1, 5.0, NOW, 3, '{"player_id":3}', {"source": "score-events", **record})
    ids = pa.schema({"id": pa.int64()})
    place = {"source": pa.string(), "partition": pa.int32(), "offset": pa.int64()}
    at = pa.struct({**place, "timestamp": EVENTS.field("timestamp").type})
    fields = pa.schema([*EVENTS, pa.field("player_id", pa.int64()), pa.field("text", pa.string()), pa.field("at", at)])
    events = narrowed(frame(spark.session, [event], fields), CUTOFFS, TODAY, floors)
    tables = frame(spark.session, [(3,)], ids), frame(spark.session, [(1,)], ids)
    assert sorted(row.period for row in period_rows(events, *tables, list(CUTOFFS)).collect()) == [DAY, MONTH]


def _listed(event: Row) -> list[str]:
    return [period for period in event[PERIODS] if period is not None]

"""Which events reach the board of a period: on frames, by the floors of each."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

import pyarrow as pa
import pytest
from pyspark.sql import Row

from runtime.spark.session import Spark
from runtime.testing.frames import frame
from topology.leaderboard.period_query import PERIODS, by_product, narrowed
from topology.leaderboard.periods import period_of

TODAY = date(2026, 11, 25)
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


def test_each_kept_period_has_a_floor_of_its_own(spark: Spark) -> None:
    days = [TODAY - timedelta(days=number) for number in range(-40, 600)]
    events = [(1, 1.0, datetime.combine(day, time(12), UTC)) for day in days]
    kept = {period_of(name, day) for name in CUTOFFS for day in days if day <= TODAY}
    floors = sorted(kept)[::2]
    of_product = by_product(frame(spark.session, [(1, of, 2.0) for of in floors], FLOORS), CUTOFFS, TODAY)
    found = narrowed(frame(spark.session, events, EVENTS), CUTOFFS, TODAY, of_product).collect()
    of_each = [{name: period_of(name, day) for name in CUTOFFS} for day in days]
    reached = [[of for name, of in each.items() if of >= CUTOFFS[name] and of not in floors] for each in of_each]
    assert [_listed(event) for event in found] == [each for each in reached if each]


def _listed(event: Row) -> list[str]:
    return [period for period in event[PERIODS] if period is not None]

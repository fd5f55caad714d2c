"""Which events reach the board of a period: on frames, by the floors of each."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from runtime.spark.session import Spark
from runtime.testing.frames import frame
from topology.leaderboard.period_query import PERIODS, by_product, narrowed

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
    of_product = by_product(frame(spark.session, floors, FLOORS), CUTOFFS)
    found = narrowed(event, CUTOFFS, TODAY, of_product).collect()
    assert [row[PERIODS] for row in found] == ([] if reached is None else [reached])
    assert all(row.asDict().keys() == {*event.columns, PERIODS} for row in found)


def test_without_floors_an_event_counts_for_all_of_its_periods_that_are_kept(spark: Spark) -> None:
    days = [datetime(2026, 11, 25, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)]
    events = frame(spark.session, [(1, 1.0, day) for day in days], EVENTS)
    found = [row[PERIODS] for row in narrowed(events, CUTOFFS, TODAY, None).collect()]
    assert found == [[DAY, WEEK, MONTH], ["week/2026-10-26", MONTH]]

"""The rows of the boards of periods: an entry for each period that an event lies in.

Pure functions from DataFrames to a DataFrame, as `topology.leaderboard.query`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime.rows import DISTINCT, of_each
from topology.leaderboard.periods import in_periods, periods_of
from topology.leaderboard.query import entries, join_tables

PERIODS: Final = f"{DISTINCT}_periods"
"""The column of events that have been narrowed: the periods whose boards they may change, each one once."""


def period_rows(events: DataFrame, players: DataFrame, products: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return an entry of a board for each event and period: `product_id bigint, period string, at, entry, known`.

    Args:
        events: usable events, as `topology.leaderboard.events` reads them, with `at`; narrowed or not.
        players: `id bigint`, those that exist.
        products: `id bigint`, those that exist.
        names: of the periods that have boards.
    """
    periods = F.col(PERIODS) if PERIODS in events.columns else in_periods(F.unix_millis("at.timestamp"), names)
    listed = events.withColumn(PERIODS, periods)
    joined = join_tables(entries(listed, PERIODS), players, products, PERIODS)
    return of_each(joined, F.col(PERIODS), "period").drop(PERIODS)


def narrowed(events: DataFrame, cutoffs: Mapping[str, str], today: date, floors: DataFrame | None) -> DataFrame:
    """Return the events that may change the board of a period, with these periods in the column `PERIODS`.

    Args:
        events: usable events, with `timestamp` and `score`.
        cutoffs: the oldest period that counts, by name.
        today: see `periods_of`.
        floors: as `by_product` returns them, if there are any.
    """
    periods = periods_of(F.unix_millis("timestamp"), cutoffs, today)
    named = events.withColumns({_column(name): period for name, period in periods.items()})
    reached = [F.col(_column(name)) for name in periods]
    if floors is not None:
        named = named.join(F.broadcast(floors), "product_id", "left")
        # An equal score passes: after a failure the entry that is the floor has to get back into the state.
        below = [F.col("score") < F.col(f"floors.{name}")[F.col(_column(name))] for name in periods]
        reached = [F.when(~F.coalesce(is_below, F.lit(False)), of) for is_below, of in zip(below, reached, strict=True)]
    listed = named.withColumn(PERIODS, F.array_compact(F.array(*reached)))
    return listed.where(F.size(PERIODS) > 0).select(*events.columns, PERIODS)


def by_product(floors: DataFrame, names: Iterable[str]) -> DataFrame:
    """Return floors with those of all periods of a product in one row: `product_id, floors`.

    Args:
        floors: `product_id, period, floor`.
        names: of the periods, each of which is a field of `floors`, `map<string, double>`: of one name there are few.
    """
    of_name = {name: F.when(F.col("period").startswith(f"{name}/"), F.struct("period", "floor")) for name in names}
    maps = (F.map_from_entries(F.collect_list(of)).alias(name) for name, of in of_name.items())
    return floors.groupBy("product_id").agg(F.struct(*maps).alias("floors"))


def _column(name: str) -> str:
    return f"__{name}"

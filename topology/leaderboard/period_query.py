"""The rows of the boards of periods: an entry for each period that an event lies in.

Pure functions from DataFrames to a DataFrame, as `topology.leaderboard.query`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime.rows import each_once
from topology.leaderboard.periods import in_periods
from topology.leaderboard.query import entries, join_tables

PERIODS: Final = "periods"
"""The column of events that have been narrowed: the periods whose boards they may change."""


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
    return each_once(joined, F.col(PERIODS), "period").drop(PERIODS)


def narrowed(
    events: DataFrame, names: Sequence[str], cutoffs: Mapping[str, str], floors: DataFrame | None
) -> DataFrame:
    """Return the events that may change the board of a period, with these periods in the column `PERIODS`.

    Args:
        events: usable events, with `timestamp` and `score`.
        names: of the periods that have boards.
        cutoffs: the oldest one that counts, by name.
        floors: as `by_product` returns them, if there are any.
    """
    listed = events.withColumn(PERIODS, in_periods(F.unix_millis("timestamp"), names, cutoffs))
    if floors is not None:
        joined = listed.join(F.broadcast(floors), "product_id", "left")
        # An equal score passes: after a failure the entry that is the floor has to get back into the state.
        reached = F.filter(PERIODS, lambda period: F.coalesce(F.col("score") >= F.col("floors")[period], F.lit(True)))
        listed = joined.withColumn(PERIODS, reached).drop("floors")
    return listed.where(F.size(PERIODS) > 0)


def by_product(floors: DataFrame) -> DataFrame:
    """Return floors with those of all periods of a product in one row: `product_id, floors map<string, double>`.

    Args:
        floors: `product_id, period, floor`.
    """
    listed = F.collect_list(F.struct("period", "floor"))
    return floors.groupBy("product_id").agg(F.map_from_entries(listed).alias("floors"))

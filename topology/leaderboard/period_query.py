"""The rows of the boards of periods, all time among them: an entry for each period that an event lies in.

Pure functions from DataFrames to a DataFrame, as `topology.leaderboard.query`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from runtime.rows import DISTINCT, of_each
from topology.leaderboard.periods import day_of, is_called, periods_of, places_of
from topology.leaderboard.query import entries, join_tables

PERIODS: Final = f"{DISTINCT}_periods"
"""The column of events that have been narrowed: the periods whose boards they may change, each one once, and nulls."""


def period_rows(events: DataFrame, players: DataFrame, products: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return an entry of a board for each event and period: `product_id bigint, period string, at, entry, known`.

    Args:
        events: usable events, as `topology.leaderboard.events` reads them, with `at`; narrowed or not.
        players: `id bigint`, those that exist.
        products: `id bigint`, those that exist.
        names: of the periods whose boards they are for.
    """
    if PERIODS not in events.columns:
        periods = periods_of(F.unix_millis("at.timestamp"), dict.fromkeys(names, ""))
        events = events.withColumn(PERIODS, F.array(*periods.values()))
    joined = join_tables(entries(events, PERIODS), players, products, PERIODS)
    return of_each(joined, F.col(PERIODS), "period").drop(PERIODS).where("period IS NOT NULL")


def narrowed(events: DataFrame, cutoffs: Mapping[str, str], today: date, floors: DataFrame | None) -> DataFrame:
    """Return the events that may change the board of a period, with these periods in the column `PERIODS`.

    Args:
        events: usable events, with `timestamp` and `score`.
        cutoffs: the oldest period that counts, by name.
        today: see `periods_of`.
        floors: as `by_product` returns them, if there are any.
    """
    at_ms = F.unix_millis("timestamp")
    periods = {name: F.col(_column(name)) for name in cutoffs}
    named = events.withColumns({_column(name): of for name, of in periods_of(at_ms, cutoffs, today).items()})
    reached = {name: period.isNotNull() for name, period in periods.items()}
    if floors is not None:
        named = named.join(F.broadcast(floors), "product_id", "left")
        for name, place in places_of(day_of(at_ms), cutoffs, today).items():
            # An equal score passes: after a failure the entry that is the floor has to get back into the state.
            below = F.col("score") < F.get(f"floors.{name}", place)
            reached[name] &= ~F.coalesce(below, F.lit(False))
    # Only for events that are left.
    listed = F.array(*(F.when(reached[name], period) for name, period in periods.items()))
    return named.where(reduce(or_, reached.values())).select(*events.columns, listed.alias(PERIODS))


def by_product(floors: DataFrame, cutoffs: Mapping[str, str], today: date) -> DataFrame:
    """Return floors with those of all periods of a product in one row: `product_id, floors`.

    Each name is a field of `floors`, `array<double>`: of each period that counts, by its place; null where a board has
    none, and no longer than to the last one.

    Args:
        floors: `product_id, period, floor`.
        cutoffs: see `narrowed`.
        today: see `narrowed`.
    """
    day = F.unix_date(F.to_date(F.substring_index("period", "/", -1)))
    by_place = []
    for name, place in places_of(day, cutoffs, today).items():
        counts = is_called(F.col("period"), name) & place.isNotNull()
        by_place.append(F.map_from_entries(F.collect_list(F.when(counts, F.struct(place, "floor")))).alias(name))

    def in_order(name: str) -> Column:
        up_to_last = F.sequence(F.lit(0), F.array_max(F.map_keys(name)))
        return F.transform(up_to_last, lambda place: F.col(name)[place]).alias(name)

    lists = F.struct(*map(in_order, cutoffs)).alias("floors")
    return floors.groupBy("product_id").agg(*by_place).select("product_id", lists)


def _column(name: str) -> str:
    return f"__{name}"

"""The leaderboard's rows: score events joined with players and products.

Pure functions from DataFrames to a DataFrame. Every step is a built-in expression of Spark, so that no record passes
through Python and real-time mode accepts the query. What is kept of the rows is in `topology.leaderboard.places`.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from topology.leaderboard.events import with_player


def score_rows(events: DataFrame, players: DataFrame, products: DataFrame) -> DataFrame:
    """Return an entry of a board for each event: `product_id bigint, at, entry, known boolean, hidden boolean`.

    Args:
        events: usable events, as `topology.leaderboard.events` reads them, with `at`; with `hidden boolean` as well
            where somebody is hidden, see `topology.leaderboard.hiding`.
        players: `id bigint`, those that exist.
        products: `id bigint`, those that exist.
    """
    return join_tables(entries(events), players, products)


def entries(events: DataFrame, *others: str) -> DataFrame:
    """Return usable events as entries of boards: `product_id, player_id, entry, at, hidden`; see `places.ENTRY`.

    Args:
        events: see `score_rows`.
        others: further columns of them that stay.
    """
    hidden = F.col("hidden") if "hidden" in events.columns else F.lit(False).alias("hidden")
    return with_player(events).select(
        "product_id",
        "player_id",
        F.struct(
            "score",
            (-F.unix_millis("at.timestamp")).alias("neg_timestamp"),
            (-F.col("at.partition")).alias("neg_partition"),
            (-F.col("at.offset")).alias("neg_offset"),
            "player_id",
            # Of the topic that is read: a generation has one.
            F.lit(None).cast("string").alias("topic"),
        ).alias("entry"),
        "at",
        hidden,
        *others,
    )


def join_tables(entered: DataFrame, players: DataFrame, products: DataFrame, *others: str) -> DataFrame:
    """Return entries with `known`: whether player and product exist. Left joins: nobody's score is lost by timing.

    Args:
        entered: as `entries` returns them.
        players: see `score_rows`.
        products: see `score_rows`.
        others: further columns of the entries that stay.
    """
    player = F.broadcast(players.select(F.col("id").alias("player_id"), F.lit(True).alias("player_exists")))
    product = F.broadcast(products.select(F.col("id").alias("product_id"), F.lit(True).alias("product_exists")))
    joined = entered.join(player, "player_id", "left").join(product, "product_id", "left")
    known = F.col("player_exists").isNotNull() & F.col("product_exists").isNotNull()
    return joined.select("product_id", "at", "entry", known.alias("known"), "hidden", *others)


def above_floor(events: DataFrame, floors: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Drop the events below the last kept place of their board; they cannot change it.

    Args:
        events: with `score`, and the keys.
        floors: the keys, and `floor double`.
        keys: the columns that tell boards apart.
    """
    joined = events.join(F.broadcast(floors), [*keys], "left")
    # An equal score passes: after a failure the entry that is the floor has to get back into the state.
    return joined.where("floor IS NULL OR score >= floor").drop("floor")

"""The leaderboard topology: score events joined with players and products, then the best scores of each product.

Pure functions from DataFrames to a DataFrame; the sources and the sink are in `runtime.spark.session`. Every step is a
built-in expression of Spark, so that no record passes through Python and real-time mode accepts the query.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from topology.leaderboard.events import entries, parse
from topology.leaderboard.records import SPARE_FACTOR

TOPOLOGY_VERSION = 1
"""Raised when a change makes the state of an older checkpoint unusable; a start then begins a new generation."""

# A place on a board. The fields stand in ranking order and all count upwards, so that Spark's own struct comparison
# ranks: the higher score, then the earlier timestamp, then the lower partition and offset.
ENTRY = "struct<score: double, neg_timestamp: bigint, neg_partition: int, neg_offset: bigint, player_id: bigint>"
PLACES = f"array<{ENTRY}>"
SEED_SCHEMA = f"product_id bigint, seed_known {PLACES}, seed_pending {PLACES}"
_PUBLISHED_ENTRY = "struct<score: double, player_id: bigint, timestamp: bigint, partition: int, offset: bigint>"
BOARD_SCHEMA = (
    f"generation bigint, known array<{_PUBLISHED_ENTRY}>, pending array<{_PUBLISHED_ENTRY}>, pending_lost bigint"
)


class Tables(NamedTuple):
    """What the topology joins the stream with; each is small enough to be broadcast.

    Attributes:
        players: `player_id bigint`, the players that exist.
        products: `product_id bigint`, the products that exist.
        floors: `product_id bigint, floor double`, the last kept score of each full board; None to drop no event.
        seed: the boards of the generation before, as `SEED_SCHEMA`; None without one.
    """

    players: DataFrame
    products: DataFrame
    floors: DataFrame | None
    seed: DataFrame | None


def leaderboard(scores: DataFrame, tables: Tables, *, depth: int, generation: int) -> DataFrame:
    """Return the boards that the score events change, as records of `high-scores`.

    Args:
        scores: `value binary, partition int, offset bigint, timestamp timestamp`, as Spark's Kafka source gives them.
        tables: what the events are joined with.
        depth: the most entries that are served of a board; twice as many are kept.
        generation: the number that each board carries.

    Returns:
        `key string, value string`: the product id and its board as JSON.
    """
    events = parse(scores)
    reaching = events if tables.floors is None else above_floor(events, tables.floors)
    enriched = join_tables(reaching, tables.players, tables.products)
    boards = best(enriched, depth * SPARE_FACTOR)
    merged = boards if tables.seed is None else with_seed(boards, tables.seed, depth * SPARE_FACTOR)
    return publish(merged, generation)


def above_floor(events: DataFrame, floors: DataFrame) -> DataFrame:
    """Drop the events below the last kept place of their board; they cannot change it."""
    joined = events.join(F.broadcast(floors), "product_id", "left")
    # An equal score passes: after a failure the entry that is the floor has to get back into the state.
    return joined.where("floor IS NULL OR score >= floor").drop("floor")


def join_tables(events: DataFrame, players: DataFrame, products: DataFrame) -> DataFrame:
    """Return entries with `known`: whether player and product exist. Left joins: nobody's score is lost by timing."""
    player = F.broadcast(players.withColumn("player_exists", F.lit(True)))
    product = F.broadcast(products.withColumn("product_exists", F.lit(True)))
    joined = entries(events).join(player, "player_id", "left").join(product, "product_id", "left")
    known = F.col("player_exists").isNotNull() & F.col("product_exists").isNotNull()
    return joined.select("product_id", "entry", known.alias("known"))


def best(enriched: DataFrame, places: int) -> DataFrame:
    """Return the best known and the best pending entries of each product, best first."""
    return enriched.groupBy("product_id").agg(
        F.expr(f"max_by(entry, entry, {places}) FILTER (WHERE known)").alias("known"),
        F.expr(f"max_by(entry, entry, {places}) FILTER (WHERE NOT known)").alias("pending"),
        F.expr(f"greatest(count(*) FILTER (WHERE NOT known) - {places}, 0)").alias("pending_lost"),
    )


def with_seed(boards: DataFrame, seed: DataFrame, places: int) -> DataFrame:
    """Merge each board with what the generation before had, so that no board gets worse when one begins."""
    joined = boards.join(F.broadcast(seed), "product_id", "left")
    return joined.select(
        "product_id",
        _merged("known", "seed_known", places).alias("known"),
        _merged("pending", "seed_pending", places).alias("pending"),
        "pending_lost",
    )


def _merged(left: str, right: str, places: int) -> Column:
    """Return the union of two lists of entries, best first, cut at `places`. A null list is empty."""
    lists = (F.coalesce(F.col(name), F.array().cast(PLACES)) for name in (left, right))
    union = F.slice(F.sort_array(F.array_union(*lists), asc=False), 1, places)
    # Most boards have no seed; their union costs more than everything else that is done for an event.
    return F.when(F.col(right).isNull(), F.col(left)).otherwise(union)


def publish(boards: DataFrame, generation: int) -> DataFrame:
    """Return boards as records of `high-scores`: `key string, value string`."""
    board = F.struct(
        F.lit(generation).cast("bigint").alias("generation"),
        _published("known"),
        _published("pending"),
        "pending_lost",
    )
    return boards.select(F.col("product_id").cast("string").alias("key"), F.to_json(board).alias("value"))


def _published(name: str) -> Column:
    """Return a list of entries as it is published; a null list is empty, since JSON would leave it out."""
    entry = (
        "named_struct('score', e.score, 'player_id', e.player_id, 'timestamp', -e.neg_timestamp,"
        " 'partition', -e.neg_partition, 'offset', -e.neg_offset)"
    )
    return F.expr(f"transform(coalesce({name}, array()), e -> {entry})").alias(name)

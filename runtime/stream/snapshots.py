"""What the query joins the stream with: tables, floors and seeds, as Parquet snapshots under the checkpoint URI."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from runtime.spark.session import TASKS_BESIDE, read_parquet
from topology.leaderboard.query import BOARD_SCHEMA, ENTRY, SEED_SCHEMA, Tables, best

PLAYERS_SCHEMA = "player_id bigint"
PRODUCTS_SCHEMA = "product_id bigint"
FLOORS_SCHEMA = "product_id bigint, floor double"


class Rows(NamedTuple):
    """The rows of the global tables at one moment: `player_id bigint` and `product_id bigint`."""

    players: DataFrame
    products: DataFrame


class Survey(NamedTuple):
    """What the boards say about the tables that they were made with.

    Attributes:
        newly_known: pending entries whose player and product exist now and did not when the query started.
        short_boards: boards of existing products that were full and have fewer than `depth` entries left to show.
        pending_lost: entries that fell out of a pending list, of boards that they may have a place on by now.
        pending_shown: pending entries whose player and product exist now, so that they are shown.
        at_risk: those of them in a full list: the next better one of an unknown id pushes one out.
    """

    newly_known: int
    short_boards: int
    pending_lost: int
    pending_shown: int
    at_risk: int


def ids(session: SparkSession, column: str, values: Iterable[int] | pa.Array) -> DataFrame:
    """Return ids as one column `column bigint`, in one partition, each once: a join must not double a score."""
    return in_memory(session, pa.table({column: pa.array(values, pa.int64()).unique()}))


def in_memory(session: SparkSession, table: pa.Table) -> DataFrame:
    """Return a small table in one partition."""
    return session.createDataFrame(table).coalesce(1)


def latest_boards(records: DataFrame) -> DataFrame:
    """Return the merged board of each product in its highest generation, with the entries in ranking order.

    Args:
        records: `high-scores` as Spark's Kafka source gives it: `key binary, value binary`.

    Returns:
        `product_id, generation, known, pending, pending_lost`, the lists as `leaderboard.ENTRY`.
    """
    boards = (
        records.select(
            F.expr("try_cast(CAST(key AS string) AS bigint)").alias("product_id"),
            F.col("key").cast("string").alias("key"),
            F.from_json(F.col("value").cast("string"), BOARD_SCHEMA).alias("board"),
        )
        # No more than what the stores take: a record that they leave out must not replace a board that they serve.
        .where("CAST(product_id AS string) = key AND board.generation IS NOT NULL AND board.pending_lost IS NOT NULL")
        .where("board.known IS NOT NULL AND board.pending IS NOT NULL")
    )
    # All that is made of boards by product follows this partitioning.
    collected = (
        boards.repartition(TASKS_BESIDE, "product_id")
        .groupBy("product_id")
        .agg(F.max("board.generation").alias("generation"), F.collect_list("board").alias("boards"))
    )
    newest = collected.withColumn("boards", F.expr("filter(boards, board -> board.generation = generation)"))
    return newest.select(
        "product_id",
        "generation",
        _entries("known"),
        _entries("pending"),
        F.expr("array_max(transform(boards, board -> board.pending_lost))").alias("pending_lost"),
    )


def of_generation(boards: DataFrame, generation: int, places: int) -> DataFrame:
    """Return the boards of one generation, each list cut at `places`: the merged board has no more."""
    cut = {name: F.slice(name, 1, places) for name in ("known", "pending")}
    return boards.where(F.col("generation") == generation).withColumns(cut)


def floors(boards: DataFrame, places: int) -> DataFrame:
    """Return the last kept score of each full board, of `of_generation`: `product_id bigint, floor double`."""
    full = boards.where(F.size("known") == places)
    return full.select("product_id", F.element_at("known", places).score.alias("floor"))


def seed_floors(seeds: DataFrame, places: int) -> DataFrame:
    """Return the floors of boards that a generation begins with, `leaderboard.SEED_SCHEMA`; see `floors`."""
    return floors(seeds.withColumnRenamed("seed_known", "known"), places)


def seed(boards: DataFrame, rows: Rows, places: int, *, tables_are_new: bool = False) -> DataFrame:
    """Return what a new generation begins with, as `leaderboard.SEED_SCHEMA`.

    Pending entries whose player and product exist by now become known. Every product keeps a row, so that each old
    board is replaced.

    Args:
        boards: as `latest_boards` returns them.
        rows: the players and products that exist.
        places: how many entries each list of a board keeps.
        tables_are_new: whether known entries without a player or product become pending, since the tables are being
            filled anew. Else they are those of deleted ones, and left out.
    """
    exploded = _with_existence(_exploded(boards), *rows)
    kept = exploded if tables_are_new else exploded.where("exists OR NOT was_known")
    kept = kept.withColumnRenamed("exists", "known")
    lists = best(kept, places)
    return (
        boards.select("product_id")
        .join(lists, "product_id", "left")
        .select("product_id", F.col("known").alias("seed_known"), F.col("pending").alias("seed_pending"))
    )


def survey(boards: DataFrame, before: Rows, now: Rows, *, depth: int, places: int) -> Survey:
    """Compare the boards with the tables, to decide what a refresh has to do.

    Args:
        boards: as `of_generation` returns them.
        before: the rows that the running query joins.
        now: the rows that exist.
        depth: the most entries that are served of a board.
        places: how many entries each list of a board keeps.
    """
    exploded = _with_existence(_exploded(boards), *now).withColumnRenamed("exists", "exists_now")
    compared = _with_existence(exploded, *before).withColumnRenamed("exists", "existed")
    per_board = compared.groupBy("product_id").agg(
        F.count_if(F.col("exists_now") & ~F.col("existed") & ~F.col("was_known")).alias("newly_known"),
        F.count_if(F.col("was_known")).alias("kept"),
        F.count_if("exists_now").alias("shown"),
        F.count_if(F.col("exists_now") & ~F.col("was_known")).alias("pending_shown"),
    )
    # What was lost ranks below each pending entry that was kept: those that are shown may fill the board without it.
    lost = F.when(F.col("product_exists") & (F.col("pending_shown") < depth), F.col("pending_lost"))
    pending = boards.select("product_id", "pending_lost", (F.size("pending") == places).alias("pending_full"))
    row = (
        per_board.join(pending, "product_id")
        .join(now.products.withColumn("product_exists", F.lit(True)), "product_id", "left")
        .agg(
            F.coalesce(F.sum("newly_known"), F.lit(0)).alias("newly_known"),
            F.count_if(F.col("product_exists") & (F.col("kept") >= places) & (F.col("shown") < depth)).alias(
                "short_boards"
            ),
            F.coalesce(F.sum(lost), F.lit(0)).alias("pending_lost"),
            F.coalesce(F.sum("pending_shown"), F.lit(0)).alias("pending_shown"),
            F.coalesce(F.sum(F.when(F.col("pending_full"), F.col("pending_shown"))), F.lit(0)).alias("at_risk"),
        )
        .first()
    )
    assert row is not None, "an aggregate without a group has one row"
    return Survey(**row.asDict())


def write(frame: DataFrame, uri: str) -> None:
    """Write a snapshot; a half-written one of an earlier try is replaced."""
    frame.coalesce(1).write.mode("overwrite").parquet(uri)


def write_rows(rows: Rows, uri: str) -> None:
    """Write the rows of one moment, for `read_tables`."""
    write(rows.players, f"{uri}/players")
    write(rows.products, f"{uri}/products")


def write_floors(floor_scores: DataFrame, uri: str) -> None:
    """Write the floors of one moment, for `read_tables`."""
    write(floor_scores, f"{uri}/floors")


def read_seed(session: SparkSession, uri: str) -> DataFrame:
    """Return the seed under a URI, as `leaderboard.SEED_SCHEMA`."""
    return read_parquet(session, SEED_SCHEMA, uri)


def read_tables(session: SparkSession, uri: str, seed: DataFrame | None) -> Tables:
    """Return the snapshot under a URI, with a seed, as the tables of the query."""
    return Tables(
        players=read_parquet(session, PLAYERS_SCHEMA, f"{uri}/players"),
        products=read_parquet(session, PRODUCTS_SCHEMA, f"{uri}/products"),
        floors=read_parquet(session, FLOORS_SCHEMA, f"{uri}/floors"),
        seed=seed,
    )


def _entries(name: str) -> Column:
    """Return the union of one list of several boards, as `leaderboard.ENTRY`, best first."""
    entry = (
        "named_struct('score', e.score, 'neg_timestamp', -e.timestamp, 'neg_partition', -e.partition,"
        " 'neg_offset', -e.offset, 'player_id', e.player_id)"
    )
    every = f"sort_array(flatten(transform(boards, board -> transform(board.{name}, e -> {entry}))), false)"
    # Equal ones stand beside each other. To look for each among all others takes minutes once a product has some
    # thousand records.
    once = f"transform(array({every}), every -> filter(every, (e, i) -> i = 0 OR e <> every[i - 1]))[0]"
    return F.expr(once).cast(f"array<{ENTRY}>").alias(name)


def _exploded(boards: DataFrame) -> DataFrame:
    """Return one row an entry: `product_id, entry, was_known`; one that stands in both lists was known."""
    known = boards.select("product_id", F.explode("known").alias("entry"), F.lit(True).alias("was_known"))
    pending = boards.select("product_id", F.explode("pending").alias("entry"), F.lit(False).alias("was_known"))
    return known.union(pending).groupBy("product_id", "entry").agg(F.max("was_known").alias("was_known"))


def _with_existence(entries: DataFrame, players: DataFrame, products: DataFrame) -> DataFrame:
    """Add `exists`: whether the entry's player and product exist now."""
    player = players.withColumn("player_exists", F.lit(True))
    product = products.withColumn("product_exists", F.lit(True))
    joined = (
        entries.withColumn("player_id", F.col("entry.player_id"))
        .join(F.broadcast(player), "player_id", "left")
        .join(F.broadcast(product), "product_id", "left")
    )
    exists = F.col("player_exists").isNotNull() & F.col("product_exists").isNotNull()
    return joined.select(*entries.columns, exists.alias("exists"))

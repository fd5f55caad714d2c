"""Published boards in Spark: merged, their floors, what a generation begins with, and how they fit the tables."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime.spark.session import TASKS_BESIDE
from topology.leaderboard.places import PLACES, entries_of, exploded
from topology.leaderboard.surveys import Survey


def merged(results: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the merged board of each key in its highest generation, with the entries in ranking order.

    Args:
        results: as `runtime.spark.results.published` returns them.
        keys: the columns that tell boards apart, `product_id` first.

    Returns:
        The keys, `made, known, pending, pending_lost`, the lists as `places.PLACES`.
    """
    # All that is made of boards by product follows this partitioning.
    collected = (
        results.repartition(TASKS_BESIDE, "product_id")
        .groupBy(*keys)
        .agg(F.max("made.generation").alias("newest"), F.collect_list(F.struct("made", "values")).alias("all"))
    )
    newest = collected.select(
        *keys, F.expr("filter(all, each -> each.made.generation = newest)").alias("newest")
    ).select(*keys, F.expr("newest[0].made").alias("made"), F.col("newest.values").alias("boards"))
    return newest.select(
        *keys,
        "made",
        *(F.expr(entries_of("boards", name)).cast(PLACES).alias(name) for name in ("known", "pending")),
        F.expr("array_max(transform(boards, board -> board.pending_lost))").alias("pending_lost"),
    )


def of_generation(boards: DataFrame, generation: int, kept: int) -> DataFrame:
    """Return the boards of one generation, each list cut at `kept`: the merged board has no more."""
    cut = {name: F.slice(name, 1, kept) for name in ("known", "pending")}
    return boards.where(F.col("made.generation") == generation).withColumns(cut)


def floors(boards: DataFrame, keys: Sequence[str], kept: int) -> DataFrame:
    """Return the last kept score of each full board, of `of_generation`: the keys, and `floor double`."""
    full = boards.where(F.size("known") == kept)
    return full.select(*keys, F.element_at("known", kept).score.alias("floor"))


def seed_floors(seed: DataFrame, keys: Sequence[str], kept: int) -> DataFrame:
    """Return the floors of boards that a generation begins with; see `seed` and `floors`."""
    known = (
        seed.where("part_known").groupBy(*keys).agg(F.count(F.lit(1)).alias("full"), F.min("part_entry").alias("last"))
    )
    return known.where(F.col("full") >= kept).select(*keys, F.col("last.score").alias("floor"))


def seed(
    boards: DataFrame,
    keys: Sequence[str],
    players: DataFrame,
    products: DataFrame,
    kept: int,
    *,
    tables_are_new: bool,
) -> DataFrame:
    """Return the boards that a new generation begins with, as `merged` has them.

    Pending entries whose player and product exist by now become known. Every key keeps a row, so that each old board
    is replaced.

    Args:
        boards: as `merged` returns them.
        keys: see `merged`.
        players: `id bigint`, those that exist.
        products: `id bigint`, those that exist.
        kept: how many entries each list of a board keeps.
        tables_are_new: whether known entries without a player or product become pending, since the tables are being
            filled anew. Else they are those of deleted ones, and left out.
    """
    known = _with_existence(_exploded(boards, keys), players, products)
    left = known if tables_are_new else known.where("exists OR NOT was_known")
    lists = left.groupBy(*keys).agg(
        F.expr(f"max_by(entry, entry, {kept}) FILTER (WHERE exists)").alias("known"),
        F.expr(f"max_by(entry, entry, {kept}) FILTER (WHERE NOT exists)").alias("pending"),
    )
    return boards.select(*keys, "made").join(lists, [*keys], "left")


def parts(boards: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return boards, as `seed` returns them, as the parts of a seed: see `places.exploded`."""
    made = [F.col(f"made.{name}").alias(f"made_{name}") for name in ("events", "newest_ms")]
    return exploded(boards.select(*keys, *made, "known", "pending"), keys)


def survey(
    boards: DataFrame,
    keys: Sequence[str],
    before: tuple[DataFrame, DataFrame],
    now: tuple[DataFrame, DataFrame],
    *,
    depth: int,
    kept: int,
) -> Survey:
    """Compare the boards with the tables, to decide what a refresh has to do.

    Args:
        boards: as `of_generation` returns them.
        keys: see `merged`.
        before: the players and products that the running query joins, `id bigint` each.
        now: those that exist.
        depth: the most entries that are served of a board.
        kept: how many entries each list of a board keeps.
    """
    existing = _with_existence(_exploded(boards, keys), *now).withColumnRenamed("exists", "exists_now")
    compared = _with_existence(existing, *before).withColumnRenamed("exists", "existed")
    per_board = compared.groupBy(*keys).agg(
        F.count_if(F.col("exists_now") & ~F.col("existed") & ~F.col("was_known")).alias("newly_known"),
        F.count_if(F.col("was_known")).alias("kept"),
        F.count_if("exists_now").alias("shown"),
        F.count_if(F.col("exists_now") & ~F.col("was_known")).alias("pending_shown"),
    )
    # What was lost ranks below each pending entry that was kept: those that are shown may fill the board without it.
    lost = F.when(F.col("product_exists") & (F.col("pending_shown") < depth), F.col("pending_lost"))
    pending = boards.select(*keys, "pending_lost", (F.size("pending") == kept).alias("pending_full"))
    products = now[1].select(F.col("id").alias("product_id"), F.lit(True).alias("product_exists"))
    short = F.col("product_exists") & (F.col("kept") >= kept) & (F.col("shown") < depth)
    row = (
        per_board.join(pending, [*keys])
        .join(products, "product_id", "left")
        .agg(
            F.coalesce(F.sum("newly_known"), F.lit(0)).alias("newly_known"),
            F.count_if(short).alias("short_boards"),
            F.coalesce(F.sum(lost), F.lit(0)).alias("pending_lost"),
            F.coalesce(F.sum("pending_shown"), F.lit(0)).alias("pending_shown"),
            F.coalesce(F.sum(F.when(F.col("pending_full"), F.col("pending_shown"))), F.lit(0)).alias("at_risk"),
        )
        .first()
    )
    assert row is not None, "an aggregate without a group has one row"
    return Survey(**row.asDict())


def _exploded(boards: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return one row an entry: the keys, `entry, was_known`; one that stands in both lists was known."""
    known = boards.select(*keys, F.explode("known").alias("entry"), F.lit(True).alias("was_known"))
    pending = boards.select(*keys, F.explode("pending").alias("entry"), F.lit(False).alias("was_known"))
    return known.union(pending).groupBy(*keys, "entry").agg(F.max("was_known").alias("was_known"))


def _with_existence(entries: DataFrame, players: DataFrame, products: DataFrame) -> DataFrame:
    """Add `exists`: whether the entry's player and product exist now."""
    player = players.select(F.col("id").alias("player_id"), F.lit(True).alias("player_exists"))
    product = products.select(F.col("id").alias("product_id"), F.lit(True).alias("product_exists"))
    joined = (
        entries.withColumn("player_id", F.col("entry.player_id"))
        .join(F.broadcast(player), "player_id", "left")
        .join(F.broadcast(product), "product_id", "left")
    )
    exists = F.col("player_exists").isNotNull() & F.col("product_exists").isNotNull()
    return joined.select(*entries.columns, exists.alias("exists"))

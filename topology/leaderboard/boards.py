"""Published boards in Spark: merged, their floors, what a generation begins with, and how they fit the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime.spark.session import TASKS_BESIDE
from topology.leaderboard.hiding import NOTHING_HIDDEN, Hiding
from topology.leaderboard.places import LISTS, PLACES, entries_of, exploded, kept_of, relative
from topology.leaderboard.surveys import Survey

_LOST: Final = ("pending_lost", "hidden_lost")


def merged(results: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the merged board of each key in its highest generation, with the entries in ranking order.

    Args:
        results: as `runtime.spark.results.published` returns them.
        keys: the columns that tell boards apart, `product_id` first.

    Returns:
        The keys, `made, known, pending, hidden, pending_lost, hidden_lost, topic`, the lists as `places.PLACES`.
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
        *(F.expr(entries_of("boards", name)).cast(PLACES).alias(name) for name in LISTS),
        *(F.expr(f"coalesce(array_max(transform(boards, board -> board.{name})), 0)").alias(name) for name in _LOST),
        F.expr("array_max(transform(boards, board -> board.topic))").alias("topic"),
    )


def of_generation(boards: DataFrame, generation: int, kept: int) -> DataFrame:
    """Return the boards of one generation, each list cut at `kept`: the merged board has no more."""
    cut = {name: F.slice(name, 1, kept_of(name, kept)) for name in LISTS}
    return boards.where(F.col("made.generation") == generation).withColumns(cut)


def floors(results: DataFrame, keys: Sequence[str], kept: int) -> DataFrame:
    """Return the last kept score of each board that is full: the keys, and `floor double`.

    Of several results of a board the highest: a board only rises in a generation. To read all that they say and to
    merge them would take many times as long.

    Args:
        results: of one generation, as `runtime.spark.results.texts_of_generation` returns them.
        keys: see `merged`.
        kept: how many known entries a board keeps.
    """
    last = F.get_json_object("text", f"$.known[{kept - 1}].score").cast("double")
    scores = results.select(*keys, last.alias("floor")).where("floor IS NOT NULL")
    return scores.groupBy(*keys).agg(F.max("floor").alias("floor"))


def seed_floors(seed: DataFrame, keys: Sequence[str], kept: int) -> DataFrame:
    """Return the floors of boards that a generation begins with; see `seed` and `floors`."""
    known = (
        seed.where("part_known AND NOT part_hidden")
        .groupBy(*keys)
        .agg(F.count(F.lit(1)).alias("full"), F.min("part_entry").alias("last"))
    )
    return known.where(F.col("full") >= kept).select(*keys, F.col("last.score").alias("floor"))


def with_seed_floors(floors: DataFrame, seed: DataFrame, keys: Sequence[str], kept: int) -> DataFrame:
    """Return floors of boards that a generation begins without, and of the others those of its seed: as `floors`."""
    others = floors.join(seed.select(*keys).distinct(), [*keys], "left_anti")
    return others.select(*keys, "floor").unionByName(seed_floors(seed, keys, kept))


def seed(
    boards: DataFrame,
    keys: Sequence[str],
    players: DataFrame,
    products: DataFrame,
    kept: int,
    hiding: Hiding,
    *,
    tables_are_new: bool,
) -> DataFrame:
    """Return the boards that a new generation begins with, as `merged` has them, of the topic that it reads.

    Pending entries whose player and product exist by now become known, and those that are hidden now stand apart. Every
    key keeps a row, so that each old board is replaced.

    Args:
        boards: as `merged` returns them.
        keys: see `merged`.
        players: `id bigint`, those that exist.
        products: `id bigint`, those that exist.
        kept: how many entries the list of known ones of a board keeps.
        hiding: what is hidden.
        tables_are_new: whether known entries without a player or product become pending, since the tables are being
            filled anew. Else they are those of deleted ones, and left out.
    """
    known = hiding.marked(_with_existence(_exploded(_of_topic(boards, hiding), keys), players, products))
    left = known if tables_are_new else known.where("exists OR NOT was_known OR hidden")
    of_list = {"known": "exists AND NOT hidden", "pending": "NOT exists AND NOT hidden", "hidden": "hidden"}
    lists = _lists(left, keys, of_list, kept)
    return boards.select(*keys, "made").join(lists, [*keys], "left")


def going_on(
    boards: DataFrame, keys: Sequence[str], players: DataFrame, products: DataFrame, kept: int, hiding: Hiding
) -> DataFrame:
    """Return the boards that a generation begins with which reads no event again: arguments as for `seed`.

    All that the last one had is there: what was known stays so, whoever is deleted or hidden. A board that was full is,
    and the scores that it dropped for that are as lost as before.

    Returns:
        The keys, `made, known, pending, hidden`, and `pending_lost, hidden_lost`: how many entries stand for those that
        were lost, 0 for none.
    """
    entries = hiding.marked(_with_existence(_exploded(_of_topic(boards, hiding), keys), players, products))
    of_list = {
        "known": "was_known OR (exists AND NOT hidden)",
        "pending": "NOT (was_known OR exists OR hidden)",
        "hidden": "hidden AND NOT was_known",
    }
    joined = boards.select(*keys, "made", *_LOST).join(_lists(entries, keys, of_list, kept), [*keys], "left")
    # As many are lost as before, also where places have become free: only their events could bring them back.
    lost = {
        f"{name}_lost": F.col(f"{name}_lost") + kept_of(name, kept) - F.size(F.coalesce(name, F.array().cast(PLACES)))
        for name in ("pending", "hidden")
    }
    return joined.withColumns({name: F.when(F.col(name) > 0, of).otherwise(0) for name, of in lost.items()})


def parts(boards: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return boards, as `seed` returns them, as the parts of a seed: see `places.exploded`."""
    made = [F.col(f"made.{name}").alias(f"made_{name}") for name in ("events", "newest_ms")]
    return exploded(boards.select(*keys, *made, *LISTS), keys)


def parts_going_on(boards: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return boards, as `going_on` returns them, as the parts of a seed.

    Those that were lost count as well: no event comes again that would.
    """
    lost = [
        boards.where(F.col(f"{name}_lost") > 0).select(
            *keys,
            F.lit(False).alias("part_known"),
            F.lit(name == "hidden").alias("part_hidden"),
            F.col(f"{name}_lost").cast("bigint").alias("part_weight"),
        )
        for name in ("pending", "hidden")
    ]
    return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), lost, parts(boards, keys))


def survey(
    boards: DataFrame,
    keys: Sequence[str],
    before: tuple[DataFrame, DataFrame],
    now: tuple[DataFrame, DataFrame],
    hiding: Hiding = NOTHING_HIDDEN,
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
        hiding: what is hidden now.
        depth: the most entries that are served of a board.
        kept: how many entries the list of known ones of a board keeps.
    """
    existing = hiding.marked(_with_existence(_exploded(boards, keys), *now)).withColumn(
        "exists_now", F.col("exists") & ~F.col("hidden")
    )
    compared = _with_existence(existing.drop("exists", "hidden"), *before).withColumnRenamed("exists", "existed")
    is_pending = ~F.col("was_known") & ~F.col("was_hidden")
    per_board = compared.groupBy(*keys).agg(
        F.count_if(F.col("exists_now") & ~F.col("existed") & is_pending).alias("newly_known"),
        F.count_if(F.col("was_known")).alias("kept"),
        F.count_if(F.col("was_known") & ~F.col("exists_now")).alias("gone"),
        F.count_if("exists_now").alias("shown"),
        F.count_if(F.col("exists_now") & is_pending).alias("pending_shown"),
        F.count_if(F.col("exists_now") & F.col("was_hidden")).alias("hidden_shown"),
    )
    # What was lost ranks below each pending entry that was kept: those that are shown may fill the board without it.
    lost, at_risk = {}, {}
    for name in ("pending", "hidden"):
        is_lost = F.col("product_exists") & (F.col(f"{name}_shown") < depth)
        lost[name] = F.when(is_lost, F.col(f"{name}_lost"))
        at_risk[name] = F.when(F.col(f"{name}_full"), F.col(f"{name}_shown"))
    pending = boards.select(
        *keys,
        *(f"{name}_lost" for name in ("pending", "hidden")),
        *((F.size(name) == kept_of(name, kept)).alias(f"{name}_full") for name in ("pending", "hidden")),
    )
    products = now[1].select(F.col("id").alias("product_id"), F.lit(True).alias("product_exists"))
    is_full = F.col("kept") >= kept
    short = F.col("product_exists") & is_full & (F.col("shown") < depth)
    # Of known entries alone: who is pending has no place on a board that becomes full.
    may_fall_short = F.col("product_exists") & ~is_full & (F.col("gone") > kept - depth)
    row = (
        per_board.join(pending, [*keys])
        .join(products, "product_id", "left")
        .agg(
            F.coalesce(F.sum("newly_known"), F.lit(0)).alias("newly_known"),
            F.count_if(short).alias("short_boards"),
            *(F.coalesce(F.sum(of), F.lit(0)).alias(f"{name}_lost") for name, of in lost.items()),
            F.coalesce(F.sum("pending_shown"), F.lit(0)).alias("pending_shown"),
            F.coalesce(
                F.sum(F.coalesce(at_risk["pending"], F.lit(0)) + F.coalesce(at_risk["hidden"], F.lit(0))), F.lit(0)
            ).alias("at_risk"),
            F.coalesce(F.sum("hidden_shown"), F.lit(0)).alias("hidden_shown"),
            F.count_if(may_fall_short).alias("may_fall_short"),
        )
        .first()
    )
    assert row is not None, "an aggregate without a group has one row"
    return Survey(**row.asDict())


def _exploded(boards: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return one row an entry: the keys, `entry, was_known, was_hidden`; of several lists the first."""
    each = [
        boards.select(
            *keys,
            F.explode(name).alias("entry"),
            *(F.lit(name == of).alias(f"was_{of}") for of in ("known", "hidden")),
        )
        for name in LISTS
    ]
    found = (
        reduce(DataFrame.union, each)
        .groupBy(*keys, "entry")
        .agg(F.max("was_known").alias("was_known"), F.max("was_hidden").alias("was_hidden"))
    )
    return found.withColumn("was_hidden", F.col("was_hidden") & ~F.col("was_known"))


def _of_topic(boards: DataFrame, hiding: Hiding) -> DataFrame:
    """Return boards whose entries name a topic only where it is another one than that which is read now."""
    own = F.lit(hiding.topic_id)
    return boards.withColumns({name: relative(F.col(name), "topic", own) for name in LISTS})


def _lists(entries: DataFrame, keys: Sequence[str], of_list: Mapping[str, str], kept: int) -> DataFrame:
    """Return the best entries of each list: the keys and `LISTS`.

    Args:
        entries: the keys, `entry`, and what the conditions are about.
        keys: see `merged`.
        of_list: which entries a list has, as SQL.
        kept: see `seed`.
    """
    best = (
        F.expr(f"max_by(entry, entry, {kept_of(name, kept)}) FILTER (WHERE {of})").alias(name)
        for name, of in of_list.items()
    )
    return entries.groupBy(*keys).agg(*best)


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

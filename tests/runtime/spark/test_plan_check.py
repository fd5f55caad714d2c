"""Rows that cannot run, or that a replay would make otherwise, are refused; the refusal says what to do instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from app.topologies import LEADERBOARD, OTHERS, load_application
from runtime import Count, Int64, Key, Max, PlainText, Store, Stream, Table, Text, Topology, each_distinct
from runtime.declaration import DeclarationError
from runtime.spark.plan_check import check_declared
from runtime.spark.session import Spark
from tests.drivers import paced_topologies, word_topologies
from tests.drivers.stream_threads import VISITS
from topology.leaderboard.periods import Periods

TOWNS = Table("big-towns", Key("id", Int64), {"name": Text, "people": Int64})


def checked(
    spark: Spark,
    rows: Callable[..., DataFrame],
    key: Key | None = None,
    upkeep: Callable[[Any], Any] | None = None,
    **values: Any,
) -> None:
    """Check rows that have a key `word`, unless another one is given."""
    store = Store("words", "words-out", key or Key("word", Text), values or {"count": Count()}, rows=rows)
    topology = Topology("t", Stream("lines", PlainText()), [store], tables=[TOWNS], upkeep=upkeep)
    check_declared(spark.session, topology, store)


def word(lines: DataFrame) -> DataFrame:
    return lines.select("at", F.col("text").alias("word"))


shouted = F.udf(lambda text: text.upper(), StringType())


def random_id(function: str) -> Column:
    """Return what a method of Java makes, another one each time."""
    return F.expr(f"{function}('java.util.UUID', 'randomUUID')")


AGGREGATE = r"rows of store words have an aggregate of their own \(.*\): leave it to the store's values"
PYTHON = r"rows of store words run Python or Scala for each record \(.*\): use Spark's own functions"
CLOCK = r"rows of store words look at the clock \(.*\): use the timestamp of the record, at.timestamp"
CHANCE = r"rows of store words are left to chance \(.*\): a replay would make other ones"
ELEMENTS = r"rows of store words change the elements of a list behind runtime.each_distinct, .*: change the list itself"
EXPLODE = r"rows of store words have an explode, .*: use runtime.each_distinct"
NO_AT = "rows of store words have no column at: keep it as it comes, every row says which record it is of"

REFUSED: list[tuple[str, Callable[[DataFrame], DataFrame], str]] = [
    ("unknown column", lambda lines: lines.select("at", "wrod"), "rows of store words cannot be planned: .*wrod"),
    ("an unknown function", lambda lines: lines.select("at", F.expr("nosuch(text)")), "cannot be planned: .*nosuch"),
    ("no key", lambda lines: lines.select("at", "text"), r"no column word \(they have at, text\): select it, or name"),
    ("no at", lambda lines: lines.select(F.col("text").alias("word")), NO_AT),
    ("another at", lambda lines: word(lines).withColumn("at", F.lit(1)), NO_AT),
    ("a part of at", lambda lines: word(lines).withColumn("at", F.struct("at.source", "at.partition")), NO_AT),
    ("an aggregate", lambda lines: word(lines).groupBy("word", "at").count(), AGGREGATE),
    ("the first of each", lambda lines: word(lines).groupBy("word").agg(F.first("at").alias("at")), AGGREGATE),
    ("an aggregate that drops at", lambda lines: word(lines).groupBy("word").count(), AGGREGATE),
    ("distinct", lambda lines: word(lines).distinct(), AGGREGATE),
    ("each once", lambda lines: word(lines).dropDuplicates(["word"]), AGGREGATE),
    (
        "a window function",
        lambda lines: word(lines).withColumn("n", F.row_number().over(Window.partitionBy("word").orderBy("at"))),
        AGGREGATE,
    ),
    ("a UDF", lambda lines: word(lines).withColumn("word", shouted("word")), PYTHON),
    ("a UDF in a filter", lambda lines: word(lines).where(shouted("word") == "A"), PYTHON),
    ("the time", lambda lines: word(lines).withColumn("t", F.current_timestamp()), CLOCK),
    ("now", lambda lines: word(lines).withColumn("t", F.expr("now()")), CLOCK),
    ("the date", lambda lines: word(lines).where(F.current_date() > "2026-01-01"), CLOCK),
    ("the local time", lambda lines: word(lines).withColumn("t", F.localtimestamp()), CLOCK),
    ("the time in seconds", lambda lines: word(lines).withColumn("t", F.unix_timestamp()), CLOCK),
    ("the time of the day", lambda lines: word(lines).withColumn("t", F.expr("current_time()")), CLOCK),
    ("a random number", lambda lines: word(lines).where(F.rand() < 0.5), CHANCE),
    ("one that has a seed", lambda lines: word(lines).where(F.rand(7) < 0.5), CHANCE),
    ("a normal one", lambda lines: word(lines).withColumn("n", F.randn()), CHANCE),
    ("a UUID", lambda lines: word(lines).withColumn("n", F.expr("uuid()")), CHANCE),
    ("a shuffled list", lambda lines: word(lines).withColumn("n", F.shuffle(F.split("word", " "))), CHANCE),
    ("a sample", lambda lines: word(lines).sample(0.5), CHANCE),
    ("a number of the row", lambda lines: word(lines).withColumn("n", F.monotonically_increasing_id()), CHANCE),
    ("the task", lambda lines: word(lines).withColumn("n", F.spark_partition_id()), CHANCE),
    ("a random text", lambda lines: word(lines).withColumn("n", F.randstr(5)), CHANCE),
    ("a uniform number", lambda lines: word(lines).withColumn("n", F.uniform(0, 5)), CHANCE),
    ("a method of Java", lambda lines: word(lines).withColumn("n", random_id("reflect")), CHANCE),
    ("the same by its other name", lambda lines: word(lines).where(random_id("java_method") < "8"), CHANCE),
    ("one that may throw", lambda lines: word(lines).withColumn("n", random_id("try_reflect")), CHANCE),
    ("explode", lambda lines: lines.select("at", F.explode(F.split("text", " ")).alias("word")), EXPLODE),
    ("posexplode", lambda lines: lines.select("at", F.posexplode(F.split("text", " ")).alias("n", "word")), EXPLODE),
    (
        "explode beside each_distinct",
        lambda lines: each_distinct(lines, F.split("text", " "), "word").select(
            "at", "word", F.explode(F.split("word", "")).alias("letter")
        ),
        EXPLODE,
    ),
    (
        "elements made alike",
        lambda lines: each_distinct(lines, F.split("text", " "), "word").withColumn("word", F.lower("word")),
        ELEMENTS,
    ),
    (
        "the number of times as the key",
        lambda lines: each_distinct(lines, F.array("text"), "any").select("at", F.concat("times").alias("word")),
        ELEMENTS,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "message"), [pytest.param(rows, said, id=what) for what, rows, said in REFUSED])
def test_rows_that_cannot_run_say_what_to_do_instead(
    spark: Spark, rows: Callable[[DataFrame], DataFrame], message: str
) -> None:
    with pytest.raises(DeclarationError, match=message):
        checked(spark, rows)


def test_a_key_or_a_weight_of_another_type_is_refused(spark: Spark) -> None:
    with pytest.raises(DeclarationError, match="have column word as string, where bigint is wanted: cast it"):
        checked(spark, word, Key("word", Int64))
    with pytest.raises(DeclarationError, match="have column times as double, where bigint is wanted: cast it"):
        checked(spark, lambda lines: word(lines).withColumn("times", F.lit(1.5)), count=Count("times"))
    with pytest.raises(DeclarationError, match="have no column times"):
        checked(spark, word, count=Count("times"))


@pytest.mark.parametrize("of_type", ["tinyint", "smallint", "int", "bigint"])
def test_a_smaller_integer_will_do(spark: Spark, of_type: str) -> None:
    checked(spark, lambda lines: word(lines).withColumn("times", F.lit(1).cast(of_type)), count=Count("times"))
    checked(
        spark,
        lambda lines: lines.select("at", F.length("text").cast(of_type).alias("length")),
        Key("length", Int64),
    )


@pytest.mark.parametrize(
    "rows",
    [
        word,
        lambda lines: each_distinct(lines, F.split("text", " "), "word"),
        lambda lines: (
            each_distinct(lines, F.split(F.lower("text"), " "), "any")
            .where("any <> 'x'")
            .select(F.col("any").alias("word"), "at", "times")
        ),
        lambda lines: word(lines).where(F.col("at.timestamp") > F.lit("2026-01-01").cast("timestamp")),
        lambda lines: word(lines).withColumn("day", F.to_date("at.timestamp")),
        lambda lines: word(lines).withColumn("letters", F.filter(F.split("word", ""), lambda each: each != "")),
        lambda lines: word(lines).withColumn("word", F.coalesce("word", F.lit("none"))),
        lambda lines: each_distinct(lines, F.array("text", F.upper("text")), "word"),
    ],
)
def test_rows_that_follow_from_the_record_alone_may_run(spark: Spark, rows: Callable[[DataFrame], DataFrame]) -> None:
    checked(spark, rows)


def test_a_table_is_given_as_its_key_and_its_fields_with_their_types(spark: Spark) -> None:
    def rows(lines: DataFrame, big_towns: DataFrame) -> DataFrame:
        assert [(field.name, field.dataType.simpleString()) for field in big_towns.schema] == [
            ("id", "bigint"), ("name", "string"), ("people", "bigint"),
        ]  # fmt: skip
        return as_words(lines.join(big_towns, is_number(lines, big_towns), "left"))

    checked(spark, rows)


def is_number(lines: DataFrame, big_towns: DataFrame) -> Column:
    """Return whether a line is the number of a town."""
    return lines["text"].try_cast("bigint") == big_towns["id"]


def as_words(joined: DataFrame) -> DataFrame:
    """Return a row for each line, whatever it was joined with."""
    return joined.select("at", F.col("text").alias("word"))


def joined_by(condition: Callable[[DataFrame, DataFrame], Column], how: str = "left") -> Callable[..., DataFrame]:
    """Return rows that are joined with the towns."""

    def rows(lines: DataFrame, big_towns: DataFrame) -> DataFrame:
        return as_words(lines.join(big_towns, condition(lines, big_towns), how))

    return rows


def named_as_the_key(lines: DataFrame, big_towns: DataFrame) -> DataFrame:
    people = big_towns.select(F.col("people").alias("id"), "name")
    return as_words(lines.withColumn("id", F.length("text")).join(people, "id", "left"))


def made_of_the_key(lines: DataFrame, big_towns: DataFrame) -> DataFrame:
    halved = big_towns.withColumn("id", F.shiftright("id", 1))
    return as_words(lines.join(halved, is_number(lines, halved), "left"))


SELECTIONS = (
    "rows of store words are put together of several selections ({}): make one list of the keys, as in"
    ' runtime.each_distinct(source, F.array("home", "away"), "team")'
)
MOVES = (
    "rows of store words go to other partitions ({}): leave that out, since results rest on the order of a"
    " partition's records"
)
NOT_BY_KEY = (
    "rows of store words do not join table big-towns by its key, so that several of its rows may match one record:"
    " compare id itself with a column of the source"
)
NO_TABLE = (
    'rows of store words have a join without a table on its right side: write source.join(table, condition, "left"),'
    " and declare two streams as Joined"
)
FILTERS = (
    "rows of store words let table big-towns say which rows there are ({}): a replay would find another table, so"
    ' make it a left join, "left"'
)
OF_ALL = (
    "rows of store words are picked or ordered among all records ({}), which have no end: leave that out, and use where"
    " for a condition that each record meets by itself"
)

REFUSED_AS_DECLARED: list[tuple[str, Callable[..., DataFrame], str]] = [
    ("a union", lambda lines: word(lines).union(word(lines)), SELECTIONS.format("Union")),
    ("a union by name", lambda lines: word(lines).unionByName(word(lines)), SELECTIONS.format("Union")),
    (
        "columns that become rows",
        lambda lines: lines.select("at", "text", F.upper("text").alias("loud")).unpivot(
            "at", ["text", "loud"], "which", "word"
        ),
        SELECTIONS.format("Expand"),
    ),
    ("other partitions", lambda lines: word(lines).repartition(4), MOVES.format("Repartition")),
    ("fewer partitions", lambda lines: word(lines).coalesce(1), MOVES.format("Repartition")),
    ("partitions by key", lambda lines: word(lines).repartition(4, "word"), MOVES.format("RepartitionByExpression")),
    ("partitions by a hint", lambda lines: word(lines).hint("coalesce", 1), MOVES.format("Repartition")),
    ("the first ones", lambda lines: word(lines).limit(3), OF_ALL.format("GlobalLimit, LocalLimit")),
    ("all but the first ones", lambda lines: word(lines).offset(3), OF_ALL.format("Offset")),
    ("an order", lambda lines: word(lines).orderBy("word"), OF_ALL.format("Sort")),
    ("an order in a partition", lambda lines: word(lines).sortWithinPartitions("word"), OF_ALL.format("Sort")),
    ("all but others", lambda lines: word(lines).exceptAll(word(lines)), OF_ALL.format("Except")),
    ("those of both", lambda lines: word(lines).intersectAll(word(lines)), OF_ALL.format("Intersect")),
    ("by a field", joined_by(lambda lines, towns: lines["text"] == towns["name"]), NOT_BY_KEY),
    ("by a field that is named as the key", named_as_the_key, NOT_BY_KEY),
    ("by what is made of the key", made_of_the_key, NOT_BY_KEY),
    ("by the key as a text", joined_by(lambda lines, towns: lines["text"] == towns["id"].cast("string")), NOT_BY_KEY),
    ("by the key as a double", joined_by(lambda lines, towns: lines["text"].cast("double") == towns["id"]), NOT_BY_KEY),
    (
        "by the key or a field",
        joined_by(lambda lines, towns: is_number(lines, towns) | (lines["text"] == towns["name"])),
        NOT_BY_KEY,
    ),
    ("by an order", joined_by(lambda lines, towns: lines["text"].try_cast("bigint") > towns["id"]), NOT_BY_KEY),
    ("by two columns of the table", joined_by(lambda _, towns: towns["id"] == towns["people"]), NOT_BY_KEY),
    ("by nothing", lambda lines, big_towns: as_words(lines.crossJoin(big_towns)), NOT_BY_KEY),
    (
        "with itself",
        lambda lines: as_words(lines.join(word(lines).drop("at"), F.col("text") == F.col("word"), "left")),
        NO_TABLE,
    ),
    (
        "the table on the left",
        lambda lines, big_towns: as_words(big_towns.join(lines, is_number(lines, big_towns), "right")),
        NO_TABLE,
    ),
    *(
        (f"joined {how}", joined_by(is_number, how), FILTERS.format(kind))
        for how, kind in [
            ("inner", "Inner"), ("left_semi", "LeftSemi"), ("left_anti", "LeftAnti"), ("right", "RightOuter"),
            ("full", "FullOuter"),
        ]
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "message"), [pytest.param(rows, said, id=what) for what, rows, said in REFUSED_AS_DECLARED]
)
def test_what_would_not_be_exact_says_what_to_do_instead(
    spark: Spark, rows: Callable[..., DataFrame], message: str
) -> None:
    with pytest.raises(DeclarationError) as refused:
        checked(spark, rows)
    assert str(refused.value) == message


def renamed_and_sent_along(lines: DataFrame, big_towns: DataFrame) -> DataFrame:
    towns = big_towns.select(F.col("id").alias("town"), F.lit(True).alias("is_town"))
    return as_words(lines.withColumn("town", F.col("text").try_cast("bigint")).join(F.broadcast(towns), "town", "left"))


def twice(lines: DataFrame, big_towns: DataFrame) -> DataFrame:
    first, second = (big_towns.select(F.col("id").alias(of), F.col("name").alias(f"{of}_name")) for of in ("a", "b"))
    once = lines.join(first, F.length("text") == F.col("a"), "left")
    return as_words(once.join(second, F.ascii("text") == F.col("b"), "left"))


def a_table_of_a_table(lines: DataFrame, big_towns: DataFrame) -> DataFrame:
    twins = big_towns.select(F.col("id").alias("people"), F.col("name").alias("twin"))
    both = big_towns.join(twins, "people", "left")
    return as_words(lines.join(both, lines["text"].try_cast("bigint") == both["id"], "left"))


@pytest.mark.parametrize(
    "rows",
    [
        joined_by(is_number),
        joined_by(lambda lines, towns: towns["id"].eqNullSafe(lines["text"].try_cast("bigint"))),
        joined_by(lambda lines, towns: is_number(lines, towns) & (towns["people"] > F.length(lines["text"]))),
        joined_by(lambda lines, towns: F.length(lines["text"]) == towns["id"]),
        renamed_and_sent_along,
        twice,
        a_table_of_a_table,
    ],
)
def test_a_table_may_be_joined_by_its_key(spark: Spark, rows: Callable[..., DataFrame]) -> None:
    checked(spark, rows)


def own_upkeep(care: Any) -> Any:
    return care


def test_values_that_merge_may_follow_a_table_where_an_upkeep_makes_up_for_it(spark: Spark) -> None:
    def measured(how: str) -> Callable[..., DataFrame]:
        joined = joined_by(is_number, how)

        def rows(lines: DataFrame, big_towns: DataFrame) -> DataFrame:
            return joined(lines, big_towns).withColumn("length", F.length("word"))

        return rows

    for how in ("inner", "left_semi", "left_anti"):
        checked(spark, measured(how), upkeep=own_upkeep, longest=Max("length", Int64))
    longest, lengths = Max("length", Int64), Count("length")
    for how, upkeep, value in [
        ("inner", None, longest),
        ("inner", own_upkeep, lengths),
        ("right", own_upkeep, longest),
    ]:
        with pytest.raises(DeclarationError, match="let table big-towns say which rows there are"):
            checked(spark, measured(how), upkeep=upkeep, value=value)


SHIPPED = [load_application(name, depth=10, ranks=True, periods=Periods()).topology for name in (LEADERBOARD, *OTHERS)]
OF_TESTS = [
    VISITS, word_topologies.word_count("words"), word_topologies.long_words("long-words"),
    word_topologies.word_count_of_two_sources("two-sources"), word_topologies.word_count_each_second("each-second"),
    word_topologies.words_in_windows("in-windows"), word_topologies.words_in_longer_windows("in-longer-windows"),
    word_topologies.words_and_letters("words-and-letters"), paced_topologies.sessions("of-sessions"),
    paced_topologies.sessions_of_version_2("of-sessions-2"), paced_topologies.paid("paid"),
]  # fmt: skip


@pytest.mark.parametrize("topology", [*SHIPPED, *OF_TESTS], ids=lambda topology: topology.name)
def test_what_comes_with_the_product_may_run(spark: Spark, topology: Topology) -> None:
    for store in topology.stores:
        check_declared(spark.session, topology, store)

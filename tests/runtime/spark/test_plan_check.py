"""Rows that cannot run, or that a replay would make otherwise, are refused; the refusal says what to do instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from runtime import Count, Int64, Key, PlainText, Store, Stream, Table, Text, Topology, each_distinct
from runtime.declaration import DeclarationError
from runtime.spark.plan_check import check_declared
from runtime.spark.session import Spark
from tests.drivers.stream_threads import VISITS
from topology.word_count import WORD_COUNT

TOWNS = Table("big-towns", Key("id", Int64), {"name": Text, "people": Int64})


def checked(spark: Spark, rows: Callable[..., DataFrame], key: Key | None = None, **values: Any) -> None:
    """Check rows that have a key `word`, unless another one is given."""
    store = Store("words", "words-out", key or Key("word", Text), values or {"count": Count()}, rows=rows)
    topology = Topology("t", Stream("lines", PlainText()), [store], tables=[TOWNS])
    check_declared(spark.session, topology, store)


def word(lines: DataFrame) -> DataFrame:
    return lines.select("at", F.col("text").alias("word"))


shouted = F.udf(lambda text: text.upper(), StringType())


AGGREGATE = r"rows of store words have an aggregate of their own \(.*\): leave it to the store's values"
PYTHON = r"rows of store words run Python or Scala for each record \(.*\): use Spark's own functions"
CLOCK = r"rows of store words look at the clock \(.*\): use the timestamp of the record, at.timestamp"
CHANCE = r"rows of store words are left to chance \(.*\): a replay would make other ones"
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
    ("explode", lambda lines: lines.select("at", F.explode(F.split("text", " ")).alias("word")), EXPLODE),
    ("posexplode", lambda lines: lines.select("at", F.posexplode(F.split("text", " ")).alias("n", "word")), EXPLODE),
    (
        "explode beside each_distinct",
        lambda lines: each_distinct(lines, F.split("text", " "), "word").select(
            "at", "word", F.explode(F.split("word", "")).alias("letter")
        ),
        EXPLODE,
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
        lambda lines: word(lines).where(F.col("at.timestamp") > F.lit("2026-01-01").cast("timestamp")),
        lambda lines: word(lines).withColumn("day", F.to_date("at.timestamp")),
        lambda lines: word(lines).withColumn("letters", F.filter(F.split("word", ""), lambda each: each != "")),
    ],
)
def test_rows_that_follow_from_the_record_alone_may_run(spark: Spark, rows: Callable[[DataFrame], DataFrame]) -> None:
    checked(spark, rows)


def test_a_table_may_be_joined_by_any_of_its_columns_types(spark: Spark) -> None:
    def rows(lines: DataFrame, big_towns: DataFrame) -> DataFrame:
        assert [(field.name, field.dataType.simpleString()) for field in big_towns.schema] == [
            ("id", "bigint"), ("name", "string"), ("people", "bigint"),
        ]  # fmt: skip
        return lines.join(big_towns, lines["text"] == big_towns["name"], "left").select(
            "at", F.col("text").alias("word")
        )

    checked(spark, rows)


@pytest.mark.parametrize("topology", [WORD_COUNT, VISITS], ids=lambda topology: topology.name)
def test_what_comes_with_the_product_may_run(spark: Spark, topology: Topology) -> None:
    for store in topology.stores:
        check_declared(spark.session, topology, store)

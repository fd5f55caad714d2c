"""What declarations make rows with."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import functions as F

from runtime import each_distinct
from runtime.spark.results import with_at
from runtime.spark.session import Spark
from runtime.testing.frames import records_frame


def distinct(spark: Spark, texts: list[str | None]) -> list[tuple[int, str, int]]:
    """Return the offset, the word and the times of each row that texts make."""
    records = [(None if text is None else text.encode(), 0, offset, 0) for offset, text in enumerate(texts)]
    frame = records_frame(spark.session, records)
    lines = with_at(frame.withColumn("text", F.col("value").cast("string")), ["lines"])
    rows = each_distinct(lines, F.split("text", " "), "word", "times")
    assert [(field.name, field.dataType.simpleString()) for field in rows.schema][1:] == [
        ("word", "string"),
        ("times", "bigint"),
    ]
    return [(row.at.offset, row.word, row.times) for row in rows.collect()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("b a b", {"b": 2, "a": 1}),
        ("a", {"a": 1}),
        ("", {}),
        (" ", {}),
        (" a  a ", {"a": 2}),
        (None, {}),
        ("a A ä", {"a": 1, "A": 1, "ä": 1}),
    ],
)
def test_a_record_gives_one_row_for_each_distinct_element(
    spark: Spark, text: str | None, expected: dict[str, int]
) -> None:
    assert {word: times for _, word, times in distinct(spark, [text])} == expected
    assert len(distinct(spark, [text])) == len(expected)


def test_each_row_says_which_record_it_is_of(spark: Spark) -> None:
    found = distinct(spark, ["a b", "", "b b"])
    assert Counter(found) == Counter([(0, "a", 1), (0, "b", 1), (2, "b", 2)])


def test_a_null_in_a_list_is_no_element(spark: Spark) -> None:
    frame = with_at(records_frame(spark.session, [(b"", 0, 0, 0)]), ["lines"])
    listed = F.array(F.lit("a"), F.lit(None).cast("string"), F.lit("a"))
    [row] = each_distinct(frame, listed, "word").collect()
    assert (row.word, row.times) == ("a", 2)

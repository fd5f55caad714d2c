"""What declarations make rows with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DISTINCT: Final = "__distinct"
"""Marks the rows that `each_distinct` makes: one a record and key, where a plain `explode` may give several."""


def each_distinct(source: DataFrame, listed: Column, name: str, times: str = "times") -> DataFrame:
    """Return a row for each distinct element of a list, with how often it stands there; none for null and for "".

    So a record gives one row a key at most, however often an element is repeated.

    Args:
        source: has `at`, and other columns, which are left out.
        listed: a list of texts.
        name: of the column that the element is in.
        times: of the column that says how often it stands in the list, `bigint`.

    Returns:
        `at`, the element, and how often.
    """
    from pyspark.sql import functions as F

    of_list = source.select("at", F.filter(listed, lambda each: F.length(each) > 0).alias("list"))
    counted = F.transform(
        F.array_distinct("list"),
        lambda each: F.struct(each.alias(name), F.size(F.filter("list", lambda other: other == each)).alias(times)),
    )
    exploded = of_list.select("at", F.explode(counted).alias(DISTINCT))
    return exploded.select(
        "at", F.col(f"{DISTINCT}.{name}").alias(name), F.col(f"{DISTINCT}.{times}").cast("bigint").alias(times)
    )

"""What declarations make rows with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DISTINCT: Final = "__distinct"
"""Marks rows that are one a record and key, where a plain `explode` may give several."""
_AT: Final = "__at_"


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


def of_each(source: DataFrame, listed: Column, name: str) -> DataFrame:
    """Return a row for each element of a list, with the columns of the source.

    Args:
        source: has `at`, and other columns.
        listed: a list; an empty one, and null, give no row. In the rows of a declaration its column has a name that
            begins with `DISTINCT`, which says that no element stands there twice.
        name: of the column that the element is in.
    """
    from pyspark.sql import functions as F

    # `at` is taken apart meanwhile: Spark loses fields of a struct that are asked for behind an explode and a join.
    fields = {field: f"{_AT}{field}" for field in source.select("at.*").columns}
    flat = source.withColumns({column: F.col(f"at.{field}") for field, column in fields.items()}).drop("at")
    each = flat.select("*", F.explode(listed).alias(name))
    at = F.struct(*(F.col(column).alias(field) for field, column in fields.items()))
    return each.withColumn("at", at).drop(*fields.values())

"""Records that are lines of text."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime.records import FURTHEST_MS, NO_VALUE, NOT_UTF8, TIMESTAMP_REASON, TOO_LARGE
from runtime.spark.sizes import too_large


def judge(records: DataFrame) -> DataFrame:
    """Return every record with its text and, when it cannot be used, the reason, else null.

    Args:
        records: `value binary, partition int, offset bigint, timestamp timestamp`, as Spark's Kafka source gives them.

    Returns:
        `reason string, text string, partition int, offset bigint, timestamp timestamp`.
    """
    text = F.col("value").cast("string").alias("text")
    reason = (
        F.when(F.col("value").isNull(), NO_VALUE)
        .when(too_large(records), TOO_LARGE)
        .when(F.abs(F.unix_millis("timestamp")) > FURTHEST_MS, TIMESTAMP_REASON)
        .when(~F.is_valid_utf8(text), NOT_UTF8)
    )
    return records.select(reason.alias("reason"), text, "partition", "offset", "timestamp")

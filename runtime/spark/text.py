"""Records that are lines of text."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime.records import NO_VALUE, NOT_UTF8


def judge(records: DataFrame) -> DataFrame:
    """Return every record with its text and, when it cannot be used, the reason, else null.

    Args:
        records: `value binary, partition int, offset bigint, timestamp timestamp`, as Spark's Kafka source gives them.

    Returns:
        `reason string, text string, partition int, offset bigint, timestamp timestamp`.
    """
    reason = F.expr(
        f"CASE WHEN value IS NULL THEN '{NO_VALUE}' WHEN NOT is_valid_utf8(CAST(value AS string)) THEN '{NOT_UTF8}' END"
    )
    text = F.col("value").cast("string").alias("text")
    return records.select(reason.alias("reason"), text, "partition", "offset", "timestamp")

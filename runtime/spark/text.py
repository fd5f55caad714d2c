"""Records that are lines of text."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime.keys import Key
from runtime.records import NO_VALUE, NOT_UTF8
from runtime.spark.beside_value import key_columns, place_of, reason_beside


def judge(records: DataFrame, key: Key | None) -> DataFrame:
    """Return every record with its text and, when it cannot be used, the reason, else null.

    Args:
        records: `value binary, partition int, offset bigint, timestamp timestamp`, as Spark's Kafka source gives them,
            and `key binary` where it is a column.
        key: what the key is, where it is a column.

    Returns:
        `reason string, text string`, the key, `partition int, offset bigint, timestamp timestamp`.
    """
    text = F.col("value").cast("string")
    reason = F.coalesce(
        reason_beside(records, key), F.when(F.col("value").isNull(), NO_VALUE).when(~F.is_valid_utf8(text), NOT_UTF8)
    )
    return records.select(reason.alias("reason"), text.alias("text"), *key_columns(key), *place_of(records))

"""How large records are."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from runtime.records import LARGEST_BYTES


def too_large(records: DataFrame) -> Column:
    """Return whether a record is larger than what Spark can be relied on to read."""
    sizes = [F.coalesce(F.octet_length(name), F.lit(0)) for name in ("key", "value") if name in records.columns]
    return F.greatest(*sizes, F.lit(0)) > LARGEST_BYTES

"""Runs any topology: Kafka to Spark to state stores to whoever asks. Knows none.

A declaration takes everything from here:

>>> from runtime import Count, Key, PlainText, Store, Stream, Text, Topology, each_distinct
"""

from __future__ import annotations

from runtime.declaration import (
    REAL_TIME,
    Beside,
    Joined,
    Json,
    Limits,
    PlainText,
    Row,
    Store,
    Stream,
    Table,
    Tables,
    Topology,
)
from runtime.keys import Int64, Key, Text
from runtime.ranking import Ranking, ReadBack, Standing
from runtime.rows import each_distinct
from runtime.types import Boolean, Decimal, Double, Timestamp
from runtime.values import Average, Count, Latest, Max, Min, Recent, Sum, Value, Values
from runtime.windows import Hopping, Session, Tumbling

__all__ = [
    "REAL_TIME",
    "Average",
    "Beside",
    "Boolean",
    "Count",
    "Decimal",
    "Double",
    "Hopping",
    "Int64",
    "Joined",
    "Json",
    "Key",
    "Latest",
    "Limits",
    "Max",
    "Min",
    "PlainText",
    "Ranking",
    "ReadBack",
    "Recent",
    "Row",
    "Session",
    "Standing",
    "Store",
    "Stream",
    "Sum",
    "Table",
    "Tables",
    "Text",
    "Timestamp",
    "Topology",
    "Tumbling",
    "Value",
    "Values",
    "each_distinct",
]

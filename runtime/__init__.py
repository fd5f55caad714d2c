"""Runs any topology: Kafka to Spark to state stores to whoever asks. Knows none.

A declaration takes everything from here:

>>> from runtime import Count, Key, PlainText, Store, Stream, Text, Topology, each_distinct
"""

from __future__ import annotations

from runtime.declaration import REAL_TIME, Limits, PlainText, Row, Store, Stream, Table, Tables, Topology
from runtime.keys import Int64, Key, Text
from runtime.rows import each_distinct
from runtime.values import Count, Value, Values

__all__ = [
    "REAL_TIME",
    "Count",
    "Int64",
    "Key",
    "Limits",
    "PlainText",
    "Row",
    "Store",
    "Stream",
    "Table",
    "Tables",
    "Text",
    "Topology",
    "Value",
    "Values",
    "each_distinct",
]

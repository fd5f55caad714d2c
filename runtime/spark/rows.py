"""The rows of a store: what its `rows` makes of usable records, and which records it can make none of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime.declaration import Store, Topology
from runtime.records import NO_KEY, NOT_AFTER_YEAR_1, OF_THE_FUTURE
from runtime.spark.beside_value import place_of
from runtime.spark.results import has_key, with_at
from runtime.types import FIRST_MS

AHEAD_MS: Final = 3_600_000
"""How far a record's timestamp may be ahead of the clock, where a store has windows: one of next year would end all."""


def judged(topology: Topology, records: DataFrame, as_of_ms: int | None = None) -> DataFrame:
    """Return what each record says, as the source's format does, and which ones no window can be of.

    Args:
        topology: reads them.
        records: as Spark's Kafka source gives them.
        as_of_ms: the clock by which it is told which are of the future, in milliseconds from 1970; by default that of
            Spark, which stands still for a batch.
    """
    found = topology.events.judge(records)
    sizes_ms = [store.window.size_ms for store in topology.stores if store.window is not None]
    if not sizes_ms:
        return found
    now_ms = F.unix_millis(F.current_timestamp()) if as_of_ms is None else F.lit(as_of_ms)
    at_ms = F.unix_millis("timestamp")
    ahead = F.when(at_ms > now_ms + AHEAD_MS, OF_THE_FUTURE).when(at_ms < FIRST_MS + max(sizes_ms), NOT_AFTER_YEAR_1)
    return found.withColumn("reason", F.coalesce("reason", ahead))


def usable(judged: DataFrame) -> DataFrame:
    """Return the records that can be used, of what a source's format says of each."""
    return judged.where("reason IS NULL").drop("reason")


def rows_of(topology: Topology, store: Store, events: DataFrame, joined: Mapping[str, DataFrame]) -> DataFrame:
    """Return the rows of a store.

    Args:
        topology: has the store.
        store: whose rows they are.
        events: usable records.
        joined: the tables that `rows` is given, by parameter.
    """
    at = with_at(events, topology.source_topics)
    return at if store.rows is None else store.rows(at, **joined)


def unusable(topology: Topology, store: Store, records: DataFrame, as_of_ms: int | None = None) -> DataFrame:
    """Return the records that cannot be used, each once: those of no event, and those with a row without a key.

    Args:
        topology: has the store.
        store: whose rows are looked at, unless they join tables.
        records: as Spark's Kafka source gives them.
        as_of_ms: see `judged`.

    Returns:
        `partition int, offset bigint, reason string`, and `topic string` where the source's format keeps it.
    """
    looked_at = judged(topology, records, as_of_ms)
    place = [name for name in place_of(looked_at) if name != "timestamp"]
    found = looked_at.where("reason IS NOT NULL").select(*place, "reason")
    if store.joined:
        return found
    without_key = rows_of(topology, store, usable(looked_at), {}).where(~has_key(store))
    of_at = [F.col("at.source" if name == "topic" else f"at.{name}").alias(name) for name in place]
    none = without_key.select(*of_at, F.lit(NO_KEY).alias("reason"))
    return found.union(none).dropDuplicates(place)

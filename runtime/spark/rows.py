"""The rows of a store: what its `rows` makes of usable records, and which records it can make none of."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime.declaration import Store, Topology
from runtime.records import NO_KEY
from runtime.spark.beside_value import place_of
from runtime.spark.results import has_key, with_at


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


def unusable(topology: Topology, store: Store, records: DataFrame) -> DataFrame:
    """Return the records that cannot be used, each once: those of no event, and those with a row without a key.

    Args:
        topology: has the store.
        store: whose rows are looked at, unless they join tables.
        records: as Spark's Kafka source gives them.

    Returns:
        `partition int, offset bigint, reason string`, and `topic string` where the source's format keeps it.
    """
    judged = topology.events.judge(records)
    place = [name for name in place_of(judged) if name != "timestamp"]
    found = judged.where("reason IS NOT NULL").select(*place, "reason")
    if store.joined:
        return found
    without_key = rows_of(topology, store, usable(judged), {}).where(~has_key(store))
    of_at = [F.col("at.source" if name == "topic" else f"at.{name}").alias(name) for name in place]
    none = without_key.select(*of_at, F.lit(NO_KEY).alias("reason"))
    return found.union(none).dropDuplicates(place)

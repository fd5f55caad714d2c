"""The rows of a store: what its `rows` makes of usable records, and which records it can make none of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from runtime.declaration import Joined, Store, Stream, Topology
from runtime.keys import Text
from runtime.records import NO_KEY, NOT_AFTER_YEAR_1, OF_THE_FUTURE
from runtime.spark.beside_value import column_of, place_of
from runtime.spark.results import AT, ENDLESS_MS, has_key, with_at
from runtime.types import FIRST_MS

AHEAD_MS: Final = 3_600_000
"""How far a record's timestamp may be ahead of the clock where event time counts: one of next year would end all."""
_LONGEST_MS: Final = 10_000 * 86_400_000
"""No window is longer than that."""

_LEFT: Final = "__left_"
_RIGHT: Final = "__right_"
_TIME: Final = "__time"

Seen = Callable[[DataFrame, int], DataFrame]
"""Observes the records of a source, all those that come: the first source has the number 0."""


def usable(judged: DataFrame) -> DataFrame:
    """Return the records that can be used, of what a source's format says of each."""
    return judged.where("reason IS NULL").drop("reason")


def judged(topology: Topology, records: DataFrame, as_of_ms: int | None = None) -> list[DataFrame]:
    """Return what the records say: of sources that are joined a frame each, since each has a format of its own.

    Args:
        topology: has the sources.
        records: as Spark's Kafka source gives them.
        as_of_ms: the clock by which it is told which are of the future, in milliseconds from 1970; by default that of
            Spark, which stands still for a batch.
    """
    join = topology.join
    if join is not None:
        sides = [(side, records.where(F.col("topic") == side.topic)) for side in join.sides]
        return [_in_time(_with_key(join, side, side.judge(of_side)), as_of_ms) for side, of_side in sides]
    found = topology.events.judge(records)
    return [_in_time(found, as_of_ms) if topology.has_windows else found]


def _in_time(found: DataFrame, as_of_ms: int | None) -> DataFrame:
    """Say that a record of the future cannot be used, nor one of a time that no window can be of."""
    now_ms = F.unix_millis(F.current_timestamp()) if as_of_ms is None else F.lit(as_of_ms)
    at_ms = F.unix_millis("timestamp")
    reason = F.when(at_ms > now_ms + AHEAD_MS, OF_THE_FUTURE).when(at_ms < FIRST_MS + _LONGEST_MS, NOT_AFTER_YEAR_1)
    return found.withColumn("reason", F.coalesce("reason", reason))


def _with_key(join: Joined, side: Stream, found: DataFrame) -> DataFrame:
    """Say that a record without what it is joined on cannot be used."""
    on = F.col(column_of(join.on))
    is_none = on.isNull() | (on == "") if side.columns[join.on] == Text.spark else on.isNull()
    return found.withColumn("reason", F.coalesce("reason", F.when(is_none, NO_KEY)))


def events_of(
    topology: Topology,
    records: DataFrame,
    *,
    seen: Seen | None = None,
    late_ms: int | None = None,
    as_of_ms: int | None = None,
) -> DataFrame:
    """Return the usable records of the sources; of those that are joined each two that belong together, with `at`.

    Args:
        topology: has the sources.
        records: as Spark's Kafka source gives them.
        seen: observes the records of each source.
        late_ms: how late a record of a join may come, in milliseconds; without it, however late.
        as_of_ms: see `judged`.
    """
    frames = judged(topology, records, as_of_ms)
    if seen is not None:
        frames = [seen(frame, number) for number, frame in enumerate(frames)]
    events = [usable(frame) for frame in frames]
    return events[0] if topology.join is None else _joined(topology.join, events, late_ms)


def _joined(join: Joined, events: list[DataFrame], late_ms: int | None) -> DataFrame:
    topics = [side.topic for side in join.sides]
    delay = f"{ENDLESS_MS if late_ms is None else late_ms} milliseconds"
    # Under names of their own: two that share a column would be two sources to Spark, each with offsets of its own.
    left, right = (
        _named(with_at(each, topics), name).withWatermark(f"{name}{_TIME}", delay)
        for each, name in zip(events, (_LEFT, _RIGHT), strict=True)
    )
    time, other = F.col(_LEFT + _TIME), F.col(_RIGHT + _TIME)
    within = F.expr(f"INTERVAL {join.within_s} SECONDS")
    same = F.col(_LEFT + join.on) == F.col(_RIGHT + join.on)
    both = left.join(right, same & (other >= time - within) & (other <= time + within))
    of_left, of_right = (F.col(f"{name}at") for name in (_LEFT, _RIGHT))
    is_right = _order(of_right) > _order(of_left)
    later, other = F.when(is_right, of_right).otherwise(of_left), F.when(is_right, of_left).otherwise(of_right)
    at = F.struct(*(later[name].alias(name) for name in AT), other.alias("other"))
    of_sides = dict.fromkeys(join.right.columns, _RIGHT) | dict.fromkeys(join.left.columns, _LEFT)
    return both.select(*(F.col(of_sides[name] + name).alias(name) for name in join.columns), at.alias("at"))


def _named(events: DataFrame, prefix: str) -> DataFrame:
    columns = [F.col(name).alias(prefix + name) for name in events.columns]
    return events.select(*columns, F.col("at.timestamp").alias(prefix + _TIME))


def _order(at: Column) -> Column:
    """Return what the later of two records has more of."""
    return F.struct(*(at[name] for name in ("timestamp", "partition", "offset", "source")))


def rows_of(topology: Topology, store: Store, events: DataFrame, joined: Mapping[str, DataFrame]) -> DataFrame:
    """Return the rows of a store.

    Args:
        topology: has the store.
        store: whose rows they are.
        events: as `events_of` returns them.
        joined: the tables that `rows` is given, by parameter.
    """
    at = events if store.of_join else with_at(events, topology.source_topics)
    if store.rows is None:
        return at
    # Real time takes no other join of theirs: without this, Spark would sort both sides once a table is above 10 MB.
    return store.rows(at, **{name: F.broadcast(table) for name, table in joined.items()})


def unusable(topology: Topology, store: Store, records: DataFrame, as_of_ms: int | None = None) -> DataFrame:
    """Return the records that cannot be used, each once: those of no event, and those with a row without a key.

    Args:
        topology: has the store.
        store: whose rows are looked at, unless they join tables or streams.
        records: as Spark's Kafka source gives them.
        as_of_ms: see `judged`.

    Returns:
        `partition int, offset bigint, reason string`, and `topic string` where the source's format keeps it.
    """
    frames = judged(topology, records, as_of_ms)
    place = [name for name in place_of(frames[0]) if name != "timestamp"]
    found = reduce(DataFrame.union, [frame.where("reason IS NOT NULL").select(*place, "reason") for frame in frames])
    if store.joined or store.of_join:
        return found
    without_key = rows_of(topology, store, usable(frames[0]), {}).where(~has_key(store))
    of_at = [F.col("at.source" if name == "topic" else f"at.{name}").alias(name) for name in place]
    none = without_key.select(*of_at, F.lit(NO_KEY).alias("reason"))
    return found.union(none).dropDuplicates(place)

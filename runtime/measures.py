"""What an instance can say of itself in numbers: plain values, taken without reading a store through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runtime.stream.freshness import Freshness
from runtime.stream.status import StreamStatus


@dataclass(frozen=True, slots=True)
class CopyMeasures:
    """One copy of a topic partition.

    Attributes:
        store: the name of the store that it fills; a table's is that of its topic.
        partition: of the topic, and of the store.
        restored: it has been filled to the end of its topic once.
        lag: records behind the end of its topic partition as last seen.
        rows: how many rows the store holds, those that are hidden included.
        disk_bytes: the size of its files; None while the store cannot be asked.
    """

    store: str
    partition: int
    restored: bool
    lag: int
    rows: int
    disk_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """One instance at one moment.

    Attributes:
        stream: what the stream thread says of itself; None where the stream task is not held.
        uncommitted: events after the stream's last commit, those that it has read included; None while not known.
        copies: the copies of topic partitions that are held.
        rows: how many rows there are to show, by store and partition; while a partition that is rendered is warming up,
            those rendered so far.
        filling: whether the stores are being filled; they answer with what they have while not.
        unusable: records that the copies could not use, by topic and reason.
        freshness: how long events took to the results of each store.
    """

    stream: StreamStatus | None = None
    uncommitted: int | None = None
    copies: tuple[CopyMeasures, ...] = ()
    rows: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    filling: bool = False
    unusable: Mapping[tuple[str, str], int] = field(default_factory=dict)
    freshness: Mapping[str, Freshness] = field(default_factory=dict)

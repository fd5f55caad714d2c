"""What an instance can say of itself in numbers: plain values, taken without reading a store through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runtime.stores.protocol import StoreName
from runtime.stream.freshness import Freshness
from runtime.stream.status import StreamStatus


@dataclass(frozen=True, slots=True)
class CopyMeasures:
    """One copy of a topic partition.

    Attributes:
        store: which store it fills.
        partition: of the topic, and of the store.
        restored: it has been filled to the end of its topic once.
        lag: records behind the end of its topic partition as last seen.
        rows: how many rows a table's store holds; boards are not counted here.
        disk_bytes: the size of its files; None while the store cannot be asked.
    """

    store: StoreName
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
        uncommitted: score events after the stream's last commit, those that it has read included; None while not known.
        copies: the copies of topic partitions that are held.
        boards: how many boards there are to show, by partition; while a partition is warming up, those rendered so far.
        filling: whether the stores are being filled; they answer with what they have while not.
        unusable: records that the copies could not use, by topic and reason.
        freshness: how long score events took to the boards.
    """

    stream: StreamStatus | None = None
    uncommitted: int | None = None
    copies: tuple[CopyMeasures, ...] = ()
    boards: Mapping[int, int] = field(default_factory=dict)
    filling: bool = False
    unusable: Mapping[tuple[str, str], int] = field(default_factory=dict)
    freshness: Freshness = field(default_factory=Freshness)

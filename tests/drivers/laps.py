"""A small topology for tests of rankings: the fastest lap of each driver on each circuit, and what it has to show."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from runtime import Int64, Json, Key, Min, Ranking, ReadBack, Standing, Store, Stream, Table, Text, Topology
from runtime.copies.copies import Copies
from runtime.declaration import Concern, Whole
from runtime.keys import KeyPair
from runtime.ordered_bytes import falling_double
from runtime.results import Made
from runtime.serving.in_memory import GivenRecord, InMemory
from runtime.serving.ranked_view import RankedView

LAPS = "laps"
CIRCUITS = "circuits"
DRIVERS = "drivers"
STRUCK = "struck"
"""What the stewards have struck: `driver/3`, all laps of a driver, or `time/4`, all that took so long."""


def place(row: Mapping[str, Any]) -> bytes | None:
    """Return the bytes that put the shortest lap first."""
    return None if row["fastest"] is None else falling_double(-row["fastest"])


def show(row: Mapping[str, Any], standing: Standing, tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return a lap with the driver's name and where it stands."""
    name = tables[DRIVERS][row["driver"]]["name"]
    return {"driver": row["driver"], "name": name, "fastest": row["fastest"], **standing._asdict()}


def concerned_by(key: str) -> Concern:
    """Return which laps count otherwise when a row of `STRUCK` comes or goes."""
    what, number = key.split("/")
    if what == "driver":
        return Concern(rows=[(DRIVERS, int(number))])
    return Concern(text=b'"fastest":%d' % int(number))


def counts(_: int, driver: int, values: Mapping[str, Any], struck: frozenset[str]) -> Mapping[str, Any]:
    """Return a lap that counts, or that there is none."""
    is_struck = f"driver/{driver}" in struck or f"time/{values['fastest']}" in struck
    return {"fastest": None} if is_struck else values


def lap_times(read_back: ReadBack | None = None) -> Topology:
    """Return the topology; its rows are read back from their places where it is said how."""
    return Topology(
        "lap-times",
        source=Stream("laps-driven", Json({"circuit": Int64, "driver": Int64, "fastest": Int64})),
        tables=[
            *(Table(topic, Key("id", Int64), {"name": Text}, key_field="id") for topic in (CIRCUITS, DRIVERS)),
            Table(STRUCK, Key("what", Text), {"why": Text}, whole=Whole(frozenset, concerned_by)),
        ],
        stores=[
            Store(
                LAPS,
                topic="fastest-laps",
                key=Key("circuit", Int64) / Key("driver", Int64),
                values={"fastest": Min("fastest")},
                ranking=Ranking(
                    place,
                    show,
                    first_in=CIRCUITS,
                    second_in=DRIVERS,
                    counted_in=STRUCK,
                    counts=counts,
                    read_back=read_back,
                ),
            )
        ],
    )


READ_BACK = ReadBack(rest=lambda row: row["fastest"], row=lambda _, rest: {"fastest": rest})
"""Of laps with the same time the rest is one."""


class Laps:
    """An instance in memory, and the laps and names that it was told.

    Args:
        partitions: how many the store has.
        at_once: how many laps an order has at most that a reader makes.
        at_a_time: how many laps are read together for others.
        read_back: how laps are read back from their places; None: they are read from the store.
        searched_at_once: among more laps those that are struck are looked for in the background.

    Attributes:
        instance: the instance.
        ranked: where laps stand.
        laps: the fastest by circuit and driver.
        names: by table and id.
        struck: what is.
    """

    def __init__(
        self,
        partitions: int = 2,
        at_once: int = 2,
        at_a_time: int = 1,
        read_back: ReadBack | None = None,
        searched_at_once: int = 2,
    ) -> None:
        topology = lap_times(read_back)
        self.instance = InMemory(topology, partitions)
        self.copies: Copies = self.instance.copies
        self.ranked = RankedView(
            topology.store(LAPS),
            self.copies,
            at_once=at_once,
            at_a_time=at_a_time,
            searched_at_once=searched_at_once,
            slice_s=0.0,
        )
        self.copies.follow(LAPS, self.ranked)
        for partition in range(partitions):
            self.ranked.partition_ready(partition)
        self.laps: dict[KeyPair, int] = {}
        self.names: dict[str, dict[int, str]] = {CIRCUITS: {}, DRIVERS: {}}
        self.struck: frozenset[str] = frozenset()

    def drive(self, circuit: int, driver: int, fastest: int | None, generation: int = 1) -> None:
        """Publish the fastest lap of a driver, or that there is none; one of a later generation replaces another."""
        key = KeyPair(circuit, driver)
        copy = self.copies.results[LAPS].copies[self.ranked.partition_for(key)]
        value = None if fastest is None else b'{"fastest":%d}' % fastest
        record = GivenRecord(
            copy.position, f"{circuit}/{driver}".encode(), value, headers=Made(generation).to_headers()
        )
        copy.end = record.offset + 1
        copy.apply([record], 0)
        if fastest is None:
            self.laps.pop(key, None)
        else:
            held = self.laps.get(key, fastest) if generation == 1 else fastest
            self.laps[key] = min(fastest, held)

    def name(self, table: str, row_id: int, name: str | None) -> None:
        """Create, rename or delete (None) a row of a table."""
        copy = self.copies.tables[table].copies[0]
        value = None if name is None else json.dumps({"id": row_id, "name": name}).encode()
        self.instance.read_table(table, 0, [GivenRecord(copy.position, str(row_id).encode(), value)])
        if name is None:
            self.names[table].pop(row_id, None)
        else:
            self.names[table][row_id] = name

    def strike(self, what: str, *, struck: bool = True) -> None:
        """Strike laps, or have them count again."""
        copy = self.copies.tables[STRUCK].copies[0]
        value = b'{"why":"cut a corner"}' if struck else None
        self.instance.read_table(STRUCK, 0, [GivenRecord(copy.position, what.encode(), value)])
        self.struck = self.struck | {what} if struck else self.struck - {what}

    def expected(self, circuit: int, struck: frozenset[str] | None = None) -> list[dict[str, Any]]:
        """Return the laps of a circuit as they have to be shown: by a sort, and by counting.

        Args:
            circuit: which.
            struck: what is; left out, all that has been.
        """
        struck = self.struck if struck is None else struck
        names = self.names[DRIVERS]
        if circuit not in self.names[CIRCUITS]:
            return []
        laps = sorted(
            (ms, key.second)
            for key, ms in self.laps.items()
            if key.first == circuit and key.second in names and not struck & {f"driver/{key.second}", f"time/{ms}"}
        )
        return [
            {
                "driver": driver,
                "name": names[driver],
                "fastest": ms,
                "rank": rank,
                "shared_rank": 1 + len(list(takewhile(lambda lap, ms=ms: lap[0] < ms, laps))),  # type: ignore[misc]
                "of": len(laps),
            }
            for rank, (ms, driver) in enumerate(laps, 1)
        ]

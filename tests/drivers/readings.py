"""A small topology for tests of the runtime: the highest readings of each station, shown with the names of now.

A reading shows while its sensor has a row, a station while it has one itself: so rows look into two tables, one of them
at their own key.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from runtime import Int64, Key, Limits, PlainText, Row, Store, Stream, Table, Tables, Text, Topology, Values
from runtime.errors import InvalidRecord
from runtime.records import json_object
from runtime.results import Made, Result

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PEAKS = "peaks"
PEAKS_TOPIC = "peaks-by-station"
SENSORS = "sensors"
STATIONS = "stations"

NOT_PEAKS = "no peaks"
LIMITS = Limits(default=3, most=10)


class Reading(NamedTuple):
    """One reading; compares by all fields, so that a set of readings holds a repeat once."""

    level: float
    offset: int
    sensor_id: int


Peaks = tuple[Reading, ...]


@dataclass(frozen=True)
class Highest(Values):
    """The highest readings, the highest first: a lattice. These tests read no plan of Spark's, so it has none.

    Attributes:
        kept: how many.
    """

    kept: int

    @property
    def lattice(self) -> bool:
        return True

    @property
    def columns(self) -> Mapping[str, str]:
        return {"level": "double", "sensor_id": "bigint"}

    @property
    def published_schema(self) -> str:
        return "readings array<struct<level double, offset bigint, sensor_id bigint>>"

    def parts(self, rows: DataFrame) -> list[Column]:
        raise NotImplementedError

    def parts_of_published(self, published: DataFrame, keys: Sequence[str]) -> DataFrame:
        raise NotImplementedError

    def aggregates(self) -> list[Column]:
        raise NotImplementedError

    def published(self, generation: int) -> list[Column]:
        raise NotImplementedError

    def parse(self, value: bytes) -> Peaks:
        fields = json_object(value)
        try:
            return tuple(
                Reading(float(level), int(offset), int(sensor)) for level, offset, sensor in fields["readings"]
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InvalidRecord(NOT_PEAKS, repr(error)) from error

    def to_json(self, values: Peaks) -> bytes:
        return json.dumps({"readings": values}, separators=(",", ":")).encode()

    def row(self, value: bytes) -> Mapping[str, Any]:
        return self.row_of(self.parse(value))

    def row_of(self, values: Peaks) -> Mapping[str, Any]:
        return {"readings": values}

    def merge(self, held: Peaks, new: Peaks) -> Peaks:
        return tuple(sorted({*held, *new}, key=lambda reading: (-reading.level, reading.offset))[: self.kept])

    def stands_for(self, record: Peaks, merged: Peaks) -> bool:
        return set(record) >= set(merged)


def with_names(row: Row, tables: Tables) -> list[dict[str, Any]] | None:
    """Return the readings whose sensor there is, of a station that there is."""
    station = tables[STATIONS].get(row["station_id"])
    if station is None:
        return None
    shown: list[dict[str, Any]] = []
    for reading in row["readings"]:
        sensor = tables[SENSORS].get(reading.sensor_id)
        if sensor is not None:
            shown.append({"sensor": sensor["name"], "station": station["name"], "level": reading.level})
            if len(shown) == LIMITS.most:
                break
    return shown


def readings(kept: int = 20, prefix: str = "") -> Topology:
    """Return the topology.

    Args:
        kept: how many readings a station keeps.
        prefix: of the names of its topics.
    """
    names = {"name": Text}
    return Topology(
        name="readings",
        source=Stream(f"{prefix}readings", PlainText()),
        tables=[
            Table(f"{prefix}{SENSORS}", key=Key("sensor_id", Int64), fields=names, key_field="id"),
            Table(f"{prefix}{STATIONS}", key=Key("station_id", Int64), fields=names, key_field="id"),
        ],
        stores=[
            Store(
                PEAKS,
                topic=f"{prefix}{PEAKS_TOPIC}",
                rows=lambda lines: lines,
                key=Key("station_id", Int64),
                values=Highest(kept),
                show=_show(prefix),
                limits=LIMITS,
            )
        ],
    )


def peaks(*of: tuple[int, float], first_offset: int = 0) -> Peaks:
    """Return readings from sensors and levels, highest first, each with an offset of its own."""
    return tuple(Reading(float(level), first_offset + index, sensor_id) for index, (sensor_id, level) in enumerate(of))


def result(*of: tuple[int, float], generation: int = 1, newest_ms: int | None = None) -> Result:
    """Return a result of readings from sensors and levels, highest first."""
    return Result(Made(generation, newest_ms=newest_ms), peaks(*of))


def names_and_levels(served: Iterable[Mapping[str, Any]]) -> list[tuple[str, float]]:
    """Shorten the JSON of a row."""
    return [(reading["sensor"], reading["level"]) for reading in served]


def _show(prefix: str) -> Any:
    def show(row: Row, tables: Tables) -> list[dict[str, Any]] | None:
        return with_names(row, {topic.removeprefix(prefix): table for topic, table in tables.items()})

    return show

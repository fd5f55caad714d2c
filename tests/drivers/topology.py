"""The topology on plain DataFrames: score events and tables in, boards out; no broker, no stream."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from topology.leaderboard.records import Board, Entry

from runtime.stream import snapshots
from topology.leaderboard.query import Tables, leaderboard

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
EPOCH_MS = int(EPOCH.timestamp() * 1000)
Record = tuple[bytes | None, int, int, int]
"""Value, partition, offset, milliseconds from `EPOCH`."""

_RECORDS_SCHEMA = pa.schema(
    {"value": pa.binary(), "partition": pa.int32(), "offset": pa.int64(), "timestamp": pa.timestamp("us", "UTC")}
)
_FLOORS_SCHEMA = pa.schema({"product_id": pa.int64(), "floor": pa.float64()})
_BOARDS_SCHEMA = pa.schema({"key": pa.binary(), "value": pa.binary()})


@dataclass(frozen=True)
class Score:
    """One record of `score-events`; `at_ms` counts from `EPOCH`."""

    score: float
    player_id: int
    product_id: int = 1
    at_ms: int = 0
    partition: int = 0
    offset: int = 0

    @property
    def value(self) -> bytes:
        """The record's value."""
        return json.dumps({"score": self.score, "product_id": self.product_id, "player_id": self.player_id}).encode()

    @property
    def entry(self) -> Entry:
        """The place on a board that this event takes."""
        return Entry(float(self.score), EPOCH_MS + self.at_ms, self.partition, self.offset, self.player_id)


def numbered(scores: Iterable[Score]) -> list[Score]:
    """Give scores one after the other in one partition: offsets and timestamps count up."""
    return [
        Score(score.score, score.player_id, score.product_id, at_ms=number, offset=number)
        for number, score in enumerate(scores)
    ]


def records_frame(session: SparkSession, records: Iterable[Record]) -> DataFrame:
    """Return records with the columns of Spark's Kafka source that a topology reads."""
    rows = [(v, p, o, EPOCH + timedelta(milliseconds=ms)) for v, p, o, ms in records]
    return _frame(session, rows, _RECORDS_SCHEMA)


@dataclass
class TopologyDriver:
    """Runs the topology over what it is given.

    Attributes:
        session: Spark.
        players: the players that exist.
        products: the products that exist.
        depth: the most entries that are served of a board.
        floors: the last kept score of each full board.
        seed: the boards that the generation begins with, as rows of `leaderboard.SEED_SCHEMA`.
    """

    session: SparkSession
    players: Sequence[int] = (1, 2, 3)
    products: Sequence[int] = (1,)
    depth: int = 2
    floors: Mapping[int, float] = field(default_factory=dict)
    seed: DataFrame | None = None

    def boards(self, scores: Iterable[Score]) -> dict[int, Board]:
        """Return the boards of score events."""
        return self.boards_of_records([(s.value, s.partition, s.offset, s.at_ms) for s in scores])

    def boards_of_values(self, values: Iterable[bytes | None]) -> dict[int, Board]:
        """Return the boards of raw record values."""
        return self.boards_of_records([(value, 0, offset, offset) for offset, value in enumerate(values)])

    def boards_of_records(self, records: Iterable[Record]) -> dict[int, Board]:
        """Return the boards of records."""
        boards = self.query(records).collect()
        return {int(row.key): Board.from_json(row.value.encode()) for row in boards}

    def query(self, records: Iterable[Record]) -> DataFrame:
        """Return the topology over records, as a DataFrame of boards."""
        return leaderboard(records_frame(self.session, records), self.tables(), depth=self.depth, generation=1)

    def tables(self) -> Tables:
        """Return the static side of the joins."""
        return Tables(
            players=snapshots.ids(self.session, "player_id", self.players),
            products=snapshots.ids(self.session, "product_id", self.products),
            floors=_frame(self.session, list(self.floors.items()), _FLOORS_SCHEMA) if self.floors else None,
            seed=self.seed,
        )

    def published(self, boards: Mapping[int, Board]) -> DataFrame:
        """Return boards as Spark reads them from `high-scores`."""
        return self.published_values([(str(product).encode(), board.to_json()) for product, board in boards.items()])

    def published_values(self, rows: Sequence[tuple[bytes, bytes | None]]) -> DataFrame:
        """Return keys and values as Spark reads them from `high-scores`."""
        return _frame(self.session, rows, _BOARDS_SCHEMA)


def _frame(session: SparkSession, rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> DataFrame:
    # From Arrow: rows of Python objects would start a Python process for each frame.
    columns: list[Sequence[Any]] = [*zip(*rows, strict=True)] or [() for _ in schema]
    arrays = [pa.array(column, of.type) for column, of in zip(columns, schema, strict=True)]
    return session.createDataFrame(pa.Table.from_arrays(arrays, schema=schema))

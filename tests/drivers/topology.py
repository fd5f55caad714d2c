"""The leaderboard on plain DataFrames: score events and tables in, boards out; no broker, no stream."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from runtime.testing.frames import EPOCH_MS, TOPIC_ID, AnyResult, Records, StoreOnFrames, frame
from topology.leaderboard import boards as published_boards
from topology.leaderboard.board import leaderboard
from topology.leaderboard.hiding import Hiding
from topology.leaderboard.moderation import NOTHING_HIDDEN, Hidden
from topology.leaderboard.places import SPARE_FACTOR, Board, Entry
from topology.leaderboard.query import above_floor

BOARD_KEY = ("product_id",)
"""What tells boards apart."""
_FLOORS_SCHEMA = pa.schema({"product_id": pa.int64(), "floor": pa.float64()})
_IDS_SCHEMA = pa.schema({"id": pa.int64()})


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


@dataclass
class TopologyDriver:
    """Runs the leaderboard over what it is given.

    Attributes:
        session: Spark.
        players: the players that exist.
        products: the products that exist.
        depth: the most entries that are served of a board.
        floors: the last kept score of each full board.
        seed: the boards that the generation begins with, as `topology.leaderboard.boards.seed` returns them.
        generation: the number that boards carry.
        hidden: what is hidden.
    """

    session: SparkSession
    players: Sequence[int] = (1, 2, 3)
    products: Sequence[int] = (1,)
    depth: int = 2
    floors: Mapping[int, float] = field(default_factory=dict)
    seed: DataFrame | None = None
    generation: int = 1
    hidden: Hidden = NOTHING_HIDDEN

    @property
    def kept(self) -> int:
        """How many entries each list of a board keeps."""
        return self.depth * SPARE_FACTOR

    @property
    def store(self) -> StoreOnFrames:
        """The store of boards."""
        players, products = self.tables()
        return StoreOnFrames(
            self.session,
            leaderboard(self.depth),
            self.generation,
            joined={"players": players, "products": products},
            seed=None if self.seed is None else published_boards.parts(self.seed, BOARD_KEY),
            narrow=self._narrow,
        )

    def boards(self, scores: Iterable[Score]) -> dict[int, Board]:
        """Return the boards of score events."""
        return self.boards_of_records([(s.value, s.partition, s.offset, s.at_ms) for s in scores])

    def boards_of_values(self, values: Iterable[bytes | None]) -> dict[int, Board]:
        """Return the boards of raw record values."""
        return self.boards_of_records([(value, 0, offset, offset) for offset, value in enumerate(values)])

    def boards_of_records(self, records: Records) -> dict[int, Board]:
        """Return the boards of records."""
        return {key: result.values for key, result in self.store.results(records).items()}

    def query(self, records: Records) -> DataFrame:
        """Return the topology over records, as a DataFrame of result records."""
        return self.store.query(records)

    def tables(self) -> tuple[DataFrame, DataFrame]:
        """Return the players and the products that exist, `id bigint` each."""
        players, products = ([(each,) for each in ids] for ids in (self.players, self.products))
        return frame(self.session, players, _IDS_SCHEMA), frame(self.session, products, _IDS_SCHEMA)

    def merged(self, boards: Mapping[int, Board]) -> DataFrame:
        """Return boards that are published, as `topology.leaderboard.boards.merged` returns them."""
        return published_boards.merged(self.published(boards), BOARD_KEY)

    def seed_of(self, boards: Mapping[int, Board], *, tables_are_new: bool = False) -> DataFrame:
        """Return what a generation begins with when these boards are published, with the tables of this driver."""
        merged = self.merged(boards)
        return published_boards.seed(
            merged, BOARD_KEY, *self.tables(), self.kept, self.hiding, tables_are_new=tables_are_new
        )

    @property
    def hiding(self) -> Hiding:
        """What is hidden, as Spark has it."""
        return Hiding.of(self.session, self.hidden, TOPIC_ID)

    def published(self, boards: Mapping[int, Board]) -> DataFrame:
        """Return boards that are published, as `runtime.spark.results.published` returns them."""
        return self.published_values([(str(product).encode(), board.to_json()) for product, board in boards.items()])

    def published_values(self, rows: Sequence[tuple[bytes, bytes | None]]) -> DataFrame:
        """Return what is published when `high-scores` holds these keys and values, as the last version wrote them."""
        return self.published_records([(key, value, []) for key, value in rows])

    def published_records(self, records: Sequence[AnyResult]) -> DataFrame:
        """Return what is published when `high-scores` holds these records."""
        return self.store.published(records)

    def _narrow(self, events: DataFrame) -> DataFrame:
        if self.floors:
            events = above_floor(events, frame(self.session, list(self.floors.items()), _FLOORS_SCHEMA), BOARD_KEY)
        return self.hiding.events_marked(events)

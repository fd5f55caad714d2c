"""A topology driver for the stores: feed records, ask queries. No Kafka, no disk, no waiting."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from runtime.serving.queries import Queries
from topology.leaderboard.records import Board, Entry

from runtime.copies.result_copy import BoardCopy
from runtime.copies.status import CopyStatus
from runtime.copies.store_copy import Shared, StoreCopy, UnusableRecords
from runtime.copies.table_copy import TableCopy, TableName
from runtime.kafka.partitioner import partition_for
from runtime.serving.rendered_view import RenderedView
from runtime.stores.memory import MemoryStores
from runtime.stores.protocol import Stores

C = TypeVar("C", bound=StoreCopy)

TOPIC_ID = "c5a1f0de-0000-4000-8000-000000000001"


@dataclass(frozen=True)
class FedRecord:
    """A record as a consumer would give it."""

    offset: int
    key: bytes | None
    value: bytes | None


class StoresDriver:
    """The stores of one instance, filled by hand.

    Args:
        partitions: how many partitions `leader-boards` has; tables have one.
        places: how many entries a merged list of a board keeps.
        stores: where the data is; in memory by default.

    Attributes:
        queries: asks the stores.
        view: what the queries read.
        unusable: the records that could not be used.
    """

    def __init__(self, partitions: int = 4, places: int = 20, stores: Stores | None = None) -> None:
        self.stores: Stores = stores or MemoryStores()
        self.unusable = UnusableRecords()
        self.view = RenderedView(
            self.stores.opened("leader-boards"), self.stores.opened("players"), self.stores.opened("products")
        )
        self.queries = Queries(self.view, self)
        self._partitions = partitions
        shared = Shared(self.view, self.unusable, now_ms=lambda: 0)
        self.boards = [self._board_copy(partition, shared, places) for partition in range(partitions)]
        self.tables = {name: self._table_copy(name, shared) for name in _TABLES}
        for partition in range(partitions):
            self.view.partition_ready(partition)

    @property
    def partition_count(self) -> int:
        return self._partitions

    @property
    def all_partitions(self) -> range:
        return range(self._partitions)

    def copy_status(self, partition: int) -> CopyStatus:
        held = partition < self._partitions
        return CopyStatus(can_answer=held, caught_up=held, lag=0, reason="" if held else "no such partition")

    def name(self, table: TableName, names: dict[int, str | None]) -> None:
        """Create, rename or delete (None) rows of a table."""
        for row_id, name in names.items():
            value = None if name is None else json.dumps({"id": row_id, "name": name}).encode()
            self.feed_table(table, str(row_id).encode(), value)

    def board(self, product_id: int, board: Board | None) -> None:
        """Publish one board, or a delete."""
        value = None if board is None else board.to_json()
        self.feed_board(str(product_id).encode(), value, partition_for(product_id, self._partitions))

    def feed_board(self, key: bytes | None, value: bytes | None, partition: int = 0) -> None:
        """Publish anything to `high-scores`."""
        _feed(self.boards[partition], key, value)

    def feed_table(self, table: TableName, key: bytes | None, value: bytes | None) -> None:
        """Publish anything to a table's topic."""
        _feed(self.tables[table], key, value)

    def get(self, product_id: int, limit: int = 3) -> list[tuple[str, float]] | None:
        """Return a board as names and scores, or None when there is none to show."""
        rendered = self.queries.get(product_id, limit)
        return None if rendered is None else names_and_scores(json.loads(rendered.body))

    def all(self, limit: int = 3) -> dict[int, list[tuple[str, float]]]:
        """Return every board as names and scores, ascending."""
        boards = self.queries.boards(self.all_partitions, limit)
        return {product_id: names_and_scores(json.loads(body)) for product_id, body in boards}

    def _board_copy(self, partition: int, shared: Shared, places: int) -> BoardCopy:
        store = self.stores.open("leader-boards", partition)
        copy = BoardCopy("high-scores", partition, store, shared, lambda: None, places)
        copy.partition_count = self._partitions
        return _begun(copy)

    def _table_copy(self, name: TableName, shared: Shared) -> TableCopy:
        return _begun(TableCopy(name, name, 0, self.stores.open(name, 0), shared, lambda: None))


_TABLES: tuple[TableName, ...] = ("players", "products")


def entries(*scores: tuple[int, float], first_offset: int = 0) -> tuple[Entry, ...]:
    """Return entries from players and scores, each from an event of its own."""
    return tuple(
        Entry(float(score), 1_700_000_000_000 + index, 0, first_offset + index, player_id)
        for index, (player_id, score) in enumerate(scores)
    )


def board(*scores: tuple[int, float], pending: Iterable[tuple[int, float]] = (), generation: int = 1) -> Board:
    """Return a board from players and scores, best first."""
    return Board(generation, entries(*scores), entries(*pending, first_offset=1000))


def names_and_scores(served: list[dict[str, Any]]) -> list[tuple[str, float]]:
    """Shorten the JSON of a board."""
    return [(entry["playerName"], entry["score"]) for entry in served]


def _begun(copy: C) -> C:
    if copy.fill is None:
        copy.begin(TOPIC_ID, 0)
    copy.resume(copy.position)
    return copy


def _feed(copy: StoreCopy, key: bytes | None, value: bytes | None) -> None:
    record = FedRecord(copy.position, key, value)
    copy.end = copy.position + 1
    copy.apply([record], 0)

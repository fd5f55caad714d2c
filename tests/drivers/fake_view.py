"""One instance's rows without stores: a dict that a cluster of instances can share, and copies that tests break."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from runtime.copies.status import CopyStatus, Role
from runtime.declaration import Store
from runtime.errors import StateUnusable
from runtime.keys import KeyType, KeyValue
from runtime.serving.view import Cut, Range, Rendered, View, Watcher, tagged

Entry = dict[str, Any]
Boards = Mapping[int, list[Entry]]
Rows = Mapping[Any, Any]
"""Keys with what is shown of them: lists or objects; an empty one is hidden."""

TOPIC_ID = "c5a1f0de-0000-4000-8000-000000000001"
ABSENT = CopyStatus(can_answer=False, role="standby", lag=0, reason="it holds no copy")
RESTORING = CopyStatus(can_answer=False, role="standby", lag=20, reason="restoring: 20 records to go")


def entry(player_id: int, product_id: int, player_name: str, game_name: str, score: float) -> Entry:
    """Return an entry of a board as it is served."""
    return {
        "playerId": player_id,
        "productId": product_id,
        "playerName": player_name,
        "gameName": game_name,
        "score": score,
    }


def board_of(product_id: int, entries: int = 5) -> list[Entry]:
    """Return a board with falling scores."""
    return [
        entry(player, product_id, f"Player {player} ü", f"Game {product_id}", 1000.0 - player)
        for player in range(entries)
    ]


class FakeView(View):
    """What a view answers, from a dict: by key, or by key and window.

    Args:
        store: what it is declared as.
        rows: what is shown; changes show at once.
        partition_count: how many partitions the store has.

    Attributes:
        statuses: of copies, by partition; tests set them.
        watchers: who is told of changes.
        unreadable: while set, stores that held rows are closed.
    """

    version = 0
    partition_count = 0

    def __init__(self, store: Store, rows: Rows, partition_count: int = 4) -> None:
        self.store = store
        self.shared_rows = rows
        self.partition_count = partition_count
        self.statuses: dict[int, CopyStatus] = {}
        self.watchers: list[Watcher] = []
        self.unreadable = False

    def hold(self, partitions: Iterable[int], role: Role = "active", lag: int = 0, *, current: bool = False) -> None:
        """Have copies that can answer, and that are followed."""
        status = CopyStatus(True, role, lag, "", is_current=current, is_followed=True, topic_id=TOPIC_ID)
        self.statuses |= dict.fromkeys(partitions, status)

    @property
    def key_type(self) -> KeyType:
        """The type of what tells its rows apart."""
        return self.store.row_key

    def partition_for(self, key: KeyValue) -> int:
        """Return the partition of a row."""
        return self.store.partition_for(self.store.owner(key), self.partition_count or 1)

    def status(self, partition: int) -> CopyStatus:
        """Return what was set, or that there is no copy."""
        return self.statuses.get(partition, ABSENT)

    def get(self, key: KeyValue, cut: Cut = None) -> Rendered | None:
        """Return the row of a key, or None when there is none to show."""
        self._read()
        row = self.shared_rows.get(key)
        return tagged(_body(row, _entries(cut))) if row else None

    def rows(self, partitions: Iterable[int], within: Range, cut: Cut = None) -> list[tuple[KeyValue, bytes]]:
        """Return the rows to show, in the order of the range."""
        self._read()
        wanted = set(partitions)
        keys = sorted(
            (
                key
                for key, row in self.shared_rows.items()
                if row
                and self.partition_for(key) in wanted
                and (within.first is None or key >= within.first)
                and (within.end is None or key < within.end)
            ),
            reverse=within.descending,
        )
        return [(key, _body(self.shared_rows[key], _entries(cut))) for key in keys[: within.most]]

    def count(self, partitions: Iterable[int]) -> int:
        """Return how many rows there are to show."""
        return len(self.rows(partitions, Range()))

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Have `watcher` told what tests say has changed."""
        self.watchers.append(watcher)
        return lambda: self.watchers.remove(watcher)

    def advance(self, partition: int, records: int = 1) -> None:
        """Have a copy read on."""
        status = self.status(partition)
        self.statuses[partition] = status._replace(position=status.position + records)

    def changed(self, key: KeyValue | None) -> None:
        """Say that a row has changed, or with None that copies have; call it in the event loop."""
        self.version += 1
        for watcher in self.watchers:
            watcher(key)

    def _read(self) -> None:
        if self.unreadable:
            raise StateUnusable("/state/secret: DB already closed")


def _entries(cut: Cut) -> int | None:
    return cut if isinstance(cut, int) else None


def _body(row: Any, limit: int | None) -> bytes:
    shown = row[:limit] if isinstance(row, list) else row
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode()

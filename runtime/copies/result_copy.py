"""A copy of a partition of `high-scores`: boards, merged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from runtime.copies.store_copy import NO_TOPIC, Record, Shared, StoreCopy
from runtime.errors import InvalidRecord
from runtime.kafka.partitioner import partition_for, partition_of_key
from runtime.records import MISPLACED, parse_id
from runtime.stores.protocol import Store
from topology.leaderboard.records import Board, merge, stands_for


class _Lacking(NamedTuple):
    """The first record of a board that lacked something which the store has.

    Attributes:
        offset: where it lies.
        since_s: when it was read, monotonic.
    """

    offset: int
    since_s: float


class BoardCopy(StoreCopy):
    """A partition of `high-scores` in `leader-boards`: boards are merged.

    Remembers whose last record lacks something that the store has: compaction keeps the last record, so the merged
    board has to be published again. The position that the store remembers stays before such a record until that has
    happened, so that it is not forgotten when this process ends; reading boards again changes nothing.

    Attributes:
        places: how many entries a merged list keeps.
        partition_count: how many partitions the topic has; a key that belongs to another one is not used.
    """

    def __init__(
        self, topic: str, partition: int, store: Store, shared: Shared, on_reset: Callable[[], None], places: int
    ) -> None:
        super().__init__("leader-boards", topic, partition, store, shared, on_reset)
        self.places = places
        self.partition_count = 0
        self._changes: dict[int, Board | None] = {}
        self._values: dict[int, bytes | None] = {}
        self._lacking: dict[int, _Lacking] = {}

    def begin(self, topic_id: str, position: int) -> None:
        """Empty the store; nothing is left that a record could lack."""
        self._lacking = {}
        super().begin(topic_id, position)

    def begin_after_loss(self, topic_id: str, position: int) -> None:
        """Keep the boards, and have them published on the topic again."""
        self.rewind()
        self.position = self.judged_from = position
        self._target = None
        # Outside of the topic until all of them are back: a process that ends before that begins with this again.
        outside = position - 1
        self.store.write({}, self._next_fill(outside)._replace(topic_id=topic_id))
        lacking = _Lacking(outside, time.monotonic())
        self._lacking = {product_id: lacking for product_id, _ in self.store.scan()}

    def misplaced(self, partition_count: int) -> list[int]:
        """Return the products whose boards belong elsewhere when the topic has so many partitions."""
        ids = (product_id for product_id, _ in self.store.scan())
        return [product_id for product_id in ids if partition_for(product_id, partition_count) != self.partition]

    def place(self, partition_count: int) -> None:
        """Take note of how many partitions the topic has, and drop the boards that belong elsewhere by that.

        The filling begins again after it: boards that came here before this was known were taken for misplaced.
        """
        self.partition_count = partition_count
        for product_id in self.misplaced(partition_count):
            self._changes[product_id] = self._values[product_id] = None
            self._lacking.pop(product_id, None)
        if self._changes:
            self._commit()
        self.read_again()

    def read_again(self) -> None:
        """Have the topic read from the beginning, and what it lacks published; the store goes on answering."""
        if self.fill is not None:
            self.store.write({}, self.fill._replace(topic_id=NO_TOPIC))

    def lacking(self, for_s: float) -> Iterator[tuple[int, bytes]]:
        """Yield the boards whose last record has lacked something for a while.

        Args:
            for_s: this long.

        Yields:
            Product ids, and the boards to publish as JSON.
        """
        read_before_s = time.monotonic() - for_s
        for product_id, lacking in list(self._lacking.items()):
            if lacking.since_s <= read_before_s and (value := self.store.get(product_id)) is not None:
                yield product_id, value

    def _use(self, record: Record) -> None:
        product_id = self._product_id(record)
        old = self._changes[product_id] if product_id in self._changes else self._stored(product_id)
        try:
            new = None if record.value is None else Board.from_json(record.value)
        except InvalidRecord:
            if old is not None:
                # Compaction keeps it in place of the board.
                self._lacking.setdefault(product_id, _Lacking(record.offset, time.monotonic()))
            raise
        merged = None if new is None else merge(old, new, self.places)
        if merged != old:
            self._changes[product_id] = merged
            # The record's own bytes when they are the whole board: encoding it again would cost more than the rest.
            self._values[product_id] = record.value if merged is None or merged == new else merged.to_json()
        if merged is not None and self.reached:
            self._shared.freshness.note(old, merged, self._shared.now_ms())
        if new is None or merged is None or merged == new or stands_for(new, merged):
            self._lacking.pop(product_id, None)
        else:
            self._lacking.setdefault(product_id, _Lacking(record.offset, time.monotonic()))

    def _commit(self) -> None:
        earliest_lacking = next(iter(self._lacking.values()), None)
        position = self.position if earliest_lacking is None else earliest_lacking.offset
        self.store.write(self._values, self._next_fill(position))
        changes = self._changes
        self._changes, self._values = {}, {}
        for product_id, board in changes.items():
            self._shared.listener.board_changed(self.partition, product_id, board)

    def _discard(self) -> None:
        # What lacks something goes on lacking it: of a topic that was lost, no record is there to show it again.
        self._changes, self._values = {}, {}

    def _stored(self, product_id: int) -> Board | None:
        value = self.store.get(product_id)
        return None if value is None else Board.from_json(value)

    def _product_id(self, record: Record) -> int:
        key = record.key or b""
        product_id = parse_id(key.decode("utf-8", "replace"))
        if partition_of_key(key, self.partition_count or 1) != self.partition:
            raise InvalidRecord(MISPLACED, f"key {product_id} in partition {self.partition}")
        return product_id

"""A copy of a partition of a result topic: results, merged."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from runtime import results
from runtime.copies.listener import Listener
from runtime.copies.store_copy import NO_TOPIC, Record, Shared, StoreCopy
from runtime.declaration import Store
from runtime.errors import InvalidRecord
from runtime.kafka.partitioner import partition_for, partition_of_key
from runtime.keys import KeyValue
from runtime.records import MISPLACED, NOT_UTF8
from runtime.results import Result
from runtime.stores.protocol import StateStore
from runtime.stream.freshness import Freshness

logger = logging.getLogger(__name__)


class ResultRecord(NamedTuple):
    """A record for a result topic."""

    topic: str
    partition: int
    key: bytes
    value: bytes
    headers: list[tuple[str, bytes]]


class _Came(NamedTuple):
    """A record that came, and is not merged yet.

    Attributes:
        offset: where it lies.
        key: whose result it is.
        encoded: the key, as the store has it.
        new: the result; None is a delete.
        value: the record's.
        is_result: whether it could be used; if not, compaction keeps it in place of one.
        is_news: whether the copy had come to the end of its topic before.
    """

    offset: int
    key: KeyValue
    encoded: bytes
    new: Result | None
    value: bytes | None
    is_result: bool
    is_news: bool


class _Lacking(NamedTuple):
    """The first record of a key that lacked something which the store has.

    Attributes:
        offset: where it lies.
        since_s: when it was read, monotonic.
    """

    offset: int
    since_s: float


class ResultCopy(StoreCopy):
    """A partition of a result topic in a store: what comes is merged into what is held.

    Remembers whose last record lacks something that the store has: compaction keeps the last record, so the merged
    result has to be published again. The position that the store remembers stays before such a record until that has
    happened, so that it is not forgotten when this process ends; reading results again changes nothing.

    Args:
        declared: which store.
        partition: of its topic.
        store: what is filled.
        shared: see there.
        listener: told of what changes.
        freshness: follows the results that change.
        on_reset: called when the store is emptied or opened again.

    Attributes:
        partition_count: how many partitions the topic has; a key that belongs to another one is not used.
    """

    def __init__(
        self,
        declared: Store,
        partition: int,
        store: StateStore,
        shared: Shared,
        listener: Listener,
        freshness: Freshness,
        on_reset: Callable[[], None],
    ) -> None:
        super().__init__(declared.name, declared.topic, partition, store, shared, on_reset)
        self.partition_count = 0
        self._values = declared.record
        self._key_type = declared.key.type
        self._listener = listener
        self._freshness = freshness
        self._came: list[_Came] = []
        self._lacking: dict[KeyValue, _Lacking] = {}

    def begin(self, topic_id: str, position: int) -> None:
        """Empty the store; nothing is left that a record could lack."""
        self._lacking = {}
        super().begin(topic_id, position)

    def begin_after_loss(self, topic_id: str, position: int) -> None:
        """Keep the results, and have them published on the topic again."""
        self.rewind()
        self.position = self.judged_from = position
        self._target = None
        # Outside of the topic until all of them are back: a process that ends before that begins with this again.
        outside = position - 1
        self.store.write({}, self._next_fill(outside)._replace(topic_id=topic_id, begin=position))
        lacking = _Lacking(outside, time.monotonic())
        self._lacking = dict.fromkeys(self._keys(), lacking)

    def begins_at(self, begin: int) -> Iterator[None]:
        fill = self.store.fill
        if fill is not None and begin > fill.begin:
            logger.warning(
                "topic %s: Kafka has deleted the records before offset %d of partition %d: results that lay there are "
                "published again",
                self.topic, begin, self.partition,
            )  # fmt: skip
            self.store.write({}, fill._replace(begin=begin))
            self.read_again()
        yield from ()

    def misplaced(self, partition_count: int) -> list[KeyValue]:
        """Return the keys that belong elsewhere when the topic has so many partitions."""
        return [key for key in self._keys() if partition_for(key, partition_count) != self.partition]

    def place(self, partition_count: int) -> None:
        """Take note of how many partitions the topic has, and drop the results that belong elsewhere by that.

        The filling begins again after it: results that came here before this was known were taken for misplaced.
        """
        self.partition_count = partition_count
        misplaced = self.misplaced(partition_count)
        for key in misplaced:
            self._lacking.pop(key, None)
        if misplaced:
            to_store = {self._key_type.encode(key): None for key in misplaced}
            self._write(dict.fromkeys(misplaced), to_store, -len(misplaced))
        self.read_again()

    def read_again(self) -> None:
        """Have the topic read from the beginning, and what it lacks published; the store goes on answering."""
        if self.fill is not None:
            self.store.write({}, self.fill._replace(topic_id=NO_TOPIC))

    def lacking(self, for_s: float) -> Iterator[ResultRecord]:
        """Yield the results to publish again: those whose last record has lacked something for so long."""
        read_before_s = time.monotonic() - for_s
        for key, lacking in list(self._lacking.items()):
            if lacking.since_s <= read_before_s and (record := self.record(key, self.partition)) is not None:
                yield record

    def record(self, key: KeyValue, partition: int) -> ResultRecord | None:
        """Return the record that publishes a result again, None when the store has no such key.

        Args:
            key: whose result.
            partition: of the topic, for which it is.
        """
        stored = self.store.get(self._key_type.encode(key))
        if stored is None:
            return None
        text, headers = self._key_type.text(key), results.made_of(stored).to_headers()
        return ResultRecord(self.topic, partition, text.encode(), results.values_of(stored), headers)

    def _use(self, record: Record) -> None:
        key, encoded = self._key(record)
        value = record.value
        try:
            new = None if value is None else results.parse(self._values, value, record.headers)
        except InvalidRecord:
            self._came.append(_Came(record.offset, key, encoded, None, value, is_result=False, is_news=False))
            raise
        self._came.append(_Came(record.offset, key, encoded, new, value, is_result=True, is_news=self.reached))

    def _commit(self) -> None:
        came, self._came = self._came, []
        # Together: to look up one by one takes twice as long.
        stored = dict.fromkeys(each.encoded for each in came)
        stored.update(zip(stored, self.store.get_each(list(stored)), strict=True))
        now_ms = self._shared.now_ms()
        held_now: dict[KeyValue, Result | None] = {}
        changes: dict[KeyValue, Result | None] = {}
        to_store: dict[bytes, bytes | None] = {}
        added = 0
        for each in came:
            key = each.key
            held = held_now[key] if key in held_now else self._held(stored[each.encoded])
            if not each.is_result:
                held_now[key] = held
                if held is not None:
                    self._lacks(each)
                continue
            new = each.new
            merged = held_now[key] = None if new is None else results.merge(self._values, held, new)
            if merged != held:
                changes[key] = merged
                to_store[each.encoded] = None if merged is None else self._bytes_of(merged, new, each.value)
                added += (held is None) - (merged is None)
            if merged is not None and each.is_news:
                self._freshness.note(held, merged, now_ms)
            if new is None or merged is None or merged is new or results.stands_for(self._values, new, merged):
                self._lacking.pop(key, None)
            else:
                self._lacks(each)
        self._write(changes, to_store, added)

    def _lacks(self, came: _Came) -> None:
        self._lacking.setdefault(came.key, _Lacking(came.offset, time.monotonic()))

    def _write(
        self, changes: Mapping[KeyValue, Result | None], to_store: Mapping[bytes, bytes | None], added: int
    ) -> None:
        """Write what changes, and tell of it.

        Args:
            changes: results by key; None is a delete.
            to_store: the same as the store has it.
            added: how many keys are more than before.
        """
        earliest_lacking = next(iter(self._lacking.values()), None)
        position = self.position if earliest_lacking is None else earliest_lacking.offset
        fill = self._next_fill(position)
        self.store.write(to_store, fill._replace(rows=fill.rows + added))
        for key, result in changes.items():
            self._listener.row_changed(self.partition, key, result)

    def _discard(self) -> None:
        # What lacks something goes on lacking it: of a topic that was lost, no record is there to show it again.
        self._came = []

    def _held(self, stored: bytes | None) -> Result | None:
        return None if stored is None else results.from_stored(self._values, stored)

    def _bytes_of(self, merged: Result, new: Result | None, value: bytes | None) -> bytes:
        # The record's own bytes when they are all of it: to encode it again would cost more than the rest.
        is_whole = merged is new or (new is not None and merged.values == new.values)
        return results.to_stored(self._values, merged, value if is_whole else None)

    def _keys(self) -> Iterator[KeyValue]:
        return (self._key_type.decode(encoded) for encoded, _ in self.store.scan())

    def _key(self, record: Record) -> tuple[KeyValue, bytes]:
        """Return the key of a record, as Python has it and as the store does."""
        given = record.key or b""
        # What is no UTF-8 becomes a text that is no key of any type, and that cannot be encoded.
        key = self._key_type.parse(given.decode("utf-8", "surrogateescape"))
        try:
            encoded = self._key_type.encode(key)
        except UnicodeEncodeError as error:
            raise InvalidRecord(NOT_UTF8, error) from error
        if partition_of_key(given, self.partition_count or 1) != self.partition:
            raise InvalidRecord(MISPLACED, f"key {key} in partition {self.partition}")
        return key, encoded

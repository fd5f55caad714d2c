"""A copy of a partition of a result topic: results, merged."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from runtime import results
from runtime.copies.listener import Listener
from runtime.copies.store_copy import NO_TOPIC, Record, Shared, StoreCopy
from runtime.declaration import Store
from runtime.errors import InvalidRecord
from runtime.kafka.partitioner import partition_of_key
from runtime.keys import Int64, KeyValue, first_bytes
from runtime.records import MISPLACED, NOT_UTF8
from runtime.results import Result
from runtime.stores.added_keys import AddedKeys
from runtime.stores.protocol import StateStore
from runtime.stream.freshness import Freshness
from runtime.windows import STREAM_TIME_KEY, Session, stream_time_of

logger = logging.getLogger(__name__)

_DATE_BYTES: Final = 8
"""When a window ends comes first in the index of a store with windows, the key of the row behind it."""


class ResultRecord(NamedTuple):
    """A record for a result topic; without a value it deletes the result."""

    topic: str
    partition: int
    key: bytes
    value: bytes | None
    headers: list[tuple[str, bytes]]


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
        stream_ms: how far the events of the store have come, in milliseconds from 1970; None while nobody has told.
        last_delete: the offset of the last delete that was published here for a row that was let go; -1 for none.
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
        self.stream_ms: int | None = None
        self._declared = declared
        self._window = declared.window
        self._by_part = declared.by_part
        self._keeps_before = declared.ranking is not None
        # Of a session the end may come later; of all others the entry in the index is that of their key for good.
        self._entries_move = isinstance(declared.window, Session)
        self._key_type = declared.row_key
        self._listener = listener
        self._freshness = freshness
        self._changes: dict[KeyValue, Result | None] = {}
        # Those of them whose values have changed meanwhile.
        self._different: set[KeyValue] = set()
        self._before: dict[KeyValue, Result | None] = {}
        # Keys whose results were taken without a look at what they say.
        self._filled: list[KeyValue] = []
        self._to_store: dict[bytes, bytes | None] = {}
        self._entries: dict[bytes, bool] = {}
        self._added = 0
        self._maybe_held: AddedKeys | None = None
        self._lacking: dict[KeyValue, _Lacking] = {}
        # By the begin of a range of the index: every row before this place of it has been named to be let go. RocksDB
        # would look through all that was deleted there, again and again.
        self._named_to: dict[bytes, bytes] = {}
        self.last_delete = -1

    @property
    def awaits_deletes(self) -> bool:
        """Whether rows that were let go are here still, since it has not read that they are gone."""
        return self.position <= self.last_delete

    def rewind(self) -> None:
        """Go back to what the store remembers, and name the rows again that are let go."""
        self._named_to, self.last_delete = {}, -1
        super().rewind()
        # Their records are read again, since the position that a store remembers is behind none of them. What the topic
        # has lost has no record.
        begin = 0 if self.fill is None else self.fill.begin
        self._lacking = {key: lacking for key, lacking in self._lacking.items() if lacking.offset < begin}

    def begin(self, topic_id: str, position: int) -> None:
        """Empty the store; nothing is left that a record could lack."""
        self._lacking, self._named_to, self.last_delete = {}, {}, -1
        super().begin(topic_id, position)
        self._maybe_held = AddedKeys()

    def begin_after_loss(self, topic_id: str, position: int) -> None:
        """Keep the results, and have them published on the topic again."""
        self.rewind()
        self.position = self.judged_from = position
        self._target = None
        # Outside of the topic until all of them are back: a process that ends before that begins with this again.
        outside = position - 1
        fill = self._next_fill(outside)._replace(topic_id=topic_id, begin=position, current_at_ms=self._shared.now_ms())
        self.store.write({}, fill)
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
            # As `read_again`, in one write with the begin: it is noticed once.
            self.store.write({}, fill._replace(begin=begin, topic_id=NO_TOPIC))
        yield from ()

    def misplaced(self, partition_count: int) -> list[KeyValue]:
        """Return the keys that belong elsewhere when the topic has so many partitions."""
        return [key for key in self._keys() if self._home(key, partition_count) != self.partition]

    def place(self, partition_count: int) -> None:
        """Take note of how many partitions the topic has, and drop the results that belong elsewhere by that.

        The filling begins again after it: results that came here before this was known were taken for misplaced.
        """
        self.partition_count = partition_count
        for key in self.misplaced(partition_count):
            encoded = self._key_type.encode(key)
            self._store(key, encoded, self._stored(encoded), None, None)
            self._lacking.pop(key, None)
        if self._changes:
            self._commit()
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

    def let_go(self) -> Iterator[ResultRecord]:
        """Yield the records that delete the rows which have passed.

        Of windows those that stream time has left behind by what they are kept for, of others those that the clock
        has. The oldest come first, and none that it has named before, but the last one: see `name_again`.
        """
        for begin, end in self._passed():
            for entry in self.store.indexed(self._named_to.get(begin, begin), end):
                self._named_to[begin] = entry
                key = self._key_of(entry)
                yield ResultRecord(self.topic, self.partition, self._key_type.text(key).encode(), None, [])

    def name_again(self) -> None:
        """Have `let_go` begin with the oldest rows again: those that it named could not be deleted."""
        self._named_to = {}

    def _passed(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the ranges of the index whose rows have passed."""
        if self._window is not None and self.stream_ms is not None:
            # What ends just behind the last one is kept.
            yield b"", Int64.encode(self._window.last_let_go(self.stream_ms) + 1)
        lapsing = self._declared.lapsing
        if lapsing is not None:
            second = self._declared.key.parts[1].type
            for begin, end in lapsing.passed():
                yield first_bytes(second, begin), first_bytes(second, end)

    def _key_of(self, entry: bytes) -> KeyValue:
        """Return the key of an entry of the index: see `_entry`."""
        return (
            self._declared.key.unturned(entry) if self._window is None else self._key_type.decode(entry[_DATE_BYTES:])
        )

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
        if record.key == STREAM_TIME_KEY and self._window is not None:
            told_ms = stream_time_of(record.headers, self._declared.version)
            if told_ms is not None:
                self.stream_ms = max(told_ms, self.stream_ms or 0)
            return
        key, encoded = self._key(record)
        held = self._held(key, encoded)
        if held is None and self._is_filled_anew and record.value is not None:
            # In short what follows, for a key that is new: so are nearly all while a store is filled.
            unread = results.stored_unread(self._values, record.value, record.headers)
            if unread is not None:
                # It may have been deleted in this slice: then the delete is no longer its state.
                self._changes.pop(key, None)
                self._filled.append(key)
                self._to_store[encoded] = unread
                self._added += 1
                if self._by_part:
                    self._entries[self._declared.key.turned(key)] = True
                return
        try:
            new = None if record.value is None else results.parse(self._values, record.value, record.headers)
        except InvalidRecord:
            if held is not None:
                # Compaction keeps it in place of the result.
                self._lacks(key, record)
            raise
        if held is not None and new is None and results.outlives(held.made, record.headers):
            # Compaction keeps the delete in place of the result.
            self._lacks(key, record)
            return
        merged = new if new is None or held is None else results.merge(self._values, held, new)
        if merged is not held and (merged is new or merged != held):
            stored = None if merged is None else self._bytes_of(merged, new, record.value)
            self._store(key, encoded, held, merged, stored)
        if merged is not None and self.reached:
            self._freshness.note(held, merged, self._shared.now_ms())
        if new is None or merged is None or merged is new or results.stands_for(self._values, new, merged):
            self._lacking.pop(key, None)
        else:
            self._lacks(key, record)

    def _lacks(self, key: KeyValue, record: Record) -> None:
        """Note that the last record of a key lacks something which the store has, from the first that does on."""
        self._lacking.setdefault(key, _Lacking(record.offset, time.monotonic()))

    def _held(self, key: KeyValue, encoded: bytes) -> Result | None:
        if key in self._changes:
            return self._changes[key]
        if self._maybe_held is not None:
            if not self._maybe_held.add(encoded):
                return None
            if self._maybe_held.is_full or self.restored:
                self._maybe_held = None
        unread = self._to_store.get(encoded)
        return self._stored(encoded) if unread is None else results.from_stored(self._values, unread)

    @property
    def _is_filled_anew(self) -> bool:
        """Whether nobody looks yet at what the results say: the store has never been complete."""
        return self._window is None and not self.restored and not self.reached

    def _store(
        self, key: KeyValue, encoded: bytes, held: Result | None, merged: Result | None, stored: bytes | None
    ) -> None:
        """Have a result written, or deleted when it is None, with this slice.

        Args:
            key: whose it is.
            encoded: the key as the store has it.
            held: the result before.
            merged: the result as it is now.
            stored: that as the store keeps it.
        """
        if self._keeps_before:
            self._before.setdefault(key, held)
        self._changes[key] = merged
        if held is None or merged is None or held.values != merged.values:
            self._different.add(key)
        self._to_store[encoded] = stored
        self._added += (held is None) - (merged is None)
        if self._by_part and (held is None or merged is None or self._entries_move):
            before, now = self._entry(key, encoded, held), self._entry(key, encoded, merged)
            if before is not None and before != now:
                self._entries[before] = False
            if now is not None and before != now:
                self._entries[now] = True
                for begin, named in self._named_to.items():
                    if begin <= now < named:
                        self._named_to[begin] = now

    def _entry(self, key: KeyValue, encoded: bytes, result: Result | None) -> bytes | None:
        """Return what is in the index of a result, None when there is none: when its window ends, or its second part.

        By the one the windows are found that are let go, by the other the rows of a part that is the second of keys.
        """
        if result is None:
            return None
        if self._window is None:
            return self._declared.key.turned(key)
        return Int64.encode(self._window.end_ms(key.start_ms, result.values)) + encoded

    def _home(self, key: KeyValue, partitions: int) -> int:
        return self._declared.partition_for(self._declared.owner(key), partitions)

    def _bytes_of(self, merged: Result, new: Result | None, value: bytes | None) -> bytes:
        # The record's own bytes when they are all of it: to encode it again would cost more than the rest.
        is_whole = merged is new or (new is not None and merged.values == new.values)
        return results.to_stored(self._values, merged, value if is_whole else None)

    def _commit(self) -> None:
        earliest_lacking = next(iter(self._lacking.values()), None)
        position = self.position if earliest_lacking is None else earliest_lacking.offset
        fill = self._next_fill(position)
        self.store.write(self._to_store, fill._replace(rows=fill.rows + self._added), self._entries)
        changes = {key: result for key, result in self._changes.items() if key in self._different}
        before, filled = self._before, self._filled
        self._discard()
        if filled:
            self._listener.rows_filled(self.partition, filled)
        if changes:
            self._listener.rows_changed(self.partition, changes, before)

    def _discard(self) -> None:
        # What lacks something goes on lacking it, unless it is read again: see `rewind`.
        self._changes, self._before, self._to_store, self._entries, self._added = {}, {}, {}, {}, 0
        self._different, self._filled = set(), []

    def _keys(self) -> Iterator[KeyValue]:
        return (self._key_type.decode(encoded) for encoded, _ in self.store.scan())

    def _stored(self, encoded: bytes) -> Result | None:
        stored = self.store.get(encoded)
        return None if stored is None else results.from_stored(self._values, stored)

    def _key(self, record: Record) -> tuple[KeyValue, bytes]:
        """Return the key of a record, as Python has it and as the store does."""
        given = record.key or b""
        # What is no UTF-8 becomes a text that is no key of any type, and that cannot be encoded.
        key = self._key_type.parse(given.decode("utf-8", "surrogateescape"))
        try:
            encoded = self._key_type.encode(key)
        except UnicodeEncodeError as error:
            raise InvalidRecord(NOT_UTF8, error) from error
        partitions = self.partition_count or 1
        home = self._home(key, partitions) if self._by_part else partition_of_key(given, partitions)
        if home != self.partition:
            raise InvalidRecord(MISPLACED, f"key {key} in partition {self.partition}")
        return key, encoded

"""A global table: every instance holds all of its partitions."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from runtime.declaration import Table
from runtime.kafka.partitioner import partition_for
from runtime.keys import KeyValue
from runtime.stores.added_keys import AddedKeys
from runtime.stores.protocol import Fill, StateStore
from runtime.stores.table_rows import TableRow, certain_fields, is_certain, newest, newest_fields

logger = logging.getLogger(__name__)

_BETWEEN: Final = 2
"""Rows for each key that are gone through to find some keys. To look one up takes as long as five to ten of them."""


class TableChanges(NamedTuple):
    """How many keys of a table have come to exist and ceased to, since the process began; both only grow."""

    added: int
    deleted: int


class GlobalTable:
    """Rows by key: of those that partitions have of a key, the newest counts; see `runtime.stores.table_rows`.

    Args:
        table: what it is declared as.
        stores: the table's stores by partition; a live view.
    """

    def __init__(self, table: Table, stores: Mapping[int, StateStore]) -> None:
        self.table = table
        self._stores = stores
        self._encode = table.key.type.encode
        self._said: set[str] = set()
        self._added: AddedKeys | None = AddedKeys()
        self._rows: dict[KeyValue, Mapping[str, Any]] | None = None
        self._whole: Any = None

    def get(self, key: KeyValue) -> Mapping[str, Any] | None:
        """Return the row of a key, its fields by name, or None when there is no such row."""
        if key is None:
            # As a column may be that a row looks up with.
            return None
        encoded = self._encode(key)
        value = self._found(key, encoded)
        if value is None:
            return None
        fields = certain_fields(value)
        return newest_fields(self.rows_of_each([encoded])[encoded]) if fields is None else fields

    def has(self, key: KeyValue) -> bool:
        """Return whether there is a row of a key."""
        value = self._found(key, self._encode(key))
        return value is not None and (is_certain(value) or self.get(key) is not None)

    def those_there(self, keys: Sequence[bytes]) -> Collection[bytes]:
        """Return those of some keys that have a row.

        Where the table has few others between them, they are found by going through it, which takes a fifth of the
        time of a look-up each.

        Args:
            keys: encoded, in their order, each once.
        """
        if not keys:
            return ()
        decode, most = self.table.key.type.decode, _BETWEEN * len(keys)
        found: list[tuple[bytes, bytes]] = []
        for store in self._stores.values():
            found += islice(store.scan(keys[0], keys[-1] + b"\x00"), most + 1 - len(found))
        if len(found) > most:
            return {key for key in keys if self.has(decode(key))}
        there = {key for key, value in found if is_certain(value) or self.get(decode(key)) is not None}
        return there.intersection(keys)

    def _found(self, key: KeyValue, encoded: bytes) -> bytes | None:
        """Return what a store has of a key, which is all there is of it where that is certain."""
        # Not every producer partitions as Java's do, so a row may lie anywhere; where Java's put it is the first guess.
        home = self._stores.get(partition_for(key, len(self._stores) or 1))
        value = None if home is None else home.get(encoded)
        if value is None:
            others = (store.get(encoded) for store in self._stores.values() if store is not home)
            value = next((found for found in others if found is not None), None)
        return value

    @property
    def whole(self) -> Any:
        """The value that the table is held as; only of tables that are held whole."""
        assert self.table.whole is not None, "it is held by key"
        if self._rows is None:
            self._rows = dict(self.items())
            self._whole = self.table.whole.make(self._rows)
        return self._whole

    def changed(self, keys: Iterable[KeyValue]) -> None:
        """Have the value that the table is held as follow rows that came to exist, changed, or were deleted."""
        if self.table.whole is None or self._rows is None:
            return
        for key in keys:
            row = self.get(key)
            if row is None:
                self._rows.pop(key, None)
            else:
                self._rows[key] = row
        self._whole = self.table.whole.make(self._rows)

    def reset(self) -> None:
        """Have the value that the table is held as made anew when it is asked for."""
        self._rows = None

    def time_ms(self, key: KeyValue) -> int | None:
        """Return the timestamp of the record that the row of a key is of, in milliseconds from 1970; None without."""
        encoded = self._encode(key)
        rows = self.rows_of_each([encoded]).get(encoded, {})
        partition = newest(rows)
        return None if partition is None else rows[partition].time_ms

    def keys(self) -> Iterator[KeyValue]:
        """Yield every key that exists, in no particular order; one that lies in two partitions may come twice."""
        return (key for key, value in self._stored() if is_certain(value) or self.get(key) is not None)

    def items(self) -> Iterator[tuple[KeyValue, Mapping[str, Any]]]:
        """Yield every key that exists with its row, as `keys` does."""
        for key, value in self._stored():
            row = certain_fields(value) or self.get(key)
            if row is not None:
                yield key, row

    def fills(self) -> list[Fill | None]:
        """Return how far each of its stores is; the same again when no row has changed."""
        return [store.fill for store in self._stores.values()]

    def known_count(self) -> int | None:
        """Return how many keys exist, or None where one may lie in two partitions or is remembered as deleted."""
        fills = [fill for fill in self.fills() if fill is not None]
        return None if any(fill.uncertain for fill in fills) else sum(fill.rows for fill in fills)

    def count(self) -> int:
        """Return how many keys exist; goes through all of them."""
        certain, others = 0, set[bytes]()
        for store in self._stores.values():
            for key, value in store.scan():
                if is_certain(value):
                    certain += 1
                else:
                    others.add(key)
        decode = self.table.key.type.decode
        return certain + sum(self.get(decode(key)) is not None for key in others)

    def rows_of_each(self, keys: Sequence[bytes], but: int | None = None) -> dict[bytes, dict[int, TableRow]]:
        """Return what each partition has of keys, deletes as well; keys that lie nowhere are left out.

        Args:
            keys: encoded.
            but: a partition that is not looked into.
        """
        found: dict[bytes, dict[int, TableRow]] = {}
        for partition, store in self._stores.items():
            if partition != but:
                for key, value in zip(keys, store.get_each(keys), strict=True):
                    if value is not None:
                        found.setdefault(key, {})[partition] = TableRow.decode(value)
        return found

    def opened(self, store: StateStore) -> None:
        """Take note of one of its stores that may hold keys which `maybe_held` was never asked for."""
        if store.fill is not None:
            self._added = None

    def maybe_held(self, keys: Sequence[bytes]) -> Sequence[bytes]:
        """Return the keys that a partition may have; about the others it is certain that none does.

        Args:
            keys: encoded. Whatever is written has been asked for here before.
        """
        if self._added is not None and (self._added.is_full or self._is_filled):
            self._added = None
        return keys if self._added is None else [*filter(self._added.add, keys)]

    def mark_elsewhere(self, rows: Mapping[int, Mapping[bytes, TableRow]]) -> None:
        """Note of rows, by partition and key, that another partition has the key as well.

        Raises:
            StateUnusable: a store cannot be written.
        """
        for partition, marked in rows.items():
            store = self._stores[partition]
            if store.fill is None:
                raise RuntimeError("rows before the filling began")
            values = {key: row._replace(is_elsewhere=True).encode() for key, row in marked.items()}
            live = sum(row.fields is not None for row in marked.values())
            store.write(values, store.fill._replace(uncertain=store.fill.uncertain + live))

    def was_current_at(self, time_ms: int) -> bool:
        """Return whether every partition was read to its end at that time or later."""
        fills = (store.fill for store in self._stores.values())
        return all(fill is not None and fill.restored and fill.current_at_ms >= time_ms for fill in fills)

    def note(self, key: bytes, rows: Mapping[int, TableRow]) -> None:
        """Say in the log, once, what cannot be told apart, and which delete Kafka forgets before what it deletes.

        Args:
            key: encoded.
            rows: the rows of the key by partition, of at least two.
        """
        partition = newest(rows)
        others = {other: row for other, row in rows.items() if other != partition}
        assert partition is not None, "of at least two"
        row, key_text = rows[partition], self.table.key.type.text(self.table.key.type.decode(key))
        tied = [other for other, each in others.items() if each.time_ms == row.time_ms and each.fields != row.fields]
        if tied:
            self._say_once(
                "of one time",
                "topic %s: two last records of key %s, in partitions %d and %d, have the same time, %d: the one in the "
                "higher partition counts, at every instance. Send the row again to settle it, and have all producers "
                "partition alike. This is said once a table",
                self.table.topic, key_text, tied[0], partition, row.time_ms,
            )  # fmt: skip
        hidden = [other for other, each in others.items() if each.fields is not None]
        if row.fields is None and hidden:
            self._say_once(
                "a delete elsewhere",
                "topic %s: key %s is deleted in partition %d, and partition %d has an older row of it. Kafka forgets "
                "the delete after delete.retention.ms and keeps the row: an instance that is filled later shows it "
                "again. Delete key %s in partition %d as well, and have all producers partition alike. This is said "
                "once a table",
                self.table.topic, key_text, partition, hidden[0], key_text, hidden[0],
            )  # fmt: skip

    @property
    def _is_filled(self) -> bool:
        return all(fill is not None and fill.restored for fill in self.fills())

    def _stored(self) -> Iterator[tuple[KeyValue, bytes]]:
        decode = self.table.key.type.decode
        return ((decode(encoded), value) for store in self._stores.values() for encoded, value in store.scan())

    def _say_once(self, what: str, message: str, *args: object) -> None:
        if what not in self._said:
            self._said.add(what)
            logger.warning(message, *args)

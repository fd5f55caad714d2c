"""A copy of a partition of a global table: rows."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from runtime.copies.store_copy import SLICE_S, Record, Shared, StoreCopy
from runtime.keys import KeyValue
from runtime.stores.global_table import GlobalTable
from runtime.stores.protocol import Fill, StateStore
from runtime.stores.table_rows import TableRow, is_certain, newest_fields, offset_of, stored
from runtime.table_records import parse_row

logger = logging.getLogger(__name__)

Changed = Callable[[Collection[KeyValue]], None]
"""Told the keys of rows that came to exist, have other fields, or were deleted."""

_NO_TIME: Final = -1
_TIDY_EVERY_S: Final = 600.0


class TableCopy(StoreCopy):
    """A partition of a table: the last record of a key counts here, and the newest of all partitions.

    Args:
        table: the table that it is a partition of.
        partition: of its topic.
        store: what is filled.
        shared: see there.
        changed: told of what changes.
        on_reset: called when the store is emptied or opened again.

    Attributes:
        added: how many keys have come to exist, ever growing.
        deleted: how many keys have ceased to exist, ever growing.
        revision: how many rows have changed in any way, ever growing.
        is_addition: its partition was added to a topic whose table could already answer.
    """

    def __init__(
        self,
        table: GlobalTable,
        partition: int,
        store: StateStore,
        shared: Shared,
        changed: Changed,
        on_reset: Callable[[], None],
    ) -> None:
        topic = table.table.topic
        super().__init__(topic, topic, partition, store, shared, on_reset)
        self.added = 0
        self.deleted = 0
        self.revision = 0
        self.is_addition = False
        self._table = table
        self._key_type = table.table.key.type
        self._changed = changed
        self._rows: dict[bytes, bytes | None] = {}
        self._tidy_from = b""
        self._tidy_at_s = 0.0
        table.opened(store)

    def begin(self, topic_id: str, position: int) -> None:
        # Only while it is new does it hold no answer back; once emptied, its rows are missed.
        self.is_addition = self.is_addition and self.fill is None
        super().begin(topic_id, position)

    def begins_at(self, begin: int) -> Iterator[None]:
        lost, going_on, epoch = 0, b"", self.epoch
        while (fill := self.store.fill) is not None and begin > fill.begin and self.epoch == epoch:
            found, going_on = self._next(going_on, lambda value: offset_of(value) < begin)
            lost += sum(row.fields is not None for row in found.values())
            self._write(dict.fromkeys(found), fill if going_on else fill._replace(begin=begin))
            yield
        if lost:
            logger.warning(
                "topic %s: Kafka has deleted the records before offset %d of partition %d: %d rows are gone with "
                "them, here as at an instance that is filled now. Send them again, and see to it that the topic "
                "has cleanup.policy=compact",
                self.topic, begin, self.partition, lost,
            )  # fmt: skip

    def tidy(self, delete_retention_ms: int) -> None:
        """Forget deletes that hide nothing any more; looks at a part of the store, for about `SLICE_S`.

        An older row in another partition, if it comes, comes before Kafka itself forgets the delete: a copy that is
        filled later knows as much.
        """
        fill = self.store.fill
        if self.dropped or fill is None or not fill.uncertain or time.monotonic() < self._tidy_at_s:
            return
        rows, self._tidy_from = self._next(self._tidy_from, lambda value: not is_certain(value))
        if not self._tidy_from:
            self._tidy_at_s = time.monotonic() + _TIDY_EVERY_S
        past = {key for key, row in rows.items() if self._is_past(key, row, delete_retention_ms)}
        # The others are written as they are, which finds out where else they lie.
        kept = {key: None if key in past else row._replace(is_elsewhere=False).encode() for key, row in rows.items()}
        self._write(kept, fill)

    def _use(self, record: Record) -> None:
        key, fields = parse_row(self._table.table, record.key, record.value)
        time_ms = _NO_TIME if record.timestamp is None else record.timestamp
        self._rows[self._key_type.encode(key)] = stored(fields, time_ms, record.offset)

    def _commit(self) -> None:
        self._write(self._rows, self._next_fill(self.position))
        # Not before: what could not be written is not to be passed by a later write.
        self._rows = {}

    def _discard(self) -> None:
        self._rows = {}

    def _write(self, rows: Mapping[bytes, bytes | None], fill: Fill) -> None:
        """Put rows as a store keeps them, or remove those that are None; tell of keys whose fields are others then."""
        held_rows, others_of = self._held(list(rows))
        values: dict[bytes, bytes | None] = {}
        changed: list[bytes] = []
        added = deleted = 0
        unmarked: dict[int, dict[bytes, TableRow]] = {}
        count, uncertain = fill.rows, fill.uncertain
        for key, wanted in rows.items():
            held, others = held_rows.get(key), others_of.get(key)
            if held is None and others is None and wanted is not None and is_certain(wanted):
                # In short what follows, for a key that is new: so are nearly all while a table is filled.
                values[key] = wanted
                changed.append(key)
                count += 1
                added += 1
                continue
            row = None if wanted is None else TableRow.decode(wanted)
            before, after = _fields(held), _fields(row)
            if others is not None:
                if row is not None:
                    row = row._replace(is_elsewhere=True)
                    for partition, other in others.items():
                        if not other.is_elsewhere:
                            unmarked.setdefault(partition, {})[key] = other
                    self._table.note(key, {**others, self.partition: row})
                before, after = self._newest(held, others), self._newest(row, others)
            if row == held:
                continue
            if before != after:
                changed.append(key)
                added += before is None
                deleted += after is None
            values[key] = None if row is None else row.encode()
            count += _is_live(row) - _is_live(held)
            uncertain += _is_uncertain(row) - _is_uncertain(held)
        # Before the rows themselves: whatever ends the process in between, none passes for the only one.
        self._table.mark_elsewhere(unmarked)
        if values or fill != self.store.fill:
            self.store.write(values, fill._replace(rows=count, uncertain=uncertain))
        self.added += added
        self.deleted += deleted
        self.revision += len(changed)
        if changed:
            self._changed([*map(self._key_type.decode, changed)])

    def _newest(self, row: TableRow | None, others: Mapping[int, TableRow]) -> Mapping[str, Any] | None:
        """Return the fields of a key that has this row here, and those in other partitions."""
        return newest_fields(others if row is None else {**others, self.partition: row})

    def _held(self, keys: Sequence[bytes]) -> tuple[dict[bytes, TableRow], dict[bytes, dict[int, TableRow]]]:
        """Return the rows that are held of keys, here by key, and elsewhere by key and partition."""
        keys = self._table.maybe_held(keys)
        values = zip(keys, self.store.get_each(keys), strict=True)
        here = {key: TableRow.decode(value) for key, value in values if value is not None}
        unsure = [key for key in keys if (row := here.get(key)) is None or row.is_elsewhere]
        return here, self._table.rows_of_each(unsure, but=self.partition)

    def _next(self, first: bytes, wanted: Callable[[bytes], bool]) -> tuple[dict[bytes, TableRow], bytes]:
        """Return the rows whose values are wanted, and the key to go on with after about `SLICE_S`, empty at the end.

        A scan for each slice: one that has not ended would keep the store from being opened again.
        """
        found: dict[bytes, TableRow] = {}
        deadline_s = time.monotonic() + SLICE_S
        for key, value in self.store.scan(first):
            if time.monotonic() > deadline_s and key > first:
                return found, key
            if wanted(value):
                found[key] = TableRow.decode(value)
        return found, b""

    def _is_past(self, key: bytes, row: TableRow, delete_retention_ms: int) -> bool:
        """Return whether a row is a delete that no copy needs to know of."""
        if row.fields is not None or not self._table.was_current_at(row.time_ms + delete_retention_ms):
            return False
        others = self._table.rows_of_each([key], but=self.partition).get(key, {}) if row.is_elsewhere else {}
        return all(other.fields is None for other in others.values())


def _fields(row: TableRow | None) -> Mapping[str, Any] | None:
    return None if row is None else row.fields


def _is_live(row: TableRow | None) -> bool:
    return row is not None and row.fields is not None


def _is_uncertain(row: TableRow | None) -> bool:
    return row is not None and (row.fields is None or row.is_elsewhere)

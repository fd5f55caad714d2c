"""A store on disk: one RocksDB database a topic partition.

Keys are behind a `d`. What is known about the store itself lies under `m`, which no key can reach. Follows quix-streams
`state/rocksdb/partition.py` in that values and position share one write batch.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rocksdict import BlockBasedIndexType, BlockBasedOptions, Cache, DBCompressionType, Env, Options, Rdict, WriteBatch

from runtime.errors import StateUnusable
from runtime.stores.protocol import NO_ENTRIES, Fill

FORMAT_VERSION: Final = 4
"""Raised when older stores cannot be read; they are then filled again."""

_FILL_KEY: Final = b"m:fill"
_DATA_BEGIN: Final = b"d"
_DATA_END: Final = b"e"
_INDEX_BEGIN: Final = b"t"
_INDEX_END: Final = b"u"

_METADATA_BYTES: Final = 4096
"""Of a piece of the index or the filter of a file: as large as a block of its data."""
_BUFFER_FILTER: Final = 0.01
"""The size of its filter as a share of a write buffer: ten bits a key where a key and its value take 130 bytes."""


@dataclass(frozen=True, slots=True)
class RocksdbOptions:
    """What bounds the memory and the threads of all stores of an instance together.

    Attributes:
        write_buffer_bytes: of each store.
        block_cache_bytes: shared by all stores.
        max_open_files: of each store.
        background_threads: shared by all stores.
    """

    write_buffer_bytes: int = 4 << 20
    block_cache_bytes: int = 16 << 20
    max_open_files: int = 64
    background_threads: int = 2


class SharedResources:
    """The cache and the threads that the stores of an instance share."""

    def __init__(self, options: RocksdbOptions) -> None:
        self._options = options
        self._cache = Cache(options.block_cache_bytes)
        self._env = Env()
        self._env.set_background_threads(options.background_threads)

    def database_options(self) -> Options:
        """Return the options of one database."""
        blocks = BlockBasedOptions()
        blocks.set_block_cache(self._cache)
        blocks.set_bloom_filter(10, block_based=False)
        # Without these two, index and filter blocks live outside the cache and grow with the store.
        blocks.set_cache_index_and_filter_blocks(True)
        blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
        # In pieces: the filter and the index of a whole file are larger than what a shard of the cache takes, and were
        # read anew for each look-up, which took ten times as long.
        blocks.set_index_type(BlockBasedIndexType.two_level_index_search())
        blocks.set_partition_filters(True)
        blocks.set_metadata_block_size(_METADATA_BYTES)
        blocks.set_pin_top_level_index_and_filter(True)
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_env(self._env)
        options.set_block_based_table_factory(blocks)
        options.set_compression_type(DBCompressionType.lz4())
        options.set_write_buffer_size(self._options.write_buffer_bytes)
        # So a look-up of a key that is new, as nearly all are while a store is restored, does not search the buffer.
        options.set_memtable_whole_key_filtering(True)
        options.set_memtable_prefix_bloom_ratio(_BUFFER_FILTER)
        options.set_max_write_buffer_number(2)
        options.set_max_total_wal_size(2 * self._options.write_buffer_bytes)
        options.set_target_file_size_base(8 << 20)
        options.set_max_open_files(self._options.max_open_files)
        options.set_max_file_opening_threads(1)
        options.set_max_background_jobs(self._options.background_threads)
        options.set_keep_log_file_num(2)
        options.set_max_log_file_size(1 << 20)
        options.set_stats_dump_period_sec(0)
        options.set_stats_persist_period_sec(0)
        return options


class RocksdbStore:
    """A store in a directory of its own.

    Args:
        path: the directory; its parent exists.
        shared: what the stores of an instance share.

    Raises:
        StateUnusable: the database cannot be opened.
    """

    def __init__(self, path: Path, shared: SharedResources) -> None:
        self._path = path
        with _translated(path):
            self._database = Rdict(str(path), shared.database_options())
        try:
            self._fill = self._load_fill()
        except StateUnusable:
            self.close()
            raise

    @property
    def fill(self) -> Fill | None:
        return self._fill

    def get(self, key: bytes) -> bytes | None:
        # Without `_translated`, which would cost as much as the look-up.
        try:
            value: bytes | None = self._database.get(_DATA_BEGIN + key)
        except Exception as error:
            raise _unusable(self._path, error) from error
        return value

    def get_each(self, keys: Sequence[bytes]) -> list[bytes | None]:
        # One by one, which takes no longer: a look-up of several lets other threads run meanwhile, and gets its turn
        # back from a busy one after milliseconds.
        get = self._database.get
        with _translated(self._path):
            return [get(_DATA_BEGIN + key) for key in keys]

    def scan(
        self, first: bytes = b"", end: bytes | None = None, *, descending: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        low, high = _DATA_BEGIN + first, _DATA_END if end is None else _DATA_BEGIN + end
        with _translated(self._path):
            rows = self._database.items(backwards=descending, from_key=high if descending else low)
        # The other end is looked for here: bounds in ReadOptions are read after rocksdict has freed them.
        return _falling_to(rows, low, high, self._path) if descending else _rising_to(rows, high, self._path)

    def write(
        self, changes: Mapping[bytes, bytes | None], fill: Fill, entries: Mapping[bytes, bool] = NO_ENTRIES
    ) -> None:
        batch = WriteBatch(raw_mode=True)
        for key, value in changes.items():
            if value is None:
                batch.delete(_DATA_BEGIN + key)
            else:
                batch.put(_DATA_BEGIN + key, value)
        for entry, is_put in entries.items():
            if is_put:
                batch.put(_INDEX_BEGIN + entry, b"")
            else:
                batch.delete(_INDEX_BEGIN + entry)
        self._commit(batch, fill)

    def indexed(self, first: bytes, end: bytes) -> Iterator[bytes]:
        with _translated(self._path):
            entries = self._database.items(from_key=_INDEX_BEGIN + first)
        return (entry for entry, _ in _rising_to(entries, _INDEX_BEGIN + end, self._path))

    def disk_bytes(self) -> int:
        total = 0
        with _translated(self._path), os.scandir(self._path) as files:
            for file in files:
                # Compaction deletes files at any time.
                with suppress(FileNotFoundError):
                    total += file.stat().st_size
        return total

    def wipe(self, fill: Fill) -> None:
        batch = WriteBatch(raw_mode=True)
        batch.delete_range(_DATA_BEGIN, _DATA_END)
        batch.delete_range(_INDEX_BEGIN, _INDEX_END)
        self._commit(batch, fill)

    def close(self) -> None:
        """Close the database; the store cannot be used after that. Never raises."""
        # It may be closed already, or have no room for what it writes at its end: its log has that.
        with suppress(StateUnusable), _translated(self._path):
            self._database.close()

    def _commit(self, batch: WriteBatch, fill: Fill) -> None:
        batch.put(_FILL_KEY, json.dumps([FORMAT_VERSION, *fill]).encode())
        with _translated(self._path):
            self._database.write(batch)
        self._fill = fill

    def _load_fill(self) -> Fill | None:
        with _translated(self._path):
            text = self._database.get(_FILL_KEY)
        if text is None:
            return None
        try:
            version, *fields = json.loads(text)
            if version != FORMAT_VERSION:
                raise StateUnusable(f"{self._path}: stores of format {version} cannot be read")
            topic_id, position, restored, current_at_ms, *counts = fields
            rows, uncertain, begin = map(int, counts)
            return Fill(str(topic_id), int(position), bool(restored), int(current_at_ms), rows, uncertain, begin)
        except (TypeError, ValueError) as error:
            raise StateUnusable(f"{self._path}: not a store of this service: {error}") from error


def destroy(path: Path) -> None:
    """Delete a closed store.

    Raises:
        StateUnusable: the directory cannot be deleted.
    """
    try:
        if path.exists():
            shutil.rmtree(path)
    except OSError as error:
        raise StateUnusable(f"{path} cannot be deleted: {error}") from error


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # rocksdict has no error class of its own for what RocksDB reports.
        raise _unusable(path, error) from error


def _unusable(path: Path, error: Exception) -> StateUnusable:
    return StateUnusable(f"{path}: {error}")


def _rising_to(rows: Iterator[tuple[Any, Any]], end: bytes, path: Path) -> Iterator[tuple[bytes, bytes]]:
    with _translated(path):
        for key, value in rows:
            if key >= end:
                return
            yield key[1:], value


def _falling_to(rows: Iterator[tuple[Any, Any]], first: bytes, end: bytes, path: Path) -> Iterator[tuple[bytes, bytes]]:
    with _translated(path):
        for key, value in rows:
            if key < first:
                return
            # It begins at the end itself when there is such a key.
            if key < end:
                yield key[1:], value

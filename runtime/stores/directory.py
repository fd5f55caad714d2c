"""The state directory: where the stores of an instance lie, and that only one process uses them.

<state_dir>/<application_id>/lock
<state_dir>/<application_id>/notes/<name>
<state_dir>/<application_id>/<name>/<partition>/
"""

from __future__ import annotations

import fcntl
import logging
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from runtime.errors import StateUnusable
from runtime.stores import rocksdb
from runtime.stores.protocol import StateStore
from runtime.stores.rocksdb import RocksdbOptions, RocksdbStore, SharedResources

logger = logging.getLogger(__name__)

_SHORT_OF: Final = (
    "No space left on device",
    "Disk quota exceeded",
    "File too large",
    "Too many open files",
    "Cannot allocate memory",
    # By a scan that has not ended, of the store as it was open before.
    "lock hold by current process",
)
"""What opening a database fails with for want of something: there is nothing wrong with the database itself."""

_ROOM_TO_OPEN_BYTES: Final = 1 << 20
"""What opening a database may write about itself, beside the changes that are in its log only."""


class StateDirectory:
    """The stores of an instance, on disk.

    Args:
        state_dir: a directory that is created when missing.
        application_id: instances of several applications can share a `state_dir`; two of one cannot.
        names: of the stores.
        options: what bounds memory and threads.

    Raises:
        StateUnusable: the directory cannot be written, or another process uses it.
    """

    def __init__(
        self, state_dir: Path, application_id: str, names: Iterable[str], options: RocksdbOptions | None = None
    ) -> None:
        self._root = state_dir / application_id
        self._lock = _locked(self._root)
        self._shared = SharedResources(options or RocksdbOptions())
        self._databases: dict[str, dict[int, RocksdbStore]] = {name: {} for name in names}

    def open(self, name: str, partition: int) -> StateStore:
        stores = self._databases[name]
        if partition not in stores:
            stores[partition] = self._open(self._root / name / str(partition))
        return stores[partition]

    def reopen(self, name: str, partition: int) -> StateStore:
        path = self._root / name / str(partition)
        # Closed and not opened again, it would answer nobody: better as it is until there is room.
        _make_writable(path, _ROOM_TO_OPEN_BYTES + sum(log.stat().st_size for log in path.glob("*.log")))
        stores = self._databases[name]
        if partition in stores:
            # Closed, it says so to its readers until there is one that is open.
            stores[partition].close()
        stores[partition] = self._open(path)
        return stores[partition]

    def opened(self, name: str) -> Mapping[int, StateStore]:
        return self._databases[name]

    def kept(self, name: str) -> list[int]:
        directory = self._root / name
        try:
            return sorted(int(path.name) for path in directory.iterdir() if path.name.isdecimal())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StateUnusable(f"{directory} cannot be read: {error}") from error

    def drop(self, name: str, partition: int) -> None:
        store = self._databases[name].pop(partition, None)
        if store is not None:
            store.close()
        rocksdb.destroy(self._root / name / str(partition))

    def load_note(self, name: str) -> str | None:
        try:
            return (self._root / "notes" / name).read_text()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise StateUnusable(f"{self._root / 'notes' / name} cannot be read: {error}") from error

    def save_note(self, name: str, text: str) -> None:
        path = self._root / "notes" / name
        try:
            path.parent.mkdir(exist_ok=True)
            # Renamed into place: a reader after a crash finds the old text or the new one.
            draft = path.with_suffix(".draft")
            draft.write_text(text)
            draft.replace(path)
        except OSError as error:
            raise StateUnusable(f"{path} cannot be written: {error}") from error

    def close(self) -> None:
        for stores in self._databases.values():
            while stores:
                stores.popitem()[1].close()
        os.close(self._lock)

    def _open(self, path: Path) -> RocksdbStore:
        _make_writable(path.parent)
        try:
            return RocksdbStore(path, self._shared)
        except StateUnusable as error:
            if any(each in str(error) for each in _SHORT_OF):
                raise
            # The directory can be written, so it is the database that is broken. It is only a copy of its topic.
            _make_writable(path)
            logger.warning("the store in %s is unusable and is filled again from its topic: %s", path, error)
        rocksdb.destroy(path)
        return RocksdbStore(path, self._shared)


def _locked(root: Path) -> int:
    _make_writable(root)
    try:
        lock = os.open(root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StateUnusable(f"{root / 'lock'} cannot be opened: {error.strerror or error}") from error
    try:
        # Held by the open file: the system lets go of it however the process ends.
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise StateUnusable(
            f"{root} is in use by another process; give each instance its own state directory"
        ) from error
    return lock


def _make_writable(directory: Path, room_bytes: int = 1) -> None:
    """Make a directory, and look whether so much can be written there."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory) as probe:
            probe.write(bytes(room_bytes))
            probe.flush()
    except OSError as error:
        raise StateUnusable(f"{directory} cannot be written: {error.strerror or error}") from error

"""What a state store is: the copy of one topic partition, and how far it has been filled.

A store is only a view of its topic partition: it can be wiped and filled again at any time. Values and position are
written together, so that after a crash they agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

NO_ENTRIES: Final[Mapping[bytes, bool]] = MappingProxyType({})


class Fill(NamedTuple):
    """How far a store has been filled.

    Attributes:
        topic_id: the topic's id in Kafka; a topic that was created again has another one.
        position: the next offset to read.
        restored: it has been filled to the end of this topic once, so that what it holds is an answer.
        current_at_ms: when it last held all that the topic did, as wall-clock time. Deletes that Kafka has dropped
            since may be missing from what it reads next.
        rows: how many rows the store holds; of a table's, deletes that it remembers are not counted.
        uncertain: how many of what a table's store holds are deletes, or keys that may lie in another partition too.
        begin: where the topic partition began when that was last looked at: what lay before is not in the topic.
    """

    topic_id: str
    position: int
    restored: bool
    current_at_ms: int
    rows: int = 0
    uncertain: int = 0
    begin: int = 0


class StateStore(Protocol):
    """The copy of one topic partition: keys to values, ordered by the bytes of the keys.

    Every method may raise `StateUnusable`.
    """

    @property
    def fill(self) -> Fill | None:
        """How far the store has been filled; None when it never was."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""

    def get_each(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value of each key, or None, in their order."""

    def scan(
        self, first: bytes = b"", end: bytes | None = None, *, descending: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values from `first` on, before `end`, as they were when the scan began.

        Args:
            first: the lowest key; by default the first there is.
            end: the key that they end before; None for all there are.
            descending: whether they come from the highest key down.
        """

    def write(
        self, changes: Mapping[bytes, bytes | None], fill: Fill, entries: Mapping[bytes, bool] = NO_ENTRIES
    ) -> None:
        """Put values, or delete those that are None, and record how far the store is filled: all or nothing.

        Args:
            changes: values by key.
            fill: how far the store is filled.
            entries: what is put into the index of the store, which is beside the keys, or taken out where it is false.
        """

    def indexed(self, first: bytes, end: bytes) -> Iterator[bytes]:
        """Yield what is in the index from `first` on, before `end`, in the order of its bytes, as it was at first."""

    def disk_bytes(self) -> int:
        """Return the size of its files; 0 in memory."""

    def wipe(self, fill: Fill) -> None:
        """Delete every value and the index, and record where the filling begins again: all or nothing."""


class StateStores(Protocol):
    """The stores of one instance, of names that whoever made them has given."""

    def open(self, name: str, partition: int) -> StateStore:
        """Return a store, opened when it was not.

        Raises:
            StateUnusable: its directory cannot be read or written.
        """

    def reopen(self, name: str, partition: int) -> StateStore:
        """Close and open a store again: after its disk was full, RocksDB takes no more writes until then.

        Raises:
            StateUnusable: its directory still cannot be written; the store is closed until it can be opened.
        """

    def opened(self, name: str) -> Mapping[int, StateStore]:
        """Return the open stores of a name by partition: a live view."""

    def kept(self, name: str) -> list[int]:
        """Return the partitions that have a store, opened or not, ascending."""

    def drop(self, name: str, partition: int) -> None:
        """Close a store and delete all that it holds."""

    def load_note(self, name: str) -> str | None:
        """Return a note that was kept, or None."""

    def save_note(self, name: str, text: str) -> None:
        """Keep a short text across restarts."""

    def close(self) -> None:
        """Close every store; what they hold stays."""

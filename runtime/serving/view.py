"""What is served of one store at this instance, whatever the store holds: what routes and peers ask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import NamedTuple

from runtime.copies.status import CopyStatus
from runtime.declaration import Store
from runtime.errors import StateUnusable
from runtime.keys import KeyType, KeyValue

Watcher = Callable[[KeyValue | None], None]
"""Told the key whose row may read differently from now on, at whatever limit; None when many may at once, or when a
copy came to be able to answer, or ceased to be. Called in the event loop within the change: it must be quick."""


class NotMade(StateUnusable):
    """What is asked for is being made, of very many rows; the rest can be answered."""


class Rendered(NamedTuple):
    """A row as it is served.

    Attributes:
        body: JSON, UTF-8.
        etag: an HTTP entity tag, quotes included; equal bytes have equal tags on every instance.
    """

    body: bytes
    etag: str


def tagged(body: bytes) -> Rendered:
    """Return the bytes of a row with their entity tag."""
    return Rendered(body, f'"{blake2b(body, digest_size=12).hexdigest()}"')


class Range(NamedTuple):
    """Which rows, and in which order of their keys.

    Attributes:
        first: the lowest key, inclusive; None for the first there is.
        end: the key that they end before; None for all there are.
        most: at most so many, those that come first in the order; None for all.
        descending: whether they come from the highest key down.
    """

    first: KeyValue | None = None
    end: KeyValue | None = None
    most: int | None = None
    descending: bool = False


EVERYTHING = Range()


class Span(NamedTuple):
    """Which windows of a key: those that begin within it, both ends included; None leaves an end open.

    Attributes:
        first_ms: in milliseconds from 1970.
        last_ms: see `first_ms`.
    """

    first_ms: int | None = None
    last_ms: int | None = None


Cut = int | Span | None
"""How much of a row a reader gets: so many entries of one that is a list, or some of its windows; None for all of it,
of a list as many as its store shows by default."""


def inclusive(key_type: KeyType, first: KeyValue | None, last: KeyValue | None) -> Range:
    """Return the range from `first` to `last`, both inclusive; None leaves an end open.

    >>> inclusive(Int64, 1, 6)
    Range(first=1, end=7, most=None, descending=False)
    """
    return Range(first, None if last is None else key_type.following(last))


class View(ABC):
    """The rows of one store that this instance has copies of. Everything happens in one event loop.

    Every method that reads a store may raise `StateUnusable`.

    Attributes:
        store: what it is declared as.
    """

    store: Store

    @property
    def key_type(self) -> KeyType:
        """The type of its keys."""
        return self.store.key.type

    @property
    def name(self) -> str:
        """What tells it from other views: the name of the store, which may have several."""
        return self.store.name

    @property
    def names_by_text(self) -> bool:
        """Whether the text of a key names its row among all, since the key is no column of the row by itself."""
        return self.store.by_part

    @property
    def pace_s(self) -> float:
        """How long those who follow a row wait until they take its changes, in seconds: 0 to have each at once."""
        return 0.0

    def group_of(self, key: KeyValue) -> KeyValue:
        """Return what rows have in common of which one may read differently when another one has changed.

        By default each is by itself.
        """
        return key

    @property
    def by_row(self) -> View:
        """The view whose rows are those of the store: itself, but of windows, which are one list a key here."""
        return self

    @property
    def is_seeking(self) -> bool:
        """Whether rows are being looked for that read differently by now: any that was kept may be one of them."""
        return False

    @property
    @abstractmethod
    def version(self) -> int:
        """A number that grows with every change that a reader could see."""

    @property
    @abstractmethod
    def partition_count(self) -> int:
        """How many partitions the store has in the whole cluster; 0 while that is not known."""

    @abstractmethod
    def partition_for(self, key: KeyValue) -> int:
        """Return the partition of a key; 0, which cannot answer then, while the partition count is not known."""

    @abstractmethod
    def status(self, partition: int) -> CopyStatus:
        """Return what this instance can say about `partition`, held or not."""

    @abstractmethod
    def get(self, key: KeyValue, cut: Cut = None) -> Rendered | None:
        """Return the row of a key, or None when there is none to show.

        Args:
            key: which row.
            cut: how much of it.
        """

    @abstractmethod
    def rows(self, partitions: Iterable[int], within: Range, cut: Cut = None) -> list[tuple[KeyValue, bytes]]:
        """Return the rows to show, in the order of the range: keys with JSON.

        Args:
            partitions: which of this instance's partitions.
            within: which keys, how many, and in which order.
            cut: how much of each.
        """

    @abstractmethod
    def count(self, partitions: Iterable[int]) -> int:
        """Return how many rows there are to show in `partitions`."""

    @abstractmethod
    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Have `watcher` told what changes, until the returned function is called."""

"""The copies of one store that this instance holds, by partition."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

from runtime.copies.listener import Followers
from runtime.copies.result_copy import ResultCopy
from runtime.copies.store_copy import Shared
from runtime.declaration import Store
from runtime.stores.protocol import StateStore, StateStores
from runtime.stream.freshness import Freshness

logger = logging.getLogger(__name__)


class ResultCopies:
    """The copies of one store.

    Args:
        store: what it is declared as.
        stores: what is filled.
        shared: see there.

    Attributes:
        store: see there.
        copies: by partition.
        followers: told of what changes.
        freshness: how long events took to the results.
        partition_count: how many partitions the topic has; 0 while that is not known.
        ready: the partitions that can answer.
    """

    def __init__(self, store: Store, stores: StateStores, shared: Shared) -> None:
        self.store = store
        self.copies: dict[int, ResultCopy] = {}
        self.followers = Followers()
        self.freshness = Freshness()
        self.partition_count = 0
        self.ready: set[int] = set()
        self._stores = stores
        self._shared = shared

    @property
    def opened(self) -> Mapping[int, StateStore]:
        """What the copies fill, by partition: a live view."""
        return self._stores.opened(self.store.name)

    def open(self, partition: int) -> ResultCopy:
        """Return the copy of a partition, opened when it was not; raises StateUnusable when it cannot be."""
        if partition not in self.copies:
            store = self._stores.open(self.store.name, partition)
            on_reset = partial(self._reset, partition)
            self.copies[partition] = ResultCopy(
                self.store, partition, store, self._shared, self.followers, self.freshness, on_reset
            )
        copy = self.copies[partition]
        copy.partition_count = self.partition_count
        return copy

    def drop(self, partition: int) -> None:
        """Delete a copy, opened or not; raises StateUnusable when it cannot be deleted."""
        copy = self.copies.pop(partition, None)
        if copy is not None:
            copy.drop()
        self._reset(partition)
        self._stores.drop(self.store.name, partition)

    def place(self, partition_count: int) -> None:
        """Take note of how many partitions the topic has, and drop what belongs elsewhere, or nowhere, by that."""
        for partition, copy in list(self.copies.items()):
            if partition < partition_count:
                copy.place(partition_count)
            else:
                self.drop(partition)
        # Last: what cannot be written now is placed another time, and what is placed already stays.
        self.partition_count = partition_count

    def find_ready(self, *, tables_are_complete: bool) -> None:
        """Find out which partitions can answer now, and tell whoever follows.

        Args:
            tables_are_complete: whether every table has been filled to its end once.
        """
        for partition, copy in self.copies.items():
            if not (tables_are_complete and copy.restored and partition < self.partition_count):
                self.ready.discard(partition)
            elif partition not in self.ready:
                self.ready.add(partition)
                logger.info("store %s/%d can answer", self.store.name, partition)
                self.followers.partition_ready(partition)

    def tables_reset(self) -> None:
        """A table was emptied: nothing can answer until it is complete again."""
        self.ready.clear()
        self.followers.tables_reset()

    def reopen(self) -> None:
        """Open every store again; raises StateUnusable at the first that cannot be."""
        for partition, copy in self.copies.items():
            copy.reopened(self._stores.reopen(self.store.name, partition))

    def _reset(self, partition: int) -> None:
        self.ready.discard(partition)
        self.followers.partition_reset(partition)

"""The copies of one global table: each instance holds all of its partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from runtime.copies.store_copy import Shared
from runtime.copies.table_copy import Changed, TableCopy
from runtime.declaration import Table
from runtime.kafka.ids import TopicDescription
from runtime.kafka.inspected import Judged
from runtime.stores.global_table import GlobalTable, TableChanges
from runtime.stores.protocol import StateStores


class TableCopies:
    """The copies of one table.

    Args:
        table: what it is declared as.
        stores: what is filled.
        shared: see there.
        changed: told of what changes.
        on_reset: called when a partition is emptied, opened again or dropped.

    Attributes:
        copies: by partition.
        table: asks all of them.
        described: the topic as it is known; None before it ever was.
    """

    def __init__(
        self, table: Table, stores: StateStores, shared: Shared, changed: Changed, on_reset: Callable[[], None]
    ) -> None:
        self.topic = table.topic
        self.copies: dict[int, TableCopy] = {}
        self.table = GlobalTable(table, stores.opened(table.topic))
        self.described: TopicDescription | None = None
        self._stores = stores
        self._shared = shared
        self._changed = changed
        self._on_reset = on_reset

    @property
    def is_complete(self) -> bool:
        """Whether it holds what its topic did once. A partition added to the topic since holds no answer back."""
        topic = self.described
        return (
            topic is not None
            and len(self.copies) >= topic.partitions
            and all(copy.is_addition or copy.restored_from(topic.topic_id) for copy in self.copies.values())
        )

    @property
    def reached(self) -> bool:
        """Whether all copies have come to where their topic ended when this process first saw it."""
        return bool(self.copies) and all(copy.reached for copy in self.copies.values())

    @property
    def lag(self) -> int:
        """Records behind the end as last seen, of all partitions."""
        return sum(copy.lag for copy in self.copies.values())

    def changes(self) -> TableChanges:
        """Return how many keys have come to exist and ceased to. Called from another thread as well."""
        copies = list(self.copies.values())
        return TableChanges(sum(copy.added for copy in copies), sum(copy.deleted for copy in copies))

    def revision(self) -> int:
        """Return a number that has grown when a row has changed in any way. Called from another thread as well."""
        return sum(copy.revision for copy in list(self.copies.values()))

    def judged(self) -> Iterable[Judged]:
        """Return the records that this process has looked at. Called from another thread as well."""
        return [copy.judged() for copy in list(self.copies.values())]

    def snapshot(self) -> GlobalTable:
        """Return the table with the partitions of now, for another thread: one may be opened meanwhile."""
        return GlobalTable(self.table.table, dict(self._stores.opened(self.topic)))

    async def open(self, topic: TopicDescription) -> list[TableCopy]:
        """Return the copies of all partitions that the topic has; raises StateUnusable when one cannot be opened.

        The topic is taken note of by `keep`, after that: a table that gets partitions goes on answering meanwhile.
        """
        was_complete = self.is_complete and self.described is not None and self.described.topic_id == topic.topic_id
        opened = []
        for partition in range(topic.partitions):
            copy = self.open_partition(partition)
            copy.is_addition |= was_complete and copy.fill is None
            opened.append(copy)
            # Opening one takes milliseconds.
            await asyncio.sleep(0)
        return opened

    def open_partition(self, partition: int) -> TableCopy:
        """Return the copy of a partition, opened when it was not; raises StateUnusable when it cannot be."""
        if partition not in self.copies:
            store = self._stores.open(self.topic, partition)
            self.copies[partition] = TableCopy(
                self.table, partition, store, self._shared, self._changed, self._on_reset
            )
        return self.copies[partition]

    def keep(self, topic: TopicDescription) -> None:
        """Take note of the topic, and drop the partitions that it does not have any more."""
        self.described = topic
        for partition in [each for each in self.copies if each >= topic.partitions]:
            self.copies.pop(partition).drop()
            self._on_reset()
            self._stores.drop(self.topic, partition)

    def reopen(self) -> None:
        """Open every store again; raises StateUnusable at the first that cannot be."""
        for partition, copy in self.copies.items():
            copy.reopened(self._stores.reopen(self.topic, partition))

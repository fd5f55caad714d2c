"""The global tables of an instance, as its stream needs them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from runtime.kafka.inspected import Judged
from runtime.keys import KeyValue
from runtime.stores.global_table import TableChanges


class TableSource(Protocol):
    """The global tables of this instance. Called from the stream's threads and from those beside them."""

    def caught_up(self) -> bool:
        """Return whether all tables have reached the ends of their topics since the process started."""

    def keys(self, topic: str) -> Iterable[KeyValue]:
        """Return the keys of a table's rows, in no particular order."""

    def rows(self, topic: str) -> Iterable[tuple[KeyValue, Mapping[str, str]]]:
        """Return a table's rows, keys with fields, in no particular order."""

    def changes(self) -> TableChanges:
        """Return how the tables have changed."""

    def judged(self) -> Iterable[Judged]:
        """Return the records of the tables' topics that this process has looked at."""

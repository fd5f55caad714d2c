"""Rankings: an order of the rows that have the same first part of the key, of which each place can be told at any time.

The place of a row follows from the row alone: ordered bytes (`runtime.ordered_bytes`), the best first. Whether the row
holds a place follows from tables: it does while the parts of its key have rows there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


class Standing(NamedTuple):
    """Where a row stands among those that have the same first part of the key.

    >>> Standing(4, 2, 5).percentile
    80.0

    Attributes:
        rank: 1 for the best; no two rows have the same.
        shared_rank: the same for all rows that are equally good: 1, 2, 2, 4.
        of: how many hold a place.
    """

    rank: int
    shared_rank: int
    of: int

    @property
    def percentile(self) -> float:
        """How many in a hundred are not better, itself included: 100 for the best."""
        return round(100 * (self.of - self.shared_rank + 1) / self.of, 2)


@dataclass(frozen=True)
class ReadBack:
    """How what is shown of a row is read back from its place, which is in memory, so that its store need not be asked.

    Attributes:
        rest: a pure function from a row's values to what `show` needs of them and the place does not say: one of a few
            things, such as the id of a topic. It is asked of rows that have a place.
        row: a pure function of a place and such a rest to the values, as far as `show` looks at them.
    """

    rest: Callable[[Mapping[str, Any]], Hashable]
    row: Callable[[bytes, Any], Mapping[str, Any]]


@dataclass(frozen=True)
class Ranking:
    """How the rows of a store are ranked; its key has two parts, the second one an `Int64`.

    Attributes:
        place: a pure function from a row's values to ordered bytes, the best first; None where it has no place. No
            place is the beginning of another one, and of two that are alike the lesser second part comes first.
        show: a pure function of a row, its standing and the tables as they are now to what is served.
        shared_bytes: how many bytes of their places are alike where rows are equally good.
        first_in: the table in which the first part has to have a row; None: no table has to.
        second_in: the table in which the second part has to have a row; None: no table has to.
        counted_in: the table, held whole, that says what of a row counts; None: all does.
        counts: a pure function of both parts of the key, the row's values, and the value that the table is held as, to
            the values that count. Not asked while the value is false.
        read_back: how what is shown is read back from places; None: rows are read from the store.
    """

    place: Callable[[Mapping[str, Any]], bytes | None]
    show: Callable[[Mapping[str, Any], Standing, Mapping[str, Mapping[Any, Mapping[str, Any]]]], Any]
    shared_bytes: int = 8
    first_in: str | None = None
    second_in: str | None = None
    counted_in: str | None = None
    counts: Callable[[Any, Any, Mapping[str, Any], Any], Mapping[str, Any]] | None = None
    read_back: ReadBack | None = None

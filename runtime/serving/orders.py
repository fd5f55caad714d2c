"""The order of the rows of one part: sort keys, the best first, of which each position is found in microseconds.

A sort key is a row's place and behind it the second part of its key: bytes that say at once which row comes first and
which one it is, and nothing beside them. A million take some 75 MB.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import Final

from sortedcontainers import SortedList

from runtime.keys import Int64, KeyType, KeyValue, first_bytes

SECOND_BYTES: Final = 8
_PAST_SECONDS: Final = b"\xff" * (SECOND_BYTES + 1)
"""Behind the bytes of a part, above all keys that begin with it."""
_RUN: Final = 20_000
"""So many keys are sorted at a time: in some milliseconds."""
_MERGED: Final = 1_000
SLICE_S: Final = 0.002


def sort_key(place: bytes, second: KeyValue) -> bytes:
    """Return the sort key of a row: its place, and the second part of its key."""
    return place + Int64.encode(second)


def second_of(key: bytes) -> KeyValue:
    """Return the second part of the key of the row that a sort key, or a key in the store, is of."""
    return Int64.decode(key[-SECOND_BYTES:])


def bounds(of: KeyType, part: KeyValue) -> tuple[bytes, bytes]:
    """Return between which bytes the keys are that begin with a part, as `StateStore.scan` takes them."""
    first = first_bytes(of, part)
    return first, first + _PAST_SECONDS


class Making:
    """An order that is being made of a store that changes meanwhile: a part of the work at a time.

    Args:
        part: the first part of the keys of its rows.

    Attributes:
        part: the same.
        touched: the second parts of rows that have changed, or whose place came or went, since the work began.
    """

    def __init__(self, part: KeyValue) -> None:
        self.part = part
        self.touched: set[KeyValue] = set()

    def made(self, found: Iterable[bytes | None], slice_s: float = SLICE_S) -> Iterator[SortedList | None]:
        """Yield None after some milliseconds of work each, and the order in the end: without what was touched.

        Args:
            found: the sort keys of all rows, None of those without a place.
            slice_s: how long the work goes on before something is yielded, in seconds.
        """
        runs: list[list[bytes]] = [[]]
        until_s = time.monotonic() + slice_s
        for key in found:
            if key is not None:
                runs[-1].append(key)
            if time.monotonic() > until_s:
                yield None
                until_s = time.monotonic() + slice_s
            if len(runs[-1]) >= _RUN:
                runs[-1].sort()
                runs.append([])
        runs[-1].sort()
        keys: list[bytes] = []
        for some in _some(merge(*runs), _MERGED):
            keys += some
            yield None
        # What follows is the rest, at once: of a million in a fifth of a second.
        left = keys if not self.touched else [key for key in keys if second_of(key) not in self.touched]
        yield SortedList(left)


def _some(keys: Iterator[bytes], most: int) -> Iterator[list[bytes]]:
    while some := list(islice(keys, most)):
        yield some

"""The order of the rows of one part: sort keys, the best first, of which each position is found in microseconds.

A sort key is a row's place, behind it the second part of its key, and a byte: they say at once which row comes first,
which one it is, and whether all that is shown of it can be read back from them. A million take some 75 MB.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from sortedcontainers import SortedList

from runtime.keys import Int64, KeyType, KeyValue, first_bytes

SECOND_BYTES: Final = 8
TAIL_BYTES: Final = SECOND_BYTES + 1
"""What stands behind the place in a sort key."""
IN_STORE: Final = b"\xff"
"""The last byte of a sort key whose row has to be read from the store; any other one counts the rests of rows, see
`runtime.ranking.ReadBack`. It is above all others, and says nothing of the order: no two rows have all else alike."""
_PAST_SECONDS: Final = b"\xff" * (SECOND_BYTES + 1)
"""Behind the bytes of a part, above all keys that begin with it."""
_RUN: Final = 20_000
"""So many keys are sorted at a time: in some milliseconds."""
_MARKED: Final = 100
"""One in so many keys of a run tells how its keys lie."""
_APART: Final = 100
"""So many of those lie between two marks: about ten thousand keys, sorted in some milliseconds."""
SLICE_S: Final = 0.002


def sort_key(place: bytes, second: KeyValue, rest: bytes = IN_STORE) -> bytes:
    """Return the sort key of a row: its place, the second part of its key, and the byte that says what its rest is."""
    return place + Int64.encode(second) + rest


def second_of(key: bytes) -> KeyValue:
    """Return the second part of the key of the row that a sort key is of."""
    return Int64.decode(key[-TAIL_BYTES:-1])


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

    def made(self, found: Iterable[Sequence[bytes]], slice_s: float = SLICE_S) -> Iterator[SortedList | None]:
        """Yield None after some milliseconds of work each, and the order in the end: without what was touched.

        Args:
            found: the sort keys of all rows that have a place, those of some rows at a time.
            slice_s: how long the work goes on before something is yielded, in seconds.
        """
        runs: list[list[bytes]] = [[]]
        until_s = time.monotonic() + slice_s
        for some in found:
            runs[-1] += some
            if time.monotonic() > until_s:
                yield None
                until_s = time.monotonic() + slice_s
            if len(runs[-1]) >= _RUN:
                runs[-1].sort()
                runs.append([])
        runs[-1].sort()
        keys: list[bytes] = []
        for some in _merged(runs):
            keys += some
            yield None
        # What follows is the rest, at once: of a million in a fifth of a second.
        left = keys if not self.touched else [key for key in keys if second_of(key) not in self.touched]
        yield SortedList(left)


def _merged(runs: Sequence[list[bytes]]) -> Iterator[list[bytes]]:
    """Yield the keys of sorted runs in their order, some at a time: what lies between two marks is sorted at once.

    To sort what is sorted in parts takes a fifth of the time that `heapq.merge` does.
    """
    marks = sorted(key for run in runs for key in run[::_MARKED])[_APART::_APART]
    begins = [0] * len(runs)
    for mark in (*marks, None):
        ends = [len(run) if mark is None else bisect_left(run, mark) for run in runs]
        some = [key for run, begin, end in zip(runs, begins, ends, strict=True) for key in run[begin:end]]
        some.sort()
        yield some
        begins = ends

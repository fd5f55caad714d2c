"""Looks for any of many texts in the values of rows, a few milliseconds at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from itertools import takewhile
from typing import Final

from runtime.stores.protocol import StateStore

SEARCHED_AT_ONCE: Final = 1_000
"""Among more rows those that have a text in them are looked for in the background: 1,000 take some milliseconds."""


def has_any(texts: Collection[bytes]) -> Callable[[bytes], bool]:
    """Return what says whether a text has one of some in it.

    Of many that begin alike it takes about as long as of one: a script may name hundreds at once.

    >>> has = has_any([b'"offset":7', b'"offset":12'])
    >>> has(b'{"offset":123}'), has(b'{"offset":13}')
    (True, False)
    """
    wanted, lengths = {*texts}, sorted({len(text) for text in texts})
    if not wanted:
        return lambda _: False
    first, last = min(wanted), max(wanted)
    begin = first[: sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))]

    def has(text: bytes) -> bool:
        at = text.find(begin)
        while at >= 0:
            for length in lengths:
                if text[at : at + length] in wanted:
                    return True
            at = text.find(begin, at + 1)
        return False

    return has


def keys_with(store: StateStore, has: Callable[[bytes], bool], slice_s: float) -> Iterator[bytes | None]:
    """Yield the keys, as the store has them, of the rows that have what is sought, and None whenever time is up.

    Args:
        store: what is looked through.
        has: as `has_any` returns it.
        slice_s: how long it goes on before None, in seconds.
    """
    until_s = time.monotonic() + slice_s
    for encoded, stored in store.scan():
        if has(stored):
            yield encoded
        if time.monotonic() > until_s:
            yield None
            until_s = time.monotonic() + slice_s

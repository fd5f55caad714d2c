"""Looks for any of many texts in the values of rows."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import takewhile


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

"""Rows as they were read last, so that a row that many ask for is made once."""

from __future__ import annotations

from runtime.keys import KeyValue
from runtime.serving.view import Rendered


class KeptRows:
    """Rows by key; the one that was read first goes when there are too many.

    Args:
        most: how many there are at the most.
        largest_bytes: a row that is larger is not kept.

    Attributes:
        get: returns the row of a key, None when it is not kept.
    """

    def __init__(self, most: int, largest_bytes: int) -> None:
        self._most = most
        self._largest_bytes = largest_bytes
        self._rows: dict[KeyValue, Rendered] = {}
        self.get = self._rows.get

    def keep(self, key: KeyValue, rendered: Rendered) -> Rendered:
        """Keep a row that has just been made, when it is not too large; return it."""
        if len(rendered.body) <= self._largest_bytes:
            if len(self._rows) >= self._most:
                del self._rows[next(iter(self._rows))]
            self._rows[key] = rendered
        return rendered

    def forget(self, key: KeyValue | None) -> None:
        """Forget a row that may read differently from now on; all of them when the key is None."""
        if key is None:
            self._rows.clear()
        else:
            self._rows.pop(key, None)

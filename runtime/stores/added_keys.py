"""Which keys are new to stores that were empty at first, without a look into them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_SLOTS: Final = 1 << 20
"""A byte each. Keys that share one are told apart by a look-up: with 100,000 keys that is one of twenty."""


class AddedKeys:
    """The keys that were added, as far as a megabyte can tell: others may pass for added, and none for new that is not.

    While a table is filled for the first time, nearly all keys are new. To look each of them up in the stores of all
    partitions takes five times as long.

    Attributes:
        is_full: so many keys were added that most of the new ones pass for added.
    """

    def __init__(self) -> None:
        self.is_full = False
        self._taken = 0
        # Made when it is needed: a table that was filled before needs none.
        self._slots = bytearray()

    def add(self, keys: Iterable[bytes]) -> list[bytes]:
        """Add keys; return those that may have been added before."""
        slots = self._slots = self._slots or bytearray(_SLOTS)
        known = []
        for key in keys:
            slot = hash(key) & _SLOTS - 1
            if slots[slot]:
                known.append(key)
            else:
                slots[slot] = 1
                self._taken += 1
        self.is_full = self._taken > _SLOTS // 2
        return known

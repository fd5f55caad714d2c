"""Which keys are new to stores that were empty at first, without a look into them."""

from __future__ import annotations

from typing import Final

_SLOTS: Final = 1 << 24
"""A bit each. Keys that share one are told apart by a look-up: with 1,000,000 keys that is one of thirty-two."""


class AddedKeys:
    """The keys that were added, as far as two megabytes tell: others may pass for added, and none for new that is not.

    While a store is filled for the first time, nearly all keys are new. To look each of them up takes longer than all
    that is done with its record.

    Attributes:
        is_full: so many keys were added that most of the new ones pass for added.
    """

    def __init__(self) -> None:
        self.is_full = False
        self._left = _SLOTS // 2
        # Made when it is needed: what was filled before needs none.
        self._slots = bytearray()

    def add(self, key: bytes) -> bool:
        """Add a key; return whether it may have been added before."""
        slots = self._slots = self._slots or bytearray(_SLOTS // 8)
        slot = hash(key) & _SLOTS - 1
        byte, bit = slot >> 3, 1 << (slot & 7)
        if slots[byte] & bit:
            return True
        slots[byte] |= bit
        self._left -= 1
        self.is_full = self._left < 0
        return False

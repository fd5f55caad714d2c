"""Which keys are new to stores that were empty at first, without a look into them."""

from __future__ import annotations

from typing import Final

_SLOTS: Final = 1 << 24
"""A bit each, of which a key has two. Keys that share both with others are told apart by a look-up: of 1,000,000 keys
one of two hundred."""
_OTHER: Final = 32
"""The bits of a key's hash from here on say which the second one is."""


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
        hashed, was_added = hash(key), True
        for slot in (hashed & _SLOTS - 1, hashed >> _OTHER & _SLOTS - 1):
            byte, bit = slot >> 3, 1 << (slot & 7)
            if not slots[byte] & bit:
                slots[byte] |= bit
                self._left -= 1
                was_added = False
        self.is_full = self._left < 0
        return was_added

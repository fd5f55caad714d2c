"""Numbers as bytes whose order is that of the numbers, so that several in a row compare one after the other.

No such bytes begin those of another number: what stands behind them never comes first.
"""

from __future__ import annotations

import struct
from typing import Final

_DOUBLE: Final = struct.Struct(">d")
_64_BITS: Final = struct.Struct(">Q")
_SIGN: Final = 1 << 63
_NOUGHT: Final = 0x80
"""The first byte of a 0; of other numbers it is as many more, or less, as bytes follow."""
_SIZES: Final = [bytes((_NOUGHT + size,)) for size in range(9)]
"""The first bytes of numbers that are not negative, by how many bytes follow."""


def falling_double(number: float) -> bytes:
    """Return eight bytes of a finite number, the greater number first; 0 and -0 are one number.

    >>> falling_double(2.5) < falling_double(0.0) < falling_double(-1e9), falling_double(-0.0) == falling_double(0.0)
    (True, True)
    """
    (bits,) = _64_BITS.unpack(_DOUBLE.pack(number + 0.0))
    # The bits of doubles are in their order, from 0 on; those of negative ones the other way round.
    return _64_BITS.pack(bits if bits & _SIGN else _SIGN - 1 - bits)


def rising_integer(number: int) -> bytes:
    """Return the bytes of a 64-bit integer, the lesser number first: as few as the number needs, and one.

    >>> rising_integer(-300) < rising_integer(-1) < rising_integer(0) < rising_integer(255) < rising_integer(256)
    True
    >>> len(rising_integer(0)), len(rising_integer(1_795_622_400_000))
    (1, 7)
    """
    if number >= 0:
        size = (number.bit_length() + 7) >> 3
        return _SIZES[size] + number.to_bytes(size, "big")
    size = (number.bit_length() + 7) >> 3
    return bytes((_NOUGHT - size,)) + (number + (1 << 8 * size)).to_bytes(size, "big")


def double_of(falling: bytes) -> float:
    """Return the number that `falling_double` made eight bytes of.

    >>> double_of(falling_double(-2.5)), double_of(falling_double(0.0))
    (-2.5, 0.0)
    """
    (bits,) = _64_BITS.unpack(falling)
    number: float = _DOUBLE.unpack(_64_BITS.pack(bits if bits & _SIGN else _SIGN - 1 - bits))[0]
    return number


def integers_of(rising: bytes) -> list[int]:
    """Return the numbers that `rising_integer` made bytes of, which stand one behind the other.

    >>> integers_of(rising_integer(-300) + rising_integer(0) + rising_integer(7))
    [-300, 0, 7]
    """
    numbers, at = [], 0
    while at < len(rising):
        size = rising[at] - _NOUGHT
        begin, at = at + 1, at + 1 + abs(size)
        number = int.from_bytes(rising[begin:at], "big")
        numbers.append(number if size >= 0 else number - (1 << -8 * size))
    return numbers

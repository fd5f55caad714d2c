"""What is loaded stays: no collection of garbage looks at it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_NEW: Final = 10_000
"""So many objects come before garbage is looked for among them: with 700, Python's number, that was a twentieth of the
work of filling stores."""


def leave_to_stay() -> None:
    """Have no collection of garbage look at what is there by now: a full one would stop the instance for 40 ms.

    Others are looked at seldom from here on.
    """
    gc.freeze()
    gc.set_threshold(_NEW)


@contextmanager
def loading() -> Iterator[None]:
    """Load modules while the block runs: no garbage is looked for, which takes a tenth of the time to load them."""
    gc.disable()
    try:
        yield
    finally:
        leave_to_stay()
        gc.enable()

"""What is loaded stays: no collection of garbage looks at it; and what nobody needs is not loaded."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Final, cast

_NEW: Final = 10_000
"""So many objects come before garbage is looked for among them: with 700, Python's number, that was a twentieth of the
work of filling stores."""

_UNUSED: Final = "httpx._main"
"""The command line of httpx, which it can do without: its import takes 40 ms where rich is installed."""


def leave_to_stay() -> None:
    """Have no collection of garbage look at what is there by now: a full one would stop the instance for 40 ms.

    Others are looked at seldom from here on.
    """
    gc.freeze()
    gc.set_threshold(_NEW)


@contextmanager
def loading() -> Iterator[None]:
    """Load modules while the block runs, without what is unused: no garbage is looked for, a tenth of the time."""
    gc.disable()
    modules = cast("dict[str, ModuleType | None]", sys.modules)
    leave_out = _UNUSED not in modules
    if leave_out:
        # An import of it fails then, as where rich is not installed.
        modules[_UNUSED] = None
    try:
        yield
    finally:
        if leave_out:
            modules.pop(_UNUSED, None)
        leave_to_stay()
        gc.enable()

"""Those who follow the stream of this instance: whoever begins when it ends here.

They are told once a second whether it works, so that they know when to warm up their own Spark, and at once that it has
ended. Whether they are ready they say when they connect, and connect anew when that changes.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from typing import Final

OVER: Final = b"over"
"""The line that says that the stream has ended here, and that whoever follows it begins."""
WORKS: Final = b"works"
"""The line that says that the stream works here, in real time or at its pace."""
_EVERY_S: Final = 1.0
_CONNECTS_ANEW_WITHIN_S: Final = 5.0
"""Later the stream may be on its way back to here, and whoever comes then is not to begin."""


class Followed:
    """Tells whoever follows what becomes of the stream. Everything happens in one event loop.

    Args:
        here: returns whether the stream runs here.
        works: returns whether it works.
    """

    def __init__(self, here: Callable[[], bool] = lambda: False, works: Callable[[], bool] = lambda: False) -> None:
        self._here = here
        self._works = works
        self._over_at_s = -math.inf
        self._ready: dict[asyncio.Future[bytes], bool] = {}

    @property
    def count(self) -> int:
        """How many follow."""
        return len(self._ready)

    @property
    def nobody_is_ready(self) -> bool:
        """Whether none of those who follow can begin at once."""
        return not any(self._ready.values())

    @property
    def is_open(self) -> bool:
        """Whether there is something to follow: a stream, or its end, for whoever connects anew just then."""
        return self._here() or self._was_over_just_now

    @property
    def _was_over_just_now(self) -> bool:
        return time.monotonic() - self._over_at_s < _CONNECTS_ANEW_WITHIN_S

    def over(self) -> None:
        """Tell that the stream has ended here, after it has: whoever follows begins."""
        self._over_at_s = time.monotonic()
        self._tell(OVER + b"\n")

    def end(self) -> None:
        """End what they read: the instance stops."""
        self._tell(b"")

    async def lines(self, *, ready: bool) -> AsyncIterator[bytes]:
        """Yield what one of them reads.

        Args:
            ready: whether it can begin at once.
        """
        told: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._ready[told] = ready
        if self._was_over_just_now and not self._here():
            self._tell(OVER + b"\n")
        try:
            while not told.done():
                yield WORKS + b"\n" if self._works() else b"\n"
                await asyncio.wait([told], timeout=_EVERY_S)
            yield told.result()
        finally:
            del self._ready[told]

    def _tell(self, line: bytes) -> None:
        for told in self._ready:
            if not told.done():
                told.set_result(line)

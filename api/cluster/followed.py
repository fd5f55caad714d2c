"""Those who follow the stream of this instance: whoever begins when it ends here.

They are told once a second whether it works, so that they know when to warm up their own Spark, and at once that it has
ended. Whether they are ready they say when they connect, and connect anew when that changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

OVER: Final = b"over"
"""The line that says that the stream has ended here, and that whoever follows it begins."""
WORKS: Final = b"works"
"""The line that says that the stream works here, in real time or at its pace."""
_EVERY_S: Final = 1.0


class Followed:
    """Tells whoever follows what becomes of the stream. Everything happens in one event loop.

    Args:
        works: returns whether the stream works here.
    """

    def __init__(self, works: Callable[[], bool] = lambda: False) -> None:
        self._works = works
        self._ready: dict[asyncio.Future[bytes], bool] = {}

    def __bool__(self) -> bool:
        """Return whether anybody follows."""
        return bool(self._ready)

    @property
    def awaited(self) -> bool:
        """Whether somebody follows who will be ready, and nobody who is."""
        return bool(self._ready) and not any(self._ready.values())

    def over(self) -> None:
        """Tell that the stream has ended here, after it has: whoever follows begins."""
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

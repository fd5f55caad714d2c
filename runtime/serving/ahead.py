"""What is done before a read would have to wait for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from runtime.errors import StateUnusable

logger = logging.getLogger(__name__)

_AGAIN_AFTER_S: Final = 1.0


class Ahead:
    """Does what changes leave to do.

    Args:
        what: is done, for people.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._there_is_work = asyncio.Event()

    def is_needed(self) -> None:
        """Have it done, soon."""
        self._there_is_work.set()

    async def keep_up(self, do: Callable[[], Awaitable[None]]) -> None:
        """Do it whenever it is needed, until cancelled; again after a while where a store cannot be read.

        Args:
            do: does all that there is to do.
        """
        said = ""
        while True:
            await self._there_is_work.wait()
            self._there_is_work.clear()
            try:
                await do()
                said = ""
            except StateUnusable as error:
                # Whoever fills the stores may open them again, or not have noticed.
                if str(error) != said:
                    said = str(error)
                    logger.warning("%s later: %s", self._what, said)
                await asyncio.sleep(_AGAIN_AFTER_S)
                self._there_is_work.set()

"""Waits in the event loop for a condition, with a deadline, in place of sleeping."""

import asyncio
import time
from collections.abc import Awaitable, Callable


async def eventually(condition: Callable[[], bool | Awaitable[bool]], deadline_s: float = 20.0) -> None:
    """Return as soon as the condition holds; fail when it does not within the deadline."""
    deadline = time.monotonic() + deadline_s
    while True:
        found = condition()
        if found if isinstance(found, bool) else await found:
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {deadline_s} s: {condition}")
        await asyncio.sleep(0.005)

"""Waits in the event loop for a condition, with a deadline, in place of sleeping; measures until it is fast enough."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from tests.waiting import UNHURRIED_S


async def eventually(
    condition: Callable[[], bool | Awaitable[bool]], what: str = "", deadline_s: float = UNHURRIED_S
) -> float:
    """Return as soon as the condition holds, and after how many seconds; it is looked at every 5 ms.

    Raises:
        AssertionError: it does not hold within the deadline; the text says `what` does not, or which condition.
    """
    began_s = time.monotonic()
    while True:
        found = condition()
        if found if isinstance(found, bool) else await found:
            return time.monotonic() - began_s
        if time.monotonic() - began_s > deadline_s:
            raise AssertionError(f"not within {deadline_s} s: {what or condition}")
        await asyncio.sleep(0.005)


async def measured(measure: Callable[[], Awaitable[float]], below: float, times: int) -> float:
    """Return what was measured last: the first value below the bound, or the last of so many.

    What else runs on the machine makes some values larger; what is too slow by itself is so each time.
    """
    for _ in range(times - 1):
        value = await measure()
        if value < below:
            return value
    return await measure()

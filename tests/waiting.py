"""Waits for a condition with a deadline, in place of sleeping."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], deadline_s: float, what: str, every_s: float = 0.02) -> None:
    """Return as soon as the condition holds, which is looked at every so many seconds.

    Raises:
        AssertionError: it does not hold within the deadline, in seconds; the text says `what` does not.
    """
    deadline = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {deadline_s} s: {what}")
        time.sleep(every_s)

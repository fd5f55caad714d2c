"""Waits for a condition with a deadline, in place of sleeping."""

import time
from collections.abc import Callable


def wait_until(
    condition: Callable[[], bool], deadline_s: float, what: str | Callable[[], str], every_s: float = 0.02
) -> None:
    """Return as soon as the condition holds, which is looked at every so many seconds.

    Args:
        condition: what is waited for.
        deadline_s: how long.
        what: says what it is, when the deadline has passed.
        every_s: how often it is looked at.

    Raises:
        AssertionError: it does not hold within the deadline; the text says `what` does not.
    """
    deadline = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {deadline_s} s: {what if isinstance(what, str) else what()}")
        time.sleep(every_s)

"""Waits for a condition with a deadline, in place of sleeping."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], deadline_s: float, what: str) -> None:
    """Return as soon as the condition holds; fail with `what` when it does not within the deadline, in seconds."""
    deadline = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {deadline_s} s: {what}")
        time.sleep(0.02)

"""Waits for a condition with a deadline, in place of sleeping."""

import time
from collections.abc import Callable
from typing import Final

UNHURRIED_S: Final = 900.0
"""How long for what comes or never does: a machine with neighbours can take twenty times as long as one alone."""


def wait_until(
    condition: Callable[[], bool],
    what: str | Callable[[], str],
    deadline_s: float = UNHURRIED_S,
    every_s: float = 0.02,
) -> None:
    """Return as soon as the condition holds, which is looked at every so many seconds.

    Args:
        condition: what is waited for.
        what: says what it is, when the deadline has passed.
        deadline_s: how long; one of its own where it has to come soon.
        every_s: how often it is looked at.

    Raises:
        AssertionError: it does not hold within the deadline; the text says `what` does not.
    """
    deadline = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {deadline_s} s: {what if isinstance(what, str) else what()}")
        time.sleep(every_s)

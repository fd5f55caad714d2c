"""One look after the other, until what is served is what has to be, or until the time has passed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, Protocol, Self, TypeVar

from runtime.errors import Retry

_PAUSE_S: Final = 1.0

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Result(Protocol):
    """What one look has found."""

    @property
    def differences(self) -> int:
        """How many there are."""

    @property
    def unsettled(self) -> int:
        """How many differences there are, and rows that cannot be proved yet: another look may find them equal."""

    def still(self, before: Self) -> Self:
        """Return this look without the differences that the one before did not have: what agreed once is right."""

    def text(self) -> str:
        """Return it as lines for people."""

    def json(self) -> str:
        """Return it as one JSON object."""


R = TypeVar("R", bound=Result)


def until_equal(look: Callable[[], R], within_s: float) -> R:
    """Look until nothing is unsettled, or until the time has passed; it begins again with the first comparison.

    Raises:
        Retry: Kafka or an instance did not answer in time.
    """
    result = retried(look, time.monotonic() + within_s)
    deadline_s = time.monotonic() + within_s
    while result.unsettled and time.monotonic() < deadline_s:
        logger.info("looking again, since this many differ: %d", result.unsettled)
        time.sleep(_PAUSE_S)
        result = retried(look, deadline_s).still(result)
    return result


def retried(attempt: Callable[[], T], deadline_s: float) -> T:
    """Return what an attempt returns, the first one or a later one before the deadline."""
    while True:
        try:
            return attempt()
        except Retry as error:
            if time.monotonic() >= deadline_s:
                raise
            logger.warning("trying again: %s", error)
        time.sleep(_PAUSE_S)

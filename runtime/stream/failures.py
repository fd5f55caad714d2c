"""How the stream thread answers failures in a row: decisions without Spark."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from runtime.errors import BrokerUnavailable, GenerationOutdated, QueryFailed

_FIRST_BACKOFF_S: Final = 0.5
_LONGEST_BACKOFF_S: Final = 30.0
_FAILURES_PER_SESSION: Final = 3
_FAILURES_PER_CHECKPOINT: Final = 3
KEEPS_AFTER_S: Final = 120.0
"""Long enough for a session to be tried anew some times, and for what an operator restarts to come back."""
_NOT_OF_THE_CHECKPOINT: Final = (
    "CONCURRENT_STREAM_LOG_UPDATE",
    "No space left on device",
    "Disk quota exceeded",
    "Read-only file system",
    "Permission denied",
    "Operation not permitted",
    "Too many open files",
    "OutOfMemoryError",
    "Connection refused",
    "TimeoutException",
    "INSUFFICIENT_SLOT",
)
"""What a query says when its checkpoint may be in good order: another works on it, or something else is short."""


class Failures:
    """Failures since all was well.

    Args:
        clock: monotonic seconds.

    Attributes:
        checkpoint_trouble: why the checkpoint seems to be unusable, when it does.
        keep: whether there have been some for long, and not for want of Kafka: elsewhere it may go better.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.checkpoint_trouble: str | None = None
        self.keep = False
        self._clock = clock
        self._since_s: float | None = None
        self._in_a_row = 0
        self._without_commit = 0

    def committed(self) -> None:
        """Take note of a checkpoint that can be used: it is new, or a batch was committed to it."""
        self._without_commit = 0
        self.checkpoint_trouble = None
        self._since_s = None
        self.keep = False

    def add(self, error: Exception, *, ran_s: float, session_lives: bool) -> None:
        """Take note of a failure.

        Args:
            error: what it was.
            ran_s: how long the stream ran before it, in seconds.
            session_lives: whether there is a session whose JVM runs.
        """
        self._in_a_row = self._in_a_row + 1 if ran_s < 2 * _LONGEST_BACKOFF_S else 1
        now_s = self._clock()
        # When Kafka is away, what failed before may have been that as well.
        since_s = now_s if self._since_s is None or isinstance(error, BrokerUnavailable) else self._since_s
        self._since_s = since_s
        self.keep = now_s - since_s > KEEPS_AFTER_S
        told = str(error)
        if (
            session_lives
            and isinstance(error, QueryFailed)
            and not any(each in told for each in _NOT_OF_THE_CHECKPOINT)
        ):
            self._without_commit += 1
        if isinstance(error, GenerationOutdated):
            self.checkpoint_trouble = str(error)
        elif self._without_commit >= _FAILURES_PER_CHECKPOINT:
            self.checkpoint_trouble = f"{self._without_commit} failures in a row, the last one: {error}"

    @property
    def backoff_s(self) -> float:
        """How long to wait before the next try, in seconds."""
        return min(_FIRST_BACKOFF_S * 2.0 ** min(self._in_a_row - 1, 10), _LONGEST_BACKOFF_S)

    @property
    def ask_for_new_session(self) -> bool:
        """Whether the next try should not use the same session."""
        return self._in_a_row % _FAILURES_PER_SESSION == 0

"""How the stream thread answers failures in a row: decisions without Spark."""

from __future__ import annotations

from typing import Final

from topology.errors import GenerationOutdated, QueryFailed

_FIRST_BACKOFF_S: Final = 0.5
_LONGEST_BACKOFF_S: Final = 30.0
_FAILURES_PER_SESSION: Final = 3
_FAILURES_PER_CHECKPOINT: Final = 3
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

    Attributes:
        checkpoint_trouble: why the checkpoint seems to be unusable, when it does.
    """

    def __init__(self) -> None:
        self.checkpoint_trouble: str | None = None
        self._in_a_row = 0
        self._without_commit = 0

    def committed(self) -> None:
        """Take note of a checkpoint that can be used: it is new, or a batch was committed to it."""
        self._without_commit = 0
        self.checkpoint_trouble = None

    def add(self, error: Exception, *, ran_s: float, session_lives: bool) -> None:
        """Take note of a failure.

        Args:
            error: what it was.
            ran_s: how long the stream ran before it, in seconds.
            session_lives: whether there is a session whose JVM runs.
        """
        self._in_a_row = self._in_a_row + 1 if ran_s < 2 * _LONGEST_BACKOFF_S else 1
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

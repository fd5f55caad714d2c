"""Says in the log what a stream waits for that does not get on: the thread itself may stand in a call that hangs."""

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from runtime.stream.status import StreamStatus

logger = logging.getLogger(__name__)

_AGAIN_AFTER_S: Final = 300.0


class StreamWaits:
    """Looks at the stream now and then; what it waits for long for is said once, and again every five minutes."""

    def __init__(self) -> None:
        self._said: str | None = None
        self._said_at_s = 0.0

    def look(self, status: "StreamStatus | None", now_s: float) -> None:
        """Log what is new.

        Args:
            status: what the stream thread says of itself; None without one.
            now_s: wall-clock time in seconds.
        """
        # A failure is logged where it happens.
        trouble = None if status is None or status.error is not None else status.trouble(now_s)
        if status is None or trouble is None:
            self._said = None
        elif status.waits_for != self._said or now_s - self._said_at_s >= _AGAIN_AFTER_S:
            self._said, self._said_at_s = status.waits_for, now_s
            logger.warning("the stream does not get on: %s", trouble)

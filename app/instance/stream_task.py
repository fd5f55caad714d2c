"""The stream task of this instance: one stream thread while the group gives it the task, none otherwise."""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from runtime.errors import LeaderboardError
from runtime.stream.failures import KEEPS_AFTER_S

if TYPE_CHECKING:
    from runtime.stream.status import StreamStatus
    from runtime.stream.thread import StreamThread

logger = logging.getLogger(__name__)

_TRY_AGAIN_AFTER_S: Final = 1.0
_ENDS_WITHIN_S: Final = 8.0
_FAILS_FOR_S: Final = 600.0
"""How long an instance that has given up a failing stream is passed over."""


class StreamTask:
    """Starts and stops stream threads as the task comes and goes. Everything happens in one event loop.

    Args:
        make: returns a new stream thread. Called in a thread, since the first call loads Spark's libraries, and again
            after an error.

    Attributes:
        standby: the place of this instance in the order in which stream standbys take over, 1 for the first; 0: none.
        epoch: how often the stream had been handed to somebody when it came here the last time; 0 if it never did.
    """

    def __init__(self, make: "Callable[[], StreamThread]") -> None:
        self._make = make
        self.standby = 0
        self.epoch = 0
        self._wanted = False
        self._thread: StreamThread | None = None
        self._last_thread: StreamThread | None = None
        self._cannot_be_made_since_s: float | None = None
        self._cannot_be_made: tuple[int, str] = (0, "")
        self._failed_at_s = -math.inf
        self._turn = asyncio.Lock()
        self._changes: set[asyncio.Task[None]] = set()

    @property
    def held(self) -> bool:
        """Whether this instance has the task, from when it was given until the thread has ended."""
        return self._wanted or self._thread is not None

    def fails(self) -> bool:
        """Return whether the stream keeps failing here, or did so not long ago: another instance should try."""
        now_s = time.monotonic()
        if self._thread is not None:
            fails = self._thread.status.keeps_failing
        elif self._cannot_be_made_since_s is not None:
            fails = now_s - self._cannot_be_made_since_s > KEEPS_AFTER_S
        else:
            return now_s - self._failed_at_s < _FAILS_FOR_S
        if fails:
            self._failed_at_s = now_s
        return fails

    def failures(self) -> tuple[int, str]:
        """Return how often the stream has failed here, and why it does now; empty while it does not."""
        if self._thread is None:
            return self._cannot_be_made
        return self._thread.failed, self._thread.status.error or ""

    def trouble(self) -> str | None:
        """Return why the stream does not get to work here; None when it does, or is elsewhere."""
        if self._thread is None:
            return self._cannot_be_made[1] or None
        return self._thread.status.trouble(time.time())

    @property
    def status(self) -> "StreamStatus | None":
        """What the stream thread says of itself, None without one."""
        return self._thread.status if self._thread else None

    def assign(self, *, stream: bool, standby: int, epoch: int) -> None:
        """Take what the group has given to this instance; returns at once.

        Args:
            stream: whether it has the task.
            standby: its place among the stream standbys, 0: none.
            epoch: how often the stream has been handed to somebody, to this instance or another one.
        """
        self.standby = standby
        if stream:
            self.epoch = epoch
        self._want(stream)

    async def stop(self) -> None:
        """Give the task up and wait until its thread has ended."""
        self.standby = 0
        self._want(False)
        await asyncio.gather(*self._changes)

    async def end(self) -> None:
        """After `stop`: wait for what that leaves behind, a JVM that was just starting, and its files with it."""
        if self._last_thread is not None:
            await asyncio.to_thread(self._last_thread.join_all, _ENDS_WITHIN_S)

    def _want(self, wanted: bool) -> None:
        if wanted != self._wanted:
            self._wanted = wanted
            if not wanted and self._thread is not None:
                self._thread.request_stop()
            change = asyncio.create_task(self._change())
            self._changes.add(change)
            change.add_done_callback(self._changes.discard)

    async def _change(self) -> None:
        # One change at a time: a thread that is asked for again begins when the one before has ended, since both would
        # use the same JVM and the same working directory.
        async with self._turn:
            if self._wanted and self._thread is None:
                thread = await self._made()
                if thread is not None and self._wanted:
                    thread.start()
                    self._thread = thread
            elif not self._wanted and self._thread is not None:
                self._thread.request_stop()
                await asyncio.to_thread(self._thread.join)
                self._last_thread, self._thread = self._thread, None

    async def _made(self) -> "StreamThread | None":
        """Return a new stream thread once one can be made, None when it is not wanted any more."""
        said = ""
        while self._wanted:
            try:
                thread = await asyncio.to_thread(self._make)
                self._cannot_be_made_since_s = None
                self._cannot_be_made = (0, "")
                return thread
            except Exception as error:
                if self._cannot_be_made_since_s is None:
                    self._cannot_be_made_since_s = time.monotonic()
                self._cannot_be_made = (self._cannot_be_made[0] + 1, str(error))
                # Others believe that the stream runs here: what is missing may come back, and nothing else tells.
                if str(error) != said:
                    said = str(error)
                    foreseen = isinstance(error, (LeaderboardError, OSError))
                    logger.error("the stream cannot start: %s", said, exc_info=not foreseen)
                await asyncio.sleep(_TRY_AGAIN_AFTER_S)
        self._cannot_be_made_since_s = None
        self._cannot_be_made = (0, "")
        return None

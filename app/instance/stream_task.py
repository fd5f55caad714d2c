"""The stream task of this instance: one stream thread while it has the task, or waits warm to take it over."""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from runtime.errors import DeclarationError, LeaderboardError
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
        self._given_up = 0
        self._turn = asyncio.Lock()
        self._changes: set[asyncio.Task[None]] = set()

    @property
    def held(self) -> bool:
        """Whether this instance has the task, from when it was given until the thread has ended."""
        return self._wanted or self._running is not None

    @property
    def _running(self) -> "StreamThread | None":
        """The thread unless it only waits to take over."""
        return self._thread if self._thread is not None and self._thread.begun else None

    def fails(self) -> bool:
        """Return whether the stream keeps failing here, or did so not long ago: another instance should try."""
        now_s = time.monotonic()
        if self._running is not None:
            fails = self._running.status.keeps_failing
        elif self._cannot_be_made_since_s is not None:
            fails = now_s - self._cannot_be_made_since_s > KEEPS_AFTER_S
        else:
            return now_s - self._failed_at_s < _FAILS_FOR_S
        if fails:
            self._failed_at_s = now_s
        return fails

    def works(self) -> bool:
        """Return whether the stream has come to where new events show at once, or at its pace."""
        return self._running is not None and self._running.works

    @property
    def ready(self) -> bool:
        """Whether the stream could begin here at once, on a Spark that is warm."""
        return self._thread is not None and self._thread.warm

    def warm_up(self) -> None:
        """Warm Spark up, where it is kept to take over; nothing happens when that goes on, or has been done."""
        if self._thread is not None:
            self._thread.warm_up()

    def lost_its_jvm(self) -> bool:
        """Return whether the stream, which has worked here, stands still without a JVM for the first time."""
        return self._running is not None and self._running.lost_its_jvm

    @property
    def refused(self) -> DeclarationError | None:
        """Why the topology cannot run as it is declared, when the stream has found that here."""
        return None if self._running is None else self._running.refused

    def superseded(self) -> bool:
        """Return whether the stream stands still here since another driver works on its checkpoint."""
        return self._wanted and self._running is not None and self._running.superseded

    def failures(self) -> tuple[int, str]:
        """Return how often the stream has failed here, and why it does now; empty while it does not."""
        if self._running is None:
            return self._cannot_be_made
        return self._running.failed, self._running.status.error or ""

    def trouble(self) -> str | None:
        """Return why the stream does not get to work here; None when it does, or is elsewhere."""
        if self._running is None:
            return self._cannot_be_made[1] or None
        return self._running.status.trouble(time.time())

    @property
    def status(self) -> "StreamStatus | None":
        """What the stream thread says of itself, None without one."""
        return self._running.status if self._running else None

    def assign(self, *, stream: bool, standby: int, epoch: int) -> bool:
        """Take what the group has given to this instance; returns at once.

        Args:
            stream: whether it has the task.
            standby: its place among the stream standbys, 0: none.
            epoch: how often the stream has been handed to somebody, to this instance or another one; 0 where the
                group's leader does not know.

        Returns:
            Whether it is taken: not where this instance has taken the stream over since, or has given it up, and the
            group has yet to know.
        """
        taken_over_since = self._wanted and not stream and epoch < self.epoch
        given_up_since = stream and epoch <= self._given_up
        if epoch > 0 and (taken_over_since or given_up_since):
            return False
        if stream:
            self.epoch = epoch
        self._want(stream=stream, standby=standby)
        return True

    def take_over(self, epoch: int) -> None:
        """Take the stream before the group gives it to this instance.

        Args:
            epoch: above that of whoever had it.
        """
        self.epoch = epoch
        self._want(stream=True, standby=0)

    def _want(self, *, stream: bool, standby: int) -> None:
        if (stream, standby) != (self._wanted, self.standby):
            self._wanted, self.standby = stream, standby
            if not stream and self._running is not None:
                self._running.request_stop()
            change = asyncio.create_task(self._change())
            self._changes.add(change)
            change.add_done_callback(self._changes.discard)

    async def give_up(self) -> None:
        """Stop, and do not take the task again until the group gives it anew."""
        self._given_up = self.epoch
        await self.stop()

    async def stop(self) -> None:
        """Give the task up and wait until its thread has ended."""
        self._want(stream=False, standby=0)
        await asyncio.gather(*self._changes)

    async def end(self) -> None:
        """After `stop`: wait for what that leaves behind, a JVM that was just starting, and its files with it."""
        if self._last_thread is not None:
            await asyncio.to_thread(self._last_thread.join_all, _ENDS_WITHIN_S)

    async def _change(self) -> None:
        # One change at a time: a thread that is asked for again begins when the one before has ended, since both would
        # use the same JVM and the same working directory.
        async with self._turn:
            thread = self._thread
            if thread is not None and not self._wanted and (thread.begun or not self.standby):
                thread.request_stop()
                await asyncio.to_thread(thread.join)
                self._last_thread, self._thread = thread, None
            if self._is_needed and self._thread is None:
                self._thread = await self._made()
            if self._thread is not None and self._wanted:
                self._thread.start()
            elif self._thread is not None and self.standby:
                self._thread.prepare()

    @property
    def _is_needed(self) -> bool:
        return self._wanted or self.standby > 0

    async def _made(self) -> "StreamThread | None":
        """Return a new stream thread once one can be made, None when it is not wanted any more."""
        said = ""
        while self._is_needed:
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

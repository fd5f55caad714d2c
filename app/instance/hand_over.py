"""The stream passes from one instance to the next without waiting for the group.

The first stream standby follows whoever runs the stream over a connection. It begins when that one says so, or when the
connection breaks and nothing listens there any more; the group is told after it. Should two work at once, since the
one before was only cut off, that one has the lower driver's number, and the lower epoch in the group: it stops.

    holder   ── SIGTERM, once a follower is ready ──┐
             ── its JVM is gone ────────────────────┴─▶ ends the stream ─ over ─▶ ┐
    follower ── the connection breaks, and a new one is refused ────────────────▶ begins, tells the group
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

from api.cluster.followed import WORKS, Followed
from api.cluster.stream_link import LinkEnd, StreamLink, refuses
from app.instance.stream_task import StreamTask
from runtime.cluster.host_metadata import HostInfo
from runtime.cluster.membership import Membership

logger = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 0.1
_ASK_AGAIN_AFTER_S: Final = 0.5
READY_WITHIN_S: Final = 20.0
"""How long a stop waits for a standby that is warming up: the stream goes on meanwhile. Who ends this process before
that loses nothing by it."""
_GROUP_IS_ASKED_AFTER_S: Final = 30.0
"""By then the group mostly knows who has the stream, or that nobody has."""
_STOOD_STILL_S: Final = 5.0
"""A process that was frozen for so long may be given up by the group: what it finds when it goes on may be old."""
_ONE_AT_A_TIME: Final = frozenset({"file", "hdfs"})
"""Where a file that must not exist is made by one of those who try at once. A driver's number is such a file."""


class HandOver:
    """This instance's part in it. Everything happens in one event loop.

    Args:
        stream: the stream task.
        membership: of the group.
        link: to whoever runs the stream.
        followed: who follows the stream of this instance.
        checkpoint_uri: where drivers' numbers are.
    """

    def __init__(
        self, stream: StreamTask, membership: Membership, link: StreamLink, followed: Followed, checkpoint_uri: str
    ) -> None:
        self._stream = stream
        self._membership = membership
        self._link = link
        self._followed = followed
        self._may_take_over = urlsplit(checkpoint_uri).scheme in _ONE_AT_A_TIME
        self._followed_to: HostInfo | None = None

    async def run(self) -> None:
        """Follow whoever runs the stream while this instance is its first standby; until cancelled."""
        try:
            while True:
                holder = self._holder()
                if holder is not None:
                    await self._follow(holder)
                await asyncio.sleep(_LOOK_EVERY_S)
        finally:
            await self._link.close()

    async def give_up_without_jvm(self) -> None:
        """Hand the stream over when its JVM is gone and another instance follows; until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            if self._followed.count and self._stream.lost_its_jvm():
                logger.warning("Spark's JVM is gone: the stream is handed over to a standby")
                await self._end(self._stream.give_up)
                self._membership.request_rebalance()

    async def give_up_superseded(self) -> None:
        """Give the stream up when another driver works on its checkpoint, and the group knows of none; until cancelled.

        Whoever took the stream over may have ended before it told the group, which is asked if it does not say by
        itself.
        """
        since: int | None = None
        ask_at_s = math.inf
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            generation = self._membership.current().generation
            if not self._stream.superseded():
                since = None
            elif since is None:
                since, ask_at_s = generation, time.monotonic() + _GROUP_IS_ASKED_AFTER_S
            elif generation == since and time.monotonic() > ask_at_s:
                ask_at_s = math.inf
                self._membership.request_rebalance()
            elif generation > since:
                # The assignment may be on its way to the stream.
                await asyncio.sleep(_LOOK_EVERY_S)
                if self._stream.superseded():
                    logger.warning("another driver had the stream, and the group knows of none: it is given up here")
                    await self._stream.give_up()
                    self._membership.request_rebalance()

    async def end(self) -> None:
        """End the stream here, and have whoever follows begin; one that is warming up is waited for."""
        deadline_s = time.monotonic() + READY_WITHIN_S
        while self._waits_for_a_standby() and time.monotonic() < deadline_s:
            await asyncio.sleep(_LOOK_EVERY_S)
        await self._end(self._stream.stop)

    def _waits_for_a_standby(self) -> bool:
        # Nobody warms up before the stream works here.
        return self._stream.works() and self._followed.count > 0 and self._followed.nobody_is_ready

    async def _end(self, stop: Callable[[], Awaitable[None]]) -> None:
        had_stream = self._stream.held
        await stop()
        if had_stream:
            self._followed.over()

    def _holder(self) -> HostInfo | None:
        """Return whom to follow: None unless this instance is the first to take over."""
        return self._membership.current().stream_holder if self._stream.standby == 1 else None

    async def _follow(self, holder: HostInfo) -> None:
        """Follow the holder until the connection ends, or what this instance is to it has changed."""
        epoch, ready = self._membership.current().stream_epoch, self._stream.ready

        def is_as_before() -> bool:
            return self._holder() == holder and self._membership.current().stream_epoch == epoch

        following = asyncio.create_task(
            self._link.follow(holder, ready=ready, take=lambda line: self._take(holder, line))
        )
        stood_still, looked_at_s = False, time.monotonic()
        try:
            while not (following.done() or stood_still) and is_as_before() and self._stream.ready == ready:
                await asyncio.wait([following], timeout=_LOOK_EVERY_S)
                before_s, looked_at_s = looked_at_s, time.monotonic()
                stood_still = looked_at_s - before_s > _STOOD_STILL_S
        finally:
            following.cancel()
        if stood_still:
            # The group may have given the stream to another one since, and decides.
            self._followed_to = None
        elif following.done() and is_as_before():
            await self._ended(holder, epoch, following.result(), is_as_before)

    async def _ended(self, holder: HostInfo, epoch: int, end: LinkEnd, is_as_before: Callable[[], bool]) -> None:
        why = end.value
        if end is LinkEnd.BROKEN and holder == self._followed_to and self._may_take_over and await refuses(holder):
            why = "nothing listens there any more"
        elif end is not LinkEnd.OVER:
            # It has yet to begin, is cut off for a moment, or of a version that nobody can follow.
            await asyncio.sleep(_ASK_AGAIN_AFTER_S)
            return
        if is_as_before():
            logger.warning("taking over the stream of %s: %s", holder, why)
            self._stream.take_over(epoch + 1)
            self._membership.request_rebalance()

    def _take(self, holder: HostInfo, line: bytes) -> None:
        self._followed_to = holder
        if line == WORKS:
            self._stream.warm_up()

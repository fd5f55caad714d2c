"""Follows the rows of one partition for a feed: from this instance's copy, or from a holder's stream.

Who is followed is the router's decision, as for any read: a current copy here, else the active one, then the standbys.
When the one that is followed ends or fails, the next one is asked from the position on that has been reached, so that
readers never see a row that is older than what they have.

           ┌── the first choice is another one, or the stream broke ──┐
           ▼                                                          │
    choose a source ─▶ this copy: wait for its position, load, follow what it tells ──┤
           └─────────▶ a holder: read its stream ─────────────────────┘
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from contextvars import Context
from typing import Any, Final

from api.cluster.peers import Peers
from api.cluster.router import Router
from api.cluster.routing import Local, Remote
from api.http.key_route import decoded, encoded
from api.live.feed import Feed
from api.reads.cut import query_of
from api.reads.gather import AT_ONCE
from api.reads.told import reach
from runtime.cluster.host_metadata import HostInfo
from runtime.errors import InvalidRecord, StateUnusable
from runtime.keys import KeyType, KeyValue
from runtime.serving.view import EVERYTHING, Cut, Range, Rendered, View, tagged

logger = logging.getLogger(__name__)

AGAIN_S: Final = 0.25
"""How long to wait until a host that has just failed is asked once more, when nobody else can be."""
_AGAIN_MOST_S: Final = 2.0
"""The same when it has failed again and again: each time it is twice as long, up to this."""
_STAYS_S: Final = 5.0
"""How long a standby here is followed that is not current: when Kafka is slow, thousands of streams would move at once,
and back a moment later."""
_AT_EACH_CHANGE_BYTES: Final = 32 * 1024
"""Up to this size one key's row is read at each change."""
_BYTES_PER_S: Final = 512 * 1024
"""A longer one, the list of very many windows, is read so seldom that no more comes of it. All of it is made anew each
time, 0.1 s for a megabyte in which nothing else is answered, and goes to every reader."""


class Follower:
    """Follows one partition, or one key of it.

    Args:
        feed: what is written to.
        partition: which partition.
        key: only this key, or None for all.
        cut: how much of a row.
        hop: whether a peer asks: then only this instance's copy is followed, and the feed ends with it.
        view: the rows of this instance's copies.
        router: who answers for a partition.
        peers: the other instances.
    """

    def __init__(
        self,
        feed: Feed,
        partition: int,
        key: KeyValue | None,
        cut: Cut,
        *,
        hop: bool,
        view: View,
        router: Router,
        peers: Peers,
    ) -> None:
        self.partition = partition
        self.key = key
        self._feed = feed
        self._cut = cut
        self._hop = hop
        self._view = view
        self._router = router
        self._peers = peers
        self._source: Local | HostInfo | None = None
        self._task: asyncio.Task[None] | None = None
        self._again: asyncio.TimerHandle | None = None
        self._rest: asyncio.TimerHandle | None = None
        self._has_changed = False
        self._current_at_s = 0.0
        self._unreadable = False
        # The rows that have been read of those of the partition, while not all have.
        self._seen: set[KeyValue] | None = None
        self._unreached = False
        self._pause_s = AGAIN_S
        self.is_local = False

    def follow(self, *, reload: bool = False) -> None:
        """Choose the source; nothing happens when it is followed already.

        Args:
            reload: whether what this instance's copy holds has to be read again.
        """
        try:
            self._follow(reload=reload)
        except Exception:
            # Whoever looks after all followers goes on with the others.
            logger.exception("following partition %d failed", self.partition)
            self._leave_source()
            self._follow_later()

    def _follow(self, *, reload: bool) -> None:
        source = self._first_choice()
        followed = self.is_local or (self._task is not None and not self._task.done())
        if source == self._source and followed and not (reload and self.is_local):
            return
        self._leave_source()
        self._source = source
        if isinstance(source, Local):
            self._follow_here()
        elif source is not None:
            self._begin(self._follow_peer(source))
        elif self._hop:
            self._feed.close()

    def stop(self) -> None:
        """Follow nobody any more."""
        self._leave_source()

    def changed(self, key: KeyValue) -> None:
        """Take a row from this instance's copy: now, or after a long one together with what changes until then."""
        if self._rest is not None:
            self._has_changed = True
            return
        status = self._view.status(self.partition)
        # An emptied store is being filled again: what it does not have is not gone.
        if not status.can_answer:
            return
        try:
            row = self._view.get(key, self._cut)
        except StateUnusable as error:
            self._read_again(error)
            return
        self._feed.reached(self.partition, status.position, status.topic_id)
        self._feed.put(self.partition, key, row)
        if self._seen is not None:
            self._seen.add(key)
        if self.key is not None and row is not None and len(row.body) > _AT_EACH_CHANGE_BYTES:
            self._rest = asyncio.get_running_loop().call_later(len(row.body) / _BYTES_PER_S, self._end_rest, key)

    def _end_rest(self, key: KeyValue) -> None:
        self._rest = None
        if self._has_changed:
            self._has_changed = False
            self.changed(key)

    def _first_choice(self) -> Local | HostInfo | None:
        status, now_s = self._view.status(self.partition), time.monotonic()
        if status.is_current:
            self._current_at_s = now_s
        elif self.is_local and now_s - self._current_at_s < _STAYS_S:
            status = status._replace(is_current=True)
        route = self._router.route(self.partition, status, hop=self._hop)
        if isinstance(route, Remote):
            return route.hosts[0]
        return route if isinstance(route, Local) else None

    def _leave_source(self) -> None:
        self.is_local = False
        for timer in (self._again, self._rest):
            if timer is not None:
                timer.cancel()
        self._again = self._rest = None
        self._has_changed = False
        self._seen = None
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    # This instance's copy

    def _follow_here(self) -> None:
        status = self._view.status(self.partition)
        if status.position < self._feed.positions.get(self.partition, 0):
            self._begin(self._wait_for_position())
        else:
            self._load()

    def _read_again(self, error: StateUnusable) -> None:
        """Leave this instance's copy, which could not be read, and read all that is followed of it in a moment."""
        self._leave_source()
        if not self._unreadable:
            logger.warning("partition %d cannot be read for its streams now: %s", self.partition, error)
        self._unreadable = True
        self._again = asyncio.get_running_loop().call_later(AGAIN_S, self.follow)

    async def _wait_for_position(self) -> None:
        await reach(self._view, self.partition, self._feed.positions[self.partition])
        self._load()

    def _load(self) -> None:
        status = self._view.status(self.partition)
        try:
            rows = self._rows(EVERYTHING)
        except StateUnusable as error:
            self._read_again(error)
            return
        self._feed.positions.pop(self.partition, None)
        self._feed.reached(self.partition, status.position, status.topic_id)
        for key, row in rows.items():
            self._feed.put(self.partition, key, row)
        self.is_local, self._unreadable = True, False
        if self.key is None and len(rows) >= AT_ONCE:
            self._seen = set(rows)
            self._begin(self._load_the_rest(self._seen))
        else:
            self._feed.completed(self.partition, set(rows))
        self._reached()

    async def _load_the_rest(self, seen: set[KeyValue]) -> None:
        """Read the other rows, some at a time; what changes meanwhile is taken as it comes.

        Args:
            seen: the keys of the first rows; those of all others are added.
        """
        last = max(seen)
        while (first := self._view.key_type.following(last)) is not None:
            await asyncio.sleep(0)
            if not self._view.status(self.partition).can_answer:
                # What an emptied store does not have is not gone.
                self._leave_source()
                self._follow_later()
                return
            try:
                rows = self._rows(Range(first))
            except StateUnusable as error:
                self._read_again(error)
                return
            for key, row in rows.items():
                self._feed.put(self.partition, key, row)
            seen.update(rows)
            if len(rows) < AT_ONCE:
                break
            last = max(rows)
        self._seen = None
        self._feed.completed(self.partition, seen)

    def _rows(self, within: Range) -> dict[KeyValue, Rendered | None]:
        """Return the first rows of a range, `AT_ONCE` of them at most."""
        if self.key is not None:
            return {self.key: self._view.get(self.key, self._cut)}
        some = self._view.rows([self.partition], within._replace(most=AT_ONCE), self._cut)
        return {key: tagged(row) for key, row in some}

    # A holder's stream

    async def _follow_peer(self, host: HostInfo) -> None:
        key_type = self._view.key_type
        stream = _PeerStream(self._feed, self.partition, key_type)
        key = "" if self.key is None else f"&key={encoded(key_type.text(self.key))}"
        at_least = self._feed.positions.get(self.partition, 0)
        internal = f"/internal/stores/{self._view.name}/events"
        target = f"{internal}?partition={self.partition}{query_of(self._cut)}{key}&at_least={at_least}&tells_topic=true"
        was_down = host in self._peers.down.avoided()
        reason = await self._peers.follow(host, target, stream.take)
        if stream.began:
            self._reached()
        # Once: there may be hundreds of streams, and their only holder away for long.
        level = logging.DEBUG if self._unreached else logging.INFO
        logger.log(level, "the stream of partition %d from %s ended: %s", self.partition, host, reason)
        self._unreached = not stream.began
        if was_down and not stream.began:
            # It was the last hope, and still is.
            await asyncio.sleep(self._next_pause_s())

    def _reached(self) -> None:
        self._unreached, self._pause_s = False, AGAIN_S

    def _next_pause_s(self) -> float:
        """Return how long to wait now; twice as long the next time, until something has been reached."""
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, _AGAIN_MOST_S)
        return pause_s

    # Tasks

    def _begin(self, source: Coroutine[Any, Any, None]) -> None:
        # In no request's context: it goes on when the one that opened the feed has long ended.
        self._task = asyncio.get_running_loop().create_task(source, context=Context())
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task is not self._task:
            return
        error = task.exception()
        if error is None:
            self.follow()
        else:
            logger.error("following partition %d failed", self.partition, exc_info=error)
            self._follow_later()

    def _follow_later(self) -> None:
        self._again = asyncio.get_running_loop().call_later(self._next_pause_s(), self.follow)


class _PeerStream:
    """Takes the lines of a holder's stream.

    Attributes:
        began: whether it told of anything: that of a holder that stops is open for a moment, and empty.
    """

    def __init__(self, feed: Feed, partition: int, key_type: KeyType) -> None:
        self.began = False
        self._parse = key_type.parse
        self._feed = feed
        self._partition = partition
        self._seen: set[KeyValue] | None = set()
        self._first_position = True

    def take(self, line: bytes) -> None:
        """Take one line, as `event_stream.Lines` writes it.

        Raises:
            ValueError: it is none.
        """
        self.began = self.began or bool(line)
        if line[:1] == b"@":
            position, _, topic_id = line[1:].partition(b" ")
            self._take_position(int(position), topic_id.decode())
        elif line == b".":
            # Once: of what comes and goes later, the stream tells each.
            if self._seen is not None:
                self._feed.completed(self._partition, self._seen)
                self._seen = None
        elif line:
            name, _, body = line.partition(b" ")
            key = self._key(name)
            if self._seen is not None:
                self._seen.add(key)
            self._feed.put(self._partition, key, tagged(body) if body else None)

    def _key(self, name: bytes) -> KeyValue:
        try:
            return self._parse(decoded(name.decode()))
        except InvalidRecord as error:
            raise ValueError(f"{name[:40]!r} is no key") from error

    def _take_position(self, position: int, topic_id: str) -> None:
        if self._first_position:
            # The holder waited for the position before; if it is lower yet, the topic's offsets began again.
            self._feed.positions.pop(self._partition, None)
            self._first_position = False
        self._feed.reached(self._partition, position, topic_id)

"""All feeds of an instance: each there once, however many read it, and only as long as somebody does or may return.

Knows what the copies of this instance tell (`runtime.serving.view.Watcher`), and looks from time to time whether
somebody else has become the first choice for a partition. A change reaches its feeds in the next turn of the event
loop.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass
from typing import Final

from api.cluster.peers import Peers
from api.cluster.router import Router
from api.live.event_stream import AllKeys, Format, Lines, OneKey, Words, as_it_is
from api.live.feed import Feed, Reader
from api.live.follower import Follower
from runtime.keys import KeyValue
from runtime.serving.view import Cut, View

_LOOK_EVERY_S: Final = 0.5
_SLICE_S: Final = 0.002
_KEPT_S: Final = 30.0
"""How long a feed of all rows is there without a reader: only there can one that comes again go on."""
_KEPT_MOST: Final = 4
"""So many feeds are there without a reader: each holds every row, and there may be one for each limit."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a feed is of.

    Attributes:
        cut: how much of a row.
        key: of one row, or None for all.
        part: for a peer: only this partition, and only from this instance's copy.
        tells_topic: for a peer: whether it wants to know of which topic positions are.
    """

    cut: Cut
    key: KeyValue | None = None
    part: int | None = None
    tells_topic: bool = False


class Feeds:
    """The feeds that somebody reads, or has just read.

    Args:
        view: the rows of this instance's copies.
        router: who answers for a partition.
        peers: the other instances.
        words: what live updates call things.
        keeps: whether a feed of all rows is there for a while without a reader.
    """

    def __init__(self, view: View, router: Router, peers: Peers, words: Words, *, keeps: bool = True) -> None:
        self._view = view
        self._keeps = keeps
        self._words = words
        self._router = router
        self._peers = peers
        self._feeds: dict[Scope, Feed] = {}
        self._kept: dict[Scope, asyncio.TimerHandle] = {}
        self._followers: dict[Scope, list[Follower]] = {}
        self._by_group: dict[KeyValue, set[Follower]] = {}
        self._by_partition: dict[int, set[Follower]] = {}
        self._partition_count = 0
        self._seen: dict[int, object] = {}
        # By group, the row that changed last.
        self._dirty: dict[KeyValue, KeyValue] = {}
        self._round: dict[KeyValue, KeyValue] = {}
        self._due: list[tuple[Follower, KeyValue]] = []
        self._taking = False
        self._reload = False
        self._look_now = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._unwatch: Callable[[], None] | None = None
        self._ended = False

    @contextmanager
    def reader(self, scope: Scope, last_event_id: bytes | None = None) -> Iterator[Reader]:
        """Begin to read a feed; the feed is there as long as anybody reads it, and one that is kept a while longer.

        Args:
            scope: what to read.
            last_event_id: what the reader had last, when it has been here before.
        """
        # A change of one row may be one of many others, each at its own pace: of such a view nobody is told of all.
        assert scope.key is not None or not self._view.pace_s, f"{self._view.name} is followed by key"
        feed = self._feeds.get(scope)
        if feed is not None and feed.closed:
            self._close(scope)
            feed = None
        feed = feed or self._open(scope)
        self._keep_no_longer(scope)
        reader = Reader(feed, last_event_id)
        feed.add(reader)
        try:
            yield reader
        finally:
            feed.remove(reader)
            if not feed.readers and self._feeds.get(scope) is feed:
                self._leave(scope, feed)

    def end(self) -> None:
        """End all streams, also those that come later: the instance stops, and readers find another one."""
        self._ended = True
        for scope in list(self._kept):
            self._close(scope)
        for feed in list(self._feeds.values()):
            feed.close()

    # Feeds

    def _open(self, scope: Scope) -> Feed:
        feed = self._feeds[scope] = Feed(self._format(scope))
        self._followers[scope] = []
        if self._ended:
            feed.close()
            return feed
        if self._looking is None:
            self._unwatch = self._view.watch(self._changed)
            self._partition_count = self._view.partition_count
            # In no request's context, as what follows.
            self._looking = asyncio.get_running_loop().create_task(self._look_out(), name="feeds", context=Context())
        self._follow(scope, feed)
        return feed

    def _leave(self, scope: Scope, feed: Feed) -> None:
        """Close a feed without readers: now, or later when ids that clients have of it mean nothing to another one."""
        if feed.closed or not self._keeps or not isinstance(feed.format, AllKeys):
            self._close(scope)
            return
        if len(self._kept) >= _KEPT_MOST:
            self._close(next(iter(self._kept)))
        # In no request's context, as what the feed has begun.
        loop = asyncio.get_running_loop()
        self._kept[scope] = loop.call_later(_KEPT_S, self._close, scope, context=Context())

    def _keep_no_longer(self, scope: Scope) -> None:
        if (kept := self._kept.pop(scope, None)) is not None:
            kept.cancel()

    def _close(self, scope: Scope) -> None:
        self._keep_no_longer(scope)
        self._feeds.pop(scope).close()
        for follower in self._followers.pop(scope):
            follower.stop()
            self._unindex(follower)
        if not self._feeds and self._looking is not None and self._unwatch is not None:
            self._looking.cancel()
            self._unwatch()
            self._looking = self._unwatch = None
            self._dirty.clear()
            self._round.clear()
            self._due.clear()
            self._seen.clear()

    def _follow(self, scope: Scope, feed: Feed) -> None:
        if not self._partition_count:
            return
        partitions = range(self._partition_count)
        if scope.part is not None:
            partitions = range(scope.part, scope.part + 1)
        elif scope.key is not None:
            partition = self._view.partition_for(scope.key)
            partitions = range(partition, partition + 1)
        feed.expect(frozenset(partitions))
        for partition in partitions:
            follower = Follower(
                feed,
                partition,
                scope.key,
                scope.cut,
                hop=scope.part is not None,
                view=self._view,
                router=self._router,
                peers=self._peers,
            )
            self._followers[scope].append(follower)
            self._index(follower)
            follower.follow()

    def _index(self, follower: Follower) -> None:
        if follower.key is not None:
            self._by_group.setdefault(self._view.group_of(follower.key), set()).add(follower)
        else:
            self._by_partition.setdefault(follower.partition, set()).add(follower)

    def _unindex(self, follower: Follower) -> None:
        if follower.key is not None:
            index, of = self._by_group, self._view.group_of(follower.key)
        else:
            index, of = self._by_partition, follower.partition
        index[of].discard(follower)
        if not index[of]:
            del index[of]

    # What the copies of this instance tell

    def _changed(self, key: KeyValue | None) -> None:
        if key is None:
            self._reload = True
            self._look_now.set()
        elif (group := self._view.group_of(key)) in self._by_group or self._by_partition:
            self._dirty[group] = key
            if not self._taking:
                self._taking = True
                self._begin_round()

    def _begin_round(self) -> None:
        """Have what is dirty taken, when it is time: what becomes dirty meanwhile waits for the next round."""
        loop, pace_s = asyncio.get_running_loop(), self._view.pace_s
        if pace_s:
            # In no request's context.
            loop.call_later(pace_s, self._take_round, context=Context())
        else:
            loop.call_soon(self._take_round)

    def _take_round(self) -> None:
        self._round, self._dirty = self._dirty, {}
        self._take_changes()

    def _take_changes(self) -> None:
        until = time.monotonic() + _SLICE_S
        try:
            while (self._round or self._due) and time.monotonic() < until:
                if not self._due:
                    self._due = self._followers_of(*self._round.popitem())
                    continue
                follower, key = self._due.pop()
                if follower.is_local:
                    follower.changed(key)
        finally:
            # Also after an error, or no change would be taken any more.
            if self._round or self._due:
                asyncio.get_running_loop().call_soon(self._take_changes)
            elif self._dirty:
                self._begin_round()
            else:
                self._taking = False

    def _followers_of(self, group: KeyValue, key: KeyValue) -> list[tuple[Follower, KeyValue]]:
        """Return who has to look at which row, where one of a group has changed."""
        of_all = self._by_partition.get(self._view.partition_for(key), ())
        of_one = ((each, each.key) for each in self._by_group.get(group, ()))
        return [*of_one, *((each, key) for each in of_all)]

    # Who is the first choice

    async def _look_out(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_LOOK_EVERY_S):
                    await self._look_now.wait()
            except TimeoutError:
                pass
            self._look_now.clear()
            self._look()

    def _look(self) -> None:
        count = self._view.partition_count
        if count != self._partition_count:
            self._repartition(count)
        reload, self._reload = self._reload, False
        cluster = self._router.cluster()
        moved = set()
        for partition in range(count):
            status = self._view.status(partition)
            seen = (cluster, status.can_answer, status.role, status.is_current)
            # A standby that is not current may be left later.
            may_be_left = status.can_answer and status.role == "standby" and not status.is_current
            if self._seen.get(partition) != seen or may_be_left:
                self._seen[partition] = seen
                moved.add(partition)
        if not moved and not reload:
            return
        for follower in [each for followers in self._followers.values() for each in followers]:
            if reload or follower.partition in moved:
                follower.follow(reload=reload)

    def _repartition(self, count: int) -> None:
        known, self._partition_count = self._partition_count, count
        for scope, feed in list(self._feeds.items()):
            if known:
                # Every row may be in another partition now: readers begin again.
                feed.close()
            else:
                self._follow(scope, feed)

    def _format(self, scope: Scope) -> Format:
        if scope.part is not None:
            return Lines(self._view.key_type, tells_absent=scope.key is not None, tells_topic=scope.tells_topic)
        store = self._view.store.name
        if scope.key is not None:
            return OneKey(self._words, store)
        # A window, and a key of two parts, have no JSON of their own: the key's text in the topic names them.
        name_of = self._view.key_type.text if self._view.names_by_text else as_it_is
        return AllKeys(self._words, store, uuid.uuid4().hex[:12], name_of)

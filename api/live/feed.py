"""A feed: the rows of some scope as they are now, in the order of their last change, for any number of readers.

It is a compacted log. A reader keeps its position in it and no queue: however slow it is, it costs the same and gets
each row as it is when its turn comes. A row's bytes are made once for all readers.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from api.live.event_stream import Format
from runtime.keys import KeyValue
from runtime.serving.position import Position
from runtime.serving.view import Rendered

CHUNK_BYTES: Final = 32 * 1024
"""A reader is given about so much at a time; it may be stalled with that much outside of the feed."""
_GONE_KEPT: Final = 10_000
"""How many rows that are gone are remembered; a reader that has not been told of an older one begins again."""
_HELD_S: Final = 3.0
"""How long a row that is older than what the reader had is held back: a copy that far behind is left for another."""
_WAKE_AT_ONCE: Final = 100
"""Readers woken in one turn of the event loop: with thousands of them, requests are answered in between."""


@dataclass(frozen=True, slots=True)
class _Kept:
    sequence: int
    partition: int
    etag: str | None
    frame: bytes


class Feed:
    """The rows of a scope.

    Args:
        format: how they are written.

    Attributes:
        format: the same.
        sequence: the number of the last change.
        forgotten: changes up to this number are not all there any more.
        positions: partition to the position of the copy that its rows came from.
        topic_ids: partition to the topic that this is a position in, where that is known.
        closed: no more changes come; readers end.
    """

    def __init__(self, format: Format) -> None:  # noqa: A002
        self.format = format
        self.sequence = 0
        self.forgotten = 0
        self.positions: dict[int, int] = {}
        self.topic_ids: dict[int, str] = {}
        self.closed = False
        self._kept: dict[KeyValue, _Kept] = {}
        self._gone: dict[KeyValue, None] = {}
        self._partitions: frozenset[int] | None = None
        self._complete: set[int] = set()
        self._readers: dict[Reader, None] = {}
        self._to_wake: list[Reader] = []
        self._wave_again = False

    # Writing

    def expect(self, partitions: frozenset[int]) -> None:
        """Tell of which partitions the scope is."""
        self._partitions = partitions

    def put(self, partition: int, key: KeyValue, rendered: Rendered | None) -> None:
        """Take a row as it is now; None when there is none."""
        before = self._kept.get(key)
        etag = None if rendered is None else rendered.etag
        if (before.etag == etag) if before is not None else (etag is None and not self.format.tells_absent):
            return
        self.sequence += 1
        # Taken out and put in again, so that it stands last.
        self._kept.pop(key, None)
        self._gone.pop(key, None)
        self._kept[key] = _Kept(self.sequence, partition, etag, self.format.frame(key, rendered, self._at(partition)))
        if etag is None:
            self._gone[key] = None
            self._forget_long_gone()
        self._notify()

    def reached(self, partition: int, position: int, topic_id: str = "") -> None:
        """Note the position of the copy that the rows of a partition come from, in the topic of this id."""
        before = self.topic_ids.get(partition, "")
        if topic_id and before and topic_id != before:
            # Offsets of another topic: they begin anew.
            self.positions.pop(partition, None)
        self.positions[partition] = max(position, self.positions.get(partition, 0))
        self.topic_ids[partition] = topic_id

    def completed(self, partition: int, seen: set[KeyValue]) -> None:
        """Take it that a partition has no other rows than those seen now."""
        kept = [key for key, kept in self._kept.items() if kept.partition == partition and kept.etag]
        for key in kept:
            if key not in seen:
                self.put(partition, key, None)
        if partition not in self._complete:
            self._complete.add(partition)
            self._notify()

    def close(self) -> None:
        """End: no more changes come."""
        self.closed = True
        self._notify()

    def _at(self, partition: int) -> Position | None:
        topic_id = self.topic_ids.get(partition)
        return Position(topic_id, partition, self.positions[partition]) if topic_id else None

    def _forget_long_gone(self) -> None:
        if len(self._gone) > _GONE_KEPT:
            oldest = next(iter(self._gone))
            del self._gone[oldest]
            self.forgotten = self._kept.pop(oldest).sequence

    # Reading

    @property
    def is_complete(self) -> bool:
        """Whether every partition of the scope has been read once."""
        return self._partitions is not None and self._complete >= self._partitions

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return len(self._kept) - len(self._gone)

    @property
    def readers(self) -> int:
        """How many read it."""
        return len(self._readers)

    def frame(self, key: KeyValue) -> bytes | None:
        """Return the bytes of a row as it is now, or None when it is long gone."""
        kept = self._kept.get(key)
        return None if kept is None else kept.frame

    def changed_since(self, sequence: int) -> list[KeyValue]:
        """Return the keys whose rows changed after `sequence`, the latest first; from 0 on only those there are."""
        latest_first = takewhile(lambda each: each[1].sequence > sequence, reversed(self._kept.items()))
        if sequence or self.format.tells_absent:
            return [key for key, _ in latest_first]
        return [key for key, kept in latest_first if kept.etag is not None]

    def add(self, reader: Reader) -> None:
        """Wake `reader` at each change."""
        self._readers[reader] = None

    def remove(self, reader: Reader) -> None:
        """Wake it no more."""
        self._readers.pop(reader, None)

    def _notify(self) -> None:
        if self._to_wake:
            self._wave_again = True
        elif self._readers:
            self._to_wake = list(self._readers)
            self._wake_some()

    def _wake_some(self) -> None:
        for reader in self._to_wake[-_WAKE_AT_ONCE:]:
            reader.wake()
        del self._to_wake[-_WAKE_AT_ONCE:]
        if self._to_wake:
            asyncio.get_running_loop().call_soon(self._wake_some)
        elif self._wave_again:
            self._wave_again = False
            self._notify()


class Reader:
    """How far one reader is in a feed.

    Args:
        feed: what it reads.
        last_event_id: what it had last, when it has been here before.
    """

    def __init__(self, feed: Feed, last_event_id: bytes | None = None) -> None:
        self.gone = False
        self._feed = feed
        self._had = last_event_id
        self._news = asyncio.Event()
        self._cursor = feed.format.sequence_of(last_event_id) if last_event_id is not None else 0
        self._is_reset = False
        self._told_complete = False
        self._head = 0
        self._held_until_s: float | None = None
        self._round: list[KeyValue] = []

    @property
    def format(self) -> Format:
        """How the feed is written."""
        return self._feed.format

    @property
    def behind(self) -> bool:
        """Whether there is more to take at once."""
        return bool(self._round) and self._held_until_s is None

    @property
    def ended(self) -> bool:
        """Whether the feed is closed, or the reader has left."""
        return self.gone or self._feed.closed

    def wake(self) -> None:
        """Tell that there may be news."""
        self._news.set()

    def leave(self) -> None:
        """Tell that nobody reads any more."""
        self.gone = True
        self._news.set()

    async def news(self) -> bool:
        """Wait until there may be news; False when there was none for as long as a heartbeat is due."""
        try:
            async with asyncio.timeout(self._feed.format.heartbeat_s):
                await self._news.wait()
        except TimeoutError:
            return False
        self._news.clear()
        return True

    def take(self) -> bytes:
        """Return what the reader does not have, a chunk of it when that is much, b"" when it has everything."""
        parts: list[bytes] = []
        size = 0
        while size < CHUNK_BYTES and not self.gone:
            if not self._round and not self._begin_round(parts):
                break
            key = self._round.pop()
            frame = self._feed.frame(key)
            if frame is None:
                self._begin_again()  # it is long gone, so others may be as well
                continue
            if self._is_held(frame):
                self._round.append(key)
                break
            if not self._round:
                frame = self._feed.format.mark(self._head) + frame
                self._cursor = self._head
            if self._had is None or not self._feed.format.resumes(self._had, frame):
                parts.append(frame)
                size += len(frame)
            self._had = None
        if parts and self._feed.positions:
            # Before the rows: whoever has this line has rows that are at least as new, or asks for them again.
            (partition, position), *_ = self._feed.positions.items()
            parts.insert(0, self._feed.format.before(position, self._feed.topic_ids.get(partition, "")))
        return b"".join(parts)

    def _is_held(self, frame: bytes) -> bool:
        """Return whether a row has to wait for a newer one, since the reader had one from further on."""
        had, of = self._had, self._feed.format
        if had is None or of.resumes(had, frame) or not of.is_older(had, frame):
            return False
        loop = asyncio.get_running_loop()
        if self._held_until_s is None:
            self._held_until_s = loop.time() + _HELD_S
            loop.call_at(self._held_until_s, self.wake)
        return loop.time() < self._held_until_s

    def _begin_round(self, parts: list[bytes]) -> bool:
        """Find what has changed; False when nothing has."""
        feed = self._feed
        if self._cursor > feed.sequence or self._cursor < feed.forgotten:
            self._begin_again()
            if self.gone:
                return False
        if not self._cursor and not self._is_reset:
            self._is_reset = True
            if feed.format.reset:
                parts.append(feed.format.reset)
        self._head = feed.sequence
        self._round = feed.changed_since(self._cursor)
        if not self._round:
            self._cursor = self._head
            self._tell_complete(parts)
        return bool(self._round)

    def _begin_again(self) -> None:
        if self._is_reset and not self._feed.format.begins_again:
            # Whoever reads comes back, and takes what it is told then for all there is.
            self.leave()
        self._cursor, self._is_reset, self._told_complete = 0, False, False
        self._round = []

    def _tell_complete(self, parts: list[bytes]) -> None:
        if self._feed.is_complete and not self._told_complete:
            self._told_complete = True
            told = self._feed.format.complete(self._feed.sequence, self._feed.row_count)
            if told:
                parts.append(told)

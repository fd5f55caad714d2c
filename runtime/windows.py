"""Windows: stretches of event time, each with a row of its own. All of them are in UTC, counted from 1970 on.

A window is `[start, end)`; of a session its end is in it. **Stream time** is how far the events of a store have come:
their newest timestamp, which never goes back. A window that stream time has passed by `keep` is let go: it leaves
Spark's state, every copy and the topic, and a row that comes for it after that is too late.

The key of such a row is the store's key and the window's start: `hello@1795622400000` as text, in Python a `WindowKey`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

from runtime.durations import NO_GRACE, check_lengths, seconds_of
from runtime.errors import DeclarationError, InvalidRecord
from runtime.keys import Int64, KeyType, KeyValue, first_bytes, key_of_first_bytes
from runtime.records import parse_id
from runtime.types import FIRST_MS, LAST_MS, ColumnType, Timestamp, check_timestamp
from runtime.values import Max

WINDOW_START: Final = "windowStart"
WINDOW_END: Final = "windowEnd"
"""The columns of a row that say of which window it is."""

_MOST_OF_ONE: Final = 1_000
"""An event lies in so many windows at most."""
_NO_ROW: Final[Mapping[str, Any]] = MappingProxyType({})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_START_BYTES: Final = 8


STREAM_TIME_KEY: Final = b"@"
"""The key of the records of a result topic that tell stream time. It is no key of a window."""
STREAM_TIME: Final = "stream_ms"
"""The header that tells it."""
_VERSION: Final = "version"


class WindowKey(NamedTuple):
    """The key of a row of one window.

    Attributes:
        key: of the store.
        start_ms: when the window begins, in milliseconds from 1970.
    """

    key: KeyValue
    start_ms: int


class Windows(ABC):
    """Stretches of event time of which each has a row: `Tumbling`, `Hopping` and `Session`.

    Attributes:
        keep: how long a window is kept after its end, in stream time.
        grace: how long after its end a window is not final, in stream time.
    """

    keep: str
    grace: str

    lengths: ClassVar[tuple[str, ...]]
    """The attributes that are lengths of time."""

    def __post_init__(self) -> None:
        check_lengths(f"{self} has", self, self.lengths)
        self._check()
        if self.grace_ms > self.keep_ms:
            raise DeclarationError(
                f"{self} has a grace of {self.grace}, and keeps windows for {self.keep}: keep longer"
            )

    def _check(self) -> None:  # noqa: B027  # not all have more to check
        """Refuse lengths that do not go together; raises `DeclarationError`."""

    @property
    def keep_ms(self) -> int:
        """How long a window is kept after its end, in milliseconds."""
        return _ms(self.keep)

    @property
    def grace_ms(self) -> int:
        """How long after its end a window may change, in milliseconds."""
        return _ms(self.grace)

    @property
    @abstractmethod
    def shape(self) -> str:
        """Which windows there are, in words: rows of others are not of these, however long they are kept."""

    @property
    @abstractmethod
    def every_ms(self) -> int:
        """Windows begin at multiples of it, in milliseconds from 1970."""

    @property
    @abstractmethod
    def late_ms(self) -> int:
        """How far behind stream time a window may end, in milliseconds, that Spark still changes."""

    @property
    @abstractmethod
    def least_ms(self) -> int:
        """How long a window is, or where that differs at least, in milliseconds."""

    @property
    def overlap(self) -> bool:
        """Whether an event lies in several windows."""
        return False

    @abstractmethod
    def end_ms(self, start_ms: int, row: Mapping[str, Any] = _NO_ROW) -> int:
        """Return when a window ends, in milliseconds from 1970.

        Args:
            start_ms: when it begins, in milliseconds from 1970.
            row: the values of its row, by name; only a session's end does not follow from the start.
        """

    def first_of(self, key: KeyValue) -> WindowKey:
        """Return the lowest that a key of a window may be: one that begins in the year 1.

        >>> Hopping("5 seconds", "2 seconds").first_of("a")
        WindowKey(key='a', start_ms=-62135596800000)
        """
        return WindowKey(key, -(-FIRST_MS // self.every_ms) * self.every_ms)

    def last_let_go(self, stream_ms: int) -> int:
        """Return the end of the last window that is let go when stream time is `stream_ms`; both in milliseconds.

        It need not be one at which a window ends.
        """
        return stream_ms - self.keep_ms


class EqualWindows(Windows):
    """Windows of one length that begin at equal distances: `Tumbling` and `Hopping`."""

    size: str
    every: str

    lengths: ClassVar[tuple[str, ...]] = ("size", "every", "keep", "grace")

    def _check(self) -> None:
        if self.every_ms > self.size_ms:
            raise DeclarationError(
                f"{self} has windows of {self.size} every {self.every}: what lies between is in none"
            )
        if self.size_ms > _MOST_OF_ONE * self.every_ms:
            raise DeclarationError(f"{self} has an event in more than {_MOST_OF_ONE} windows: begin them less often")

    @property
    def shape(self) -> str:
        return f"windows of {self.size_ms // 1000} s every {self.every_ms // 1000} s"

    @property
    def size_ms(self) -> int:
        """How long a window is, in milliseconds."""
        return _ms(self.size)

    @property
    def every_ms(self) -> int:
        """How long after one window the next begins, in milliseconds."""
        return _ms(self.every)

    @property
    def overlap(self) -> bool:
        return self.every_ms < self.size_ms

    @property
    def late_ms(self) -> int:
        return self.keep_ms

    def starts(self, at_ms: int) -> list[int]:
        """Return when the windows begin that an instant lies in, ascending; all in milliseconds from 1970."""
        last = at_ms - at_ms % self.every_ms
        return list(range(last, at_ms - self.size_ms, -self.every_ms))[::-1]

    @property
    def least_ms(self) -> int:
        return self.size_ms

    def end_ms(self, start_ms: int, row: Mapping[str, Any] = _NO_ROW) -> int:  # noqa: ARG002  # it follows from the start
        return start_ms + self.size_ms


@dataclass(frozen=True)
class Hopping(EqualWindows):
    """Windows that overlap: an event lies in several.

    >>> Hopping("5 seconds", "2 seconds", keep="1 minute").starts(4_000)
    [0, 2000, 4000]

    Attributes:
        size: how long a window is, as in "5 minutes": seconds, minutes, hours or days.
        every: how long after one window the next begins, at most `size`.
        keep: how long a window is kept after its end, in stream time. The times of the source's partitions may be so
            far apart while events come: what is further behind is too late.
        grace: how long after its end readers take a window for final, in stream time; at most `keep`.
    """

    size: str
    every: str
    _: KW_ONLY
    keep: str = "1 day"
    grace: str = NO_GRACE


@dataclass(frozen=True)
class Tumbling(EqualWindows):
    """Windows one behind the other: an event lies in one.

    >>> Tumbling("1 hour", keep="2 days").starts(5_400_000)
    [3600000]

    Attributes:
        size: how long a window is; see `Hopping`, for the others as well.
        keep: how long a window is kept after its end.
        grace: how long after its end a window may change.
    """

    size: str
    _: KW_ONLY
    keep: str = "1 day"
    grace: str = NO_GRACE

    @property
    def every(self) -> str:  # type: ignore[override]
        """How long after one window the next begins: as long as a window is."""
        return self.size


@dataclass(frozen=True)
class SessionEnd(Max):
    """When a session ends: the latest of its events, and the gap behind it. A lattice, as `Max`."""

    column: str = "__session_end"
    type: ColumnType | None = Timestamp

    nullable: ClassVar[bool] = False

    @property
    def columns(self) -> Mapping[str, str]:
        """None that `rows` has to make: the runtime does, of the record's time."""
        return {}


@dataclass(frozen=True)
class Session(Windows):
    """Windows of a key that last as long as events come: one ends when none came for longer than `gap`.

    A row comes when the session has ended, and does not change any more. So it is for topologies at a pace. The row of
    a session has `windowStart`, when its first event was, and `windowEnd`, `gap` behind its last.

    >>> Session("30 seconds", grace="10 seconds").late_ms
    10001

    Attributes:
        gap: how long no event may come in a session.
        keep: how long a session is kept after its end, in stream time.
        grace: how long after its end a session waits for late events, in stream time. A later one that lies in a
            session whose row is there already is left out, or begins another session.
    """

    gap: str
    _: KW_ONLY
    keep: str = "1 day"
    grace: str = NO_GRACE

    lengths: ClassVar[tuple[str, ...]] = ("gap", "keep", "grace")

    @property
    def shape(self) -> str:
        return f"sessions that end {self.gap_ms // 1000} s after their last event"

    @property
    def gap_ms(self) -> int:
        """How long no event may come in a session, in milliseconds."""
        return _ms(self.gap)

    @property
    def every_ms(self) -> int:
        return 1

    @property
    def late_ms(self) -> int:
        # An event at the end of a session is in it: Spark must not have closed it by then.
        return self.grace_ms + 1

    @property
    def least_ms(self) -> int:
        return self.gap_ms

    def end_ms(self, start_ms: int, row: Mapping[str, Any] = _NO_ROW) -> int:  # noqa: ARG002  # it does not follow from the start
        return ms_of(row[WINDOW_END])


@lru_cache
def window_key(of: KeyType, windows: Windows) -> KeyType:
    """Return the type of the keys of windows: `WindowKey` in Python, and in order of key and start.

    >>> keys = window_key(Int64, Hopping("5 seconds", "2 seconds"))
    >>> keys.parse("7@4000"), keys.text(WindowKey(7, 4_000)), keys.following(WindowKey(7, 4_000))
    (WindowKey(key=7, start_ms=4000), '7@4000', WindowKey(key=7, start_ms=6000))

    Args:
        of: the type of the store's keys.
        windows: of the store.
    """
    every_ms, last_ms = windows.every_ms, LAST_MS - windows.least_ms
    first_ms = -(-FIRST_MS // every_ms) * every_ms

    def parse(text: str) -> WindowKey:
        key, _, start = text.rpartition("@")
        start_ms = parse_id(start)
        if start_ms % every_ms or not FIRST_MS <= start_ms <= last_ms:
            raise InvalidRecord("not a window", f"none begins at {start_ms}")
        return WindowKey(of.parse(key), start_ms)

    def encode(key: WindowKey) -> bytes:
        return first_bytes(of, key.key) + Int64.encode(key.start_ms)

    def decode(encoded: bytes) -> WindowKey:
        return WindowKey(key_of_first_bytes(of, encoded[:-_START_BYTES]), Int64.decode(encoded[-_START_BYTES:]))

    def following(key: WindowKey) -> WindowKey | None:
        if (start_ms := key.start_ms + every_ms) <= last_ms:
            return WindowKey(key.key, start_ms)
        above = of.following(key.key)
        return None if above is None else WindowKey(above, first_ms)

    return replace(
        of,
        name=f"{of.name} and window",
        parse=parse,
        text=lambda key: f"{of.text(key.key)}@{key.start_ms}",
        encode=encode,
        decode=decode,
        following=following,
    )


def time_text(ms: int) -> str:
    """Return an instant as rows have it.

    >>> time_text(1_795_622_400_000)
    '2026-11-25T16:00:00.000Z'

    Args:
        ms: in milliseconds from 1970, of the years 1 to 9999.
    """
    return check_timestamp(ms)


def nearest_time_text(ms: int) -> str:
    """Return an instant as rows have it, and of one that has no such text the nearest: a record may have any timestamp.

    >>> nearest_time_text(1_795_622_400_000_000_000)
    '9999-12-31T23:59:59.999Z'

    Args:
        ms: in milliseconds from 1970.
    """
    return time_text(min(max(ms, FIRST_MS), LAST_MS))


def ms_of(time: str) -> int:
    """Return an instant in milliseconds from 1970.

    >>> ms_of("2026-11-25T16:00:00.000Z")
    1795622400000

    Args:
        time: as `time_text` returns it.
    """
    return (datetime.fromisoformat(time) - _EPOCH) // timedelta(milliseconds=1)


def stream_time_headers(stream_ms: int, version: int = 1) -> list[tuple[str, bytes]]:
    """Return the headers of a record that tells the stream time of a version of a store. Its value is null.

    Args:
        stream_ms: in milliseconds from 1970.
        version: of the store.
    """
    return [(STREAM_TIME, str(stream_ms).encode()), (_VERSION, str(version).encode())]


def stream_time_of(headers: Iterable[tuple[str, bytes]], version: int = 1) -> int | None:
    """Return the stream time that the headers of such a record tell; None where another version of the store told it.

    What another version has read says nothing of the rows of this one.

    >>> stream_time_of(stream_time_headers(1_795_622_400_000))
    1795622400000
    >>> stream_time_of(stream_time_headers(1_795_622_400_000), version=2)

    Raises:
        InvalidRecord: they tell none.
    """
    said = dict(headers)
    told_ms = parse_id((said.get(STREAM_TIME) or b"").decode("ascii", "replace"))
    return told_ms if (said.get(_VERSION) or b"1") == str(version).encode() else None


def _ms(text: str) -> int:
    return (seconds_of(text) or 0) * 1000

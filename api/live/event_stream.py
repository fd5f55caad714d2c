"""What the bytes of a stream of rows look like; pure. Three formats: one row, all rows, and between instances.

To clients streams are server-sent events (WHATWG HTML, section 9.2). An event's `id` comes back as `Last-Event-ID` when
a client connects again:

    one row     the row's entity tag without quotes, `none` while there is no row; behind a point its position
    all rows    which feed of which instance, and how many changes it had seen

Between instances a stream is lines: `@position topic`, `key row`, `key` alone when there is no row, `.` when all rows
have been sent once, an empty line as a sign of life. A key is percent-encoded.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from api.http.key_route import encoded
from runtime.keys import KeyType, KeyValue
from runtime.serving.position import Position
from runtime.serving.view import Rendered

EVENT_TYPE: Final = "text/event-stream"
LINES_TYPE: Final = "text/plain"
RETRY_MS: Final = 500
"""How long a client waits until it connects again: instances end their streams when they stop, and others go on."""

_SAFE_ID: Final = re.compile(rb"[0-9A-Za-z._-]{1,128}")


class Words(NamedTuple):
    """What live updates call things.

    Attributes:
        row: the event that brings a row.
        rows: the field that says how many there are, when all have been sent.
        key: the field that names a row's key, among all rows.
        value: the field that has the row, among all rows.
    """

    row: str = "row"
    rows: str = "rows"
    key: str = "key"
    value: str = "row"


class Format(ABC):
    """How a stream is written; what a format does not say of itself is as most have it.

    Attributes:
        preamble: its first bytes.
        reset: what makes the reader forget all rows; sent before everything is sent.
        heartbeat: a sign of life.
        heartbeat_s: how often there is one when there is nothing else to send, seconds.
        tells_absent: whether a row that never was is told of.
        begins_again: whether a reader that has missed too many rows which are gone can be sent everything anew.
    """

    preamble = b"retry: %d\n\n" % RETRY_MS
    reset = b""
    heartbeat = b":\n\n"
    heartbeat_s = 15.0
    tells_absent = False
    begins_again = True

    @abstractmethod
    def frame(self, key: KeyValue, rendered: Rendered | None, at: Position | None) -> bytes:
        """Return a row, or that there is none, and how far the copy had read that says so, where that is known."""

    def mark(self, sequence: int) -> bytes:  # noqa: ARG002
        """Return what stands before the frame that completes the changes up to `sequence`."""
        return b""

    def before(self, position: int, topic_id: str) -> bytes:  # noqa: ARG002
        """Return what stands before frames of a copy at `position` of a topic."""
        return b""

    def complete(self, sequence: int, rows: int) -> bytes:  # noqa: ARG002
        """Return what follows when everything has been sent once."""
        return b""

    def resumes(self, last_event_id: bytes, frame: bytes) -> bool:  # noqa: ARG002
        """Return whether a reader with this id has `frame` already."""
        return False

    def sequence_of(self, last_event_id: bytes) -> int:  # noqa: ARG002
        """Return up to which change a reader with this id has everything; 0 when that is not known."""
        return 0

    def is_older(self, last_event_id: bytes, frame: bytes) -> bool:  # noqa: ARG002
        """Return whether a frame is of a copy that had not read as far as the one that a reader with this id had."""
        return False


class OneKey(Format):
    """Events of one row; `data` is exactly the body of the row's own route.

    Args:
        words: what things are called.
        store: the name of the store.
    """

    tells_absent = True

    def __init__(self, words: Words, store: str) -> None:
        self._row = words.row.encode()
        self._store = store

    def frame(self, key: KeyValue, rendered: Rendered | None, at: Position | None) -> bytes:  # noqa: ARG002  # the reader knows which
        """Return an event with the row, or `gone`."""
        position = b"" if at is None else b".%b" % at.text(self._store).encode()
        if rendered is None:
            return b"id: none%b\nevent: gone\ndata: null\n\n" % position
        tag = rendered.etag.strip('"').encode()
        return b"id: %b%b\nevent: %b\ndata: %b\n\n" % (tag, position, self._row, rendered.body)

    def resumes(self, last_event_id: bytes, frame: bytes) -> bool:
        """Return whether the frame is of the row that the client had last."""
        tag = last_event_id.partition(b".")[0]
        return frame.startswith((b"id: %b\n" % tag, b"id: %b." % tag))

    def is_older(self, last_event_id: bytes, frame: bytes) -> bool:
        """Return whether the frame's position in the same topic is before that of the id."""
        had = self._position(last_event_id)
        at = self._position(frame.partition(b"\n")[0])
        if had is None or at is None or had[:2] != at[:2]:
            return False
        return at.offset < had.offset

    def _position(self, text: bytes) -> Position | None:
        try:
            return Position.of_text(text.partition(b".")[2].decode(), self._store)
        except ValueError:
            return None


def as_it_is(key: KeyValue) -> Any:
    """Return a key: its JSON is what names it."""
    return key


class AllKeys(Format):
    """Events of all rows.

    Args:
        words: what things are called.
        store: the name of the store.
        name_of: what names a row's key in JSON.
        token: tells the feed from any other, of this instance or of others.
    """

    # Also of the id that it had: until it has all rows, it cannot go on from anywhere.
    reset = b"id:\nevent: reset\ndata: {}\n\n"

    def __init__(self, words: Words, store: str, token: str, name_of: Callable[[KeyValue], Any] = as_it_is) -> None:
        self._row, self._rows, self._key, self._value = (word.encode() for word in words)
        self._store = store
        self._token = token.encode()
        self._name_of = name_of

    def frame(self, key: KeyValue, rendered: Rendered | None, at: Position | None) -> bytes:
        """Return an event with the row, or `gone`; either names its key."""
        name = json.dumps(self._name_of(key), ensure_ascii=False).encode()
        position = b"" if at is None else b',"position":"%b"' % at.text(self._store).encode()
        if rendered is None:
            return b'event: gone\ndata: {"%b":%b%b}\n\n' % (self._key, name, position)
        fields = (self._row, self._key, name, self._value, rendered.body, position)
        return b'event: %b\ndata: {"%b":%b,"%b":%b%b}\n\n' % fields

    def mark(self, sequence: int) -> bytes:
        """Return the id of the event that follows."""
        return b"id: %b-%d\n" % (self._token, sequence)

    def complete(self, sequence: int, rows: int) -> bytes:
        """Return an event `complete`: all rows there are have been sent."""
        return b'%bevent: complete\ndata: {"%b":%d}\n\n' % (self.mark(sequence), self._rows, rows)

    def sequence_of(self, last_event_id: bytes) -> int:
        """Return up to which change the client has everything, when the id is of this feed."""
        token, _, sequence = last_event_id.partition(b"-")
        known = token == self._token and sequence.isdigit() and len(sequence) < 19
        return int(sequence) if known else 0


class Lines(Format):
    """What instances tell each other; they do not resume.

    Args:
        key_type: what keys are.
        tells_absent: whether a row that never was is told of.
        tells_topic: whether positions say of which topic they are; instances of before cannot read that.
    """

    preamble = b"\n"
    heartbeat = b"\n"
    heartbeat_s = 2.0

    def __init__(self, key_type: KeyType, *, tells_absent: bool, tells_topic: bool) -> None:
        self.tells_absent = tells_absent
        # Nothing tells a peer to forget rows. Of one key it is told the row, or that there is none.
        self.begins_again = tells_absent
        self._tells_topic = tells_topic
        self._text = key_type.text

    def frame(self, key: KeyValue, rendered: Rendered | None, at: Position | None) -> bytes:  # noqa: ARG002
        """Return the line of a row; JSON has no line ends outside of strings and none inside."""
        # A point alone says that all has been sent.
        name = encoded(self._text(key)).replace(".", "%2E").encode()
        return b"%b\n" % name if rendered is None else b"%b %b\n" % (name, rendered.body)

    def before(self, position: int, topic_id: str) -> bytes:
        """Return the line that tells from when the rows that follow are."""
        return b"@%d %b\n" % (position, topic_id.encode()) if self._tells_topic else b"@%d\n" % position

    def complete(self, sequence: int, rows: int) -> bytes:  # noqa: ARG002
        """Return the line that says that every row has been sent."""
        return b".\n"


def usable_id(last_event_id: bytes | None) -> bytes | None:
    """Return the id when it can be one of ours, else None: a client may send anything."""
    return last_event_id if last_event_id is not None and _SAFE_ID.fullmatch(last_event_id) else None

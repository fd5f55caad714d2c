"""What the bytes of a stream of boards look like; pure. Three formats: one board, all boards, and between instances.

To clients streams are server-sent events (WHATWG HTML, section 9.2). An event's `id` comes back as `Last-Event-ID` when
a client connects again:

    one board   the board's entity tag without quotes, `none` while there is no board
    all boards  which feed of which instance, and how many changes it had seen

Between instances a stream is lines: `@position`, `product board`, `product` alone when there is no board, `.` when all
boards have been sent once, an empty line as a sign of life.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Final

from topology.leaderboard.shown import Rendered

EVENT_TYPE: Final = "text/event-stream"
LINES_TYPE: Final = "text/plain"
RETRY_MS: Final = 500
"""How long a client waits until it connects again: instances end their streams when they stop, and others go on."""

_SAFE_ID: Final = re.compile(rb"[0-9a-z-]{1,64}")


class Format(ABC):
    """How a stream is written; what a format does not say of itself is as most have it.

    Attributes:
        preamble: its first bytes.
        reset: what makes the reader forget all boards; sent before everything is sent.
        heartbeat: a sign of life.
        heartbeat_s: how often there is one when there is nothing else to send, seconds.
        tells_absent: whether a board that never was is told of.
    """

    preamble = b"retry: %d\n\n" % RETRY_MS
    reset = b""
    heartbeat = b":\n\n"
    heartbeat_s = 15.0
    tells_absent = False

    @abstractmethod
    def frame(self, product_id: int, rendered: Rendered | None) -> bytes:
        """Return a board, or that there is none."""

    def mark(self, sequence: int) -> bytes:  # noqa: ARG002
        """Return what stands before the frame that completes the changes up to `sequence`."""
        return b""

    def before(self, position: int) -> bytes:  # noqa: ARG002
        """Return what stands before frames of a copy at `position`."""
        return b""

    def complete(self, sequence: int, boards: int) -> bytes:  # noqa: ARG002
        """Return what follows when everything has been sent once."""
        return b""

    def resumes(self, last_event_id: bytes, frame: bytes) -> bool:  # noqa: ARG002
        """Return whether a reader with this id has `frame` already."""
        return False

    def sequence_of(self, last_event_id: bytes) -> int:  # noqa: ARG002
        """Return up to which change a reader with this id has everything; 0 when that is not known."""
        return 0


class OneBoard(Format):
    """Events of one board; `data` is exactly the body of `GET /leaderboard/{productId}`."""

    tells_absent = True

    def frame(self, product_id: int, rendered: Rendered | None) -> bytes:  # noqa: ARG002  # the reader knows which
        """Return an event `board`, or `gone`."""
        if rendered is None:
            return b"id: none\nevent: gone\ndata: null\n\n"
        return b"id: %b\nevent: board\ndata: %b\n\n" % (rendered.etag.strip('"').encode(), rendered.body)

    def resumes(self, last_event_id: bytes, frame: bytes) -> bool:
        """Return whether the frame is of the board that the client had last."""
        return frame.startswith(b"id: %b\n" % last_event_id)


class AllBoards(Format):
    """Events of all boards.

    Args:
        token: tells the feed from any other, of this instance or of others.
    """

    reset = b"event: reset\ndata: {}\n\n"

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def frame(self, product_id: int, rendered: Rendered | None) -> bytes:
        """Return an event `board`, or `gone`, that names its product."""
        if rendered is None:
            return b'event: gone\ndata: {"productId":%d}\n\n' % product_id
        return b'event: board\ndata: {"productId":%d,"entries":%b}\n\n' % (product_id, rendered.body)

    def mark(self, sequence: int) -> bytes:
        """Return the id of the event that follows."""
        return b"id: %b-%d\n" % (self._token, sequence)

    def complete(self, sequence: int, boards: int) -> bytes:
        """Return an event `complete`: all boards there are have been sent."""
        return b'%bevent: complete\ndata: {"boards":%d}\n\n' % (self.mark(sequence), boards)

    def sequence_of(self, last_event_id: bytes) -> int:
        """Return up to which change the client has everything, when the id is of this feed."""
        token, _, sequence = last_event_id.partition(b"-")
        known = token == self._token and sequence.isdigit() and len(sequence) < 19
        return int(sequence) if known else 0


class Lines(Format):
    """What instances tell each other; they do not resume.

    Args:
        tells_absent: whether a board that never was is told of.
    """

    preamble = b"\n"
    heartbeat = b"\n"
    heartbeat_s = 2.0

    def __init__(self, *, tells_absent: bool) -> None:
        self.tells_absent = tells_absent

    def frame(self, product_id: int, rendered: Rendered | None) -> bytes:
        """Return the line of a board; JSON has no line ends outside of strings and none inside."""
        return b"%d\n" % product_id if rendered is None else b"%d %b\n" % (product_id, rendered.body)

    def before(self, position: int) -> bytes:
        """Return the line that tells from when the boards that follow are."""
        return b"@%d\n" % position

    def complete(self, sequence: int, boards: int) -> bytes:  # noqa: ARG002
        """Return the line that says that every board has been sent."""
        return b".\n"


def usable_id(last_event_id: bytes | None) -> bytes | None:
    """Return the id when it can be one of ours, else None: a client may send anything."""
    return last_event_id if last_event_id is not None and _SAFE_ID.fullmatch(last_event_id) else None

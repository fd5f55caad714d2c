"""Sending an answer of one piece: in one write, unless it is large.

uvicorn searches each name and value of an answer for what would end a line, and writes head and body apart. Here the
line ends of the whole head are counted, and head and body go out together (decision 9), but for a body that many may
read at once and slowly. Whatever else an application sends, or a connection needs, is left to uvicorn,
but for answers without a length to clients of HTTP/1.0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from starlette.types import Message
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from api.http.answers import Headers

_LENGTH: Final = b"content-length"
_CONNECTION: Final = b"\r\nconnection:"
_NOT_MODIFIED: Final = 304
_JOINED_BYTES: Final = 64 * 1024
"""The largest body that is copied to stand behind its head: a connection holds what its client has not taken."""


class WholeAnswer:
    """The `send` of one request, as ASGI has it.

    Args:
        cycle: uvicorn's request and response.
    """

    __slots__ = ("_cycle", "_start")

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle: Any = cycle
        self._start: Message | None = None

    async def send(self, message: Message) -> None:
        """Send a message; the beginning of an answer whose length is known waits for its body."""
        start, self._start = self._start, None
        if start is None:
            if message["type"] == "http.response.start" and _tells_its_length(message):
                self._start = message
            else:
                await self._cycle.send(message)
            return
        body = message.get("body", b"")
        write = self._cycle.transport.write
        headers = start.get("headers", [])
        if message.get("more_body") or not sent_at_once(self._cycle, start["status"], headers, body, write):
            await self._cycle.send(start)
            await self._cycle.send(message)


class AnswerUntilTheEnd:
    """The `send` of one request of HTTP/1.0, as ASGI has it: such a client knows no chunks.

    uvicorn sends an answer without a length in chunks to everybody. To these clients it goes out as it is, and ends
    with the connection (RFC 9112 section 6.3).

    Args:
        cycle: uvicorn's request and response.
    """

    __slots__ = ("_cycle", "_has_length")

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle: Any = cycle
        self._has_length = True
        # Nor do they wait for a leave to send their body (RFC 9110 section 10.1.1).
        self._cycle.waiting_for_100_continue = False

    async def send(self, message: Message) -> None:
        """Send a message."""
        if message["type"] == "http.response.start":
            self._has_length = any(name.lower() == _LENGTH for name, _ in message.get("headers", []))
            if not self._has_length:
                self._cycle.keep_alive = self._cycle.chunked_encoding = False
        elif not self._has_length:
            # As much as comes is what has to come.
            self._cycle.expected_content_length = len(message.get("body", b""))
        await self._cycle.send(message)


def sent_at_once(cycle: Any, status: int, headers: Headers, body: bytes, write: Callable[[bytes], object]) -> bool:
    """Send an answer if it can go out as it is, and return whether it did.

    Args:
        cycle: uvicorn's request and response, a `RequestResponseCycle`.
        status: of HTTP.
        headers: the first is the length, unless the status is 304.
        body: the whole of it.
        write: takes what goes to the client.
    """
    if not cycle.keep_alive or cycle.disconnected or cycle.flow.write_paused or cycle.scope["method"] == "HEAD":
        return False
    is_whole = not body if status == _NOT_MODIFIED else headers[0][1] == b"%d" % len(body)
    lines = _lines(tuple(headers)) if is_whole else None
    if lines is None:
        return False
    # What uvicorn does at the end of an answer.
    cycle.waiting_for_100_continue = False
    cycle.response_started = cycle.response_complete = True
    head = (STATUS_LINE[status], _of_server(tuple(cycle.default_headers)), lines)
    if len(body) <= _JOINED_BYTES:
        write(b"".join((*head, body)))
    else:
        # The body itself: clients that take it slowly hold one between them, not a copy each.
        write(b"".join(head))
        write(body)
    cycle.message_event.set()
    cycle.on_response()
    return True


def _tells_its_length(start: Message) -> bool:
    headers = start.get("headers") or [(b"", b"")]
    return start["status"] == _NOT_MODIFIED or bool(headers[0][0] == _LENGTH)


@lru_cache(maxsize=8)
def _of_server(headers: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """Return what the server says in every answer as it is sent: the same for a second, as the date is."""
    return b"".join(b"%b: %b\r\n" % header for header in headers)


@lru_cache(maxsize=2048)
def _lines(headers: tuple[tuple[bytes, bytes], ...]) -> bytes | None:
    """Return headers as they are sent, or None when one of them holds the end of a line, or ends the connection."""
    lines = b"".join([b"%b: %b\r\n" % header for header in headers]) + b"\r\n"
    ends = len(headers) + 1
    is_plain = lines.count(b"\n") == ends == lines.count(b"\r") and _CONNECTION not in b"\r\n" + lines
    return lines if is_plain else None

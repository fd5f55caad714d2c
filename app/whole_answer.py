"""Sending an answer of one piece: in one write.

uvicorn searches each name and value of an answer for what would end a line, and writes head and body apart. Here the
line ends of the whole head are counted, and head and body go out together: an answer from memory costs a quarter less
(decision 9). Whatever else an application sends, or a connection needs, is left to uvicorn.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from starlette.types import Message
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

_LENGTH: Final = b"content-length"
_CONNECTION: Final = b"\r\nconnection:"
_NOT_MODIFIED: Final = 304


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
        head = self._head(start, body) if not message.get("more_body") else None
        if head is None:
            await self._cycle.send(start)
            await self._cycle.send(message)
        else:
            self._write(head + body)

    def _head(self, start: Message, body: bytes) -> bytes | None:
        """Return the head of an answer that can go out at once as it is, else None."""
        cycle = self._cycle
        if not cycle.keep_alive or cycle.disconnected or cycle.flow.write_paused or cycle.scope["method"] == "HEAD":
            return None
        status, headers = start["status"], start["headers"]
        is_whole = not body if status == _NOT_MODIFIED else headers[0][1] == b"%d" % len(body)
        return head_of(status, [*cycle.default_headers, *headers]) if is_whole else None

    def _write(self, answer: bytes) -> None:
        # What uvicorn does at the end of an answer.
        cycle = self._cycle
        cycle.waiting_for_100_continue = False
        cycle.response_started = cycle.response_complete = True
        cycle.transport.write(answer)
        cycle.message_event.set()
        cycle.on_response()


def _tells_its_length(start: Message) -> bool:
    headers = start.get("headers") or [(b"", b"")]
    return start["status"] == _NOT_MODIFIED or bool(headers[0][0] == _LENGTH)


def head_of(status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """Return the head of an answer, or None when one of its headers holds the end of a line, or ends the connection."""
    lines = [b"%b: %b\r\n" % header for header in headers]
    head = b"".join((STATUS_LINE[status], *lines, b"\r\n"))
    ends = len(lines) + 2
    is_plain = head.count(b"\n") == ends == head.count(b"\r") and _CONNECTION not in head
    return head if is_plain else None

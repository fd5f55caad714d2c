"""One client's connection: uvicorn's, with limits on what may be sent and on how long the server waits for a client.

An answer that waits for nothing is given right where its request was read: a task for each would cost more than the
answer does (decision 9).

httptools bounds neither the size of a request's head nor the time it takes, and uvicorn times only what is idle after
an answer. A request in one piece costs some comparisons here. The times cost it nothing: in place of a timer for each
answer, which would cost a tenth of it, the server looks at all connections now and then.
"""

import asyncio
import socket
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import httptools
from uvicorn._types import ASGI3Application, HTTPScope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from api.http.answers import Answer
from api.http.errors import InvalidRequest, RequestTooLarge, problem
from app.server.whole_answer import AnswerUntilTheEnd, WholeAnswer, sent_at_once

_AT_ONCE: Final = struct.pack("ii", 1, 0)
"""Of SO_LINGER: wait for nothing."""

_WRITTEN_TOGETHER: Final = 64
"""So many answers to requests that were sent ahead are written at once."""
_WRITTEN_ALONE_BYTES: Final = 4096
"""One with a longer body waits for no other."""

_WITHOUT_CHUNKS: Final = ("0.9", "1.0")
"""Versions of HTTP whose clients take no answer in chunks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one client may take.

    Attributes:
        connections: at most so many at once; for further ones, idle ones are closed.
        head_bytes: request line and headers of one request.
        pipelined: requests sent ahead of their answers.
        sent_within_s: how long a client may take to send a request's head, or anything at all.
        taken_within_s: how long a client may take to receive an answer.
    """

    connections: int = 16384
    head_bytes: int = 65536
    pipelined: int = 256
    sent_within_s: float = 10.0
    taken_within_s: float = 30.0


class Connection(HttpToolsProtocol):
    """One connection; a request that cannot be read is answered with a problem, and the connection closed.

    Args:
        limits: what the client may take.
        of_uvicorn: what uvicorn makes its connections from.
    """

    # As they are at run time: None before the first request.
    cycle: RequestResponseCycle | None  # type: ignore[assignment]
    scope: HTTPScope | None  # type: ignore[assignment]

    def __init__(self, *, limits: Limits, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._limits = limits
        self._head: object = None
        self._head_bytes = 0
        self._awaited: object = None
        self._since_s = self.loop.time()
        # Of an application that has one: Observed.at_once.
        self._at_once: Callable[[HTTPScope], Answer | None] | None = getattr(self.app, "at_once", None)
        self._reading = False
        self._asked: tuple[RequestResponseCycle, ASGI3Application] | None = None
        self._answering: RequestResponseCycle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether the server waits for the client, and not the client for the server."""
        return self._awaits() is not None

    @property
    def worth(self) -> tuple[bool, float]:
        """Order in which idle ones are given up: those that have asked nothing yet, then the longest idle."""
        return self.cycle is not None, self._since_s

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin; when there are too many connections, some of them end."""
        super().connection_made(transport)
        if len(self.connections) > self._limits.connections:
            make_room([each for each in self.connections if isinstance(each, Connection) and each is not self], self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End, and have the answer under way end: uvicorn tells only the last request, which may wait behind it."""
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes of requests, as `HttpToolsProtocol.data_received` does."""
        most = self._limits.head_bytes
        if len(data) > most:
            for start in range(0, len(data), most):
                if not self.transport.is_closing():
                    self.data_received(data[start : start + most])
            return
        self._reading = True
        try:
            self._read(data)
        finally:
            self._reading = False

    def _read(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            # Neither is what was asked right before it: the connection ends.
            self._asked = None
            self._refuse(
                InvalidRequest("What was sent is no request of HTTP, or none that is safe to answer: see RFC 9112")
            )
            return
        except httptools.HttpParserUpgrade:
            # The request is answered as if it asked for no other protocol; what follows it cannot be read.
            if self.cycle is not None:
                self.cycle.keep_alive = False
        self._answer_asked()
        cycle = self.cycle
        if cycle is None or cycle.more_body or cycle.scope is not self.scope:
            self._check_unfinished(len(data))

    def eof_received(self) -> bool:  # type: ignore[override]  # as asyncio has it
        """Return whether the connection stays: when the client sends no more, but still waits for an answer."""
        if self.cycle is None or self.cycle.response_started:
            return False
        self.cycle.keep_alive = False
        return True

    def on_response_complete(self) -> None:
        """Ask next what was asked ahead, as `HttpToolsProtocol.on_response_complete` does, and start no timer."""
        self.server_state.total_requests += 1
        if not self.transport.is_closing():
            self.flow.resume_reading()
            if self.pipeline:
                self._start_asgi_task(*self.pipeline.pop())

    def look(self, now_s: float) -> bool:
        """Close the connection when the server has waited too long for the client; return whether the client is slow.

        One that has its answer and asks nothing more is not.

        Args:
            now_s: the loop's clock.
        """
        awaited = self._awaits()
        if awaited is None or awaited is not self._awaited:
            self._awaited, self._since_s = awaited, now_s
            return False
        waited_s = now_s - self._since_s
        taking = self.transport.get_write_buffer_size() > 0
        if not taking and self.cycle is not None and self.cycle.scope is self.scope:
            if waited_s >= self.timeout_keep_alive:
                # In order: the system may hold the end of the answer still.
                self.transport.close()
            return False
        if waited_s < (self._limits.taken_within_s if taking else self._limits.sent_within_s):
            return False
        self.close()
        return True

    def close(self) -> None:
        """Close the connection at once, whatever has not been sent."""
        self.connections.discard(self)
        # Else the system goes on holding what the client does not take.
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self.transport.abort()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        if self._reading:
            # Called with a request's last header; it is answered when what has come of it is read.
            self._asked = (cycle, app)
        else:
            self._start_task(cycle, app)

    def _answer_asked(self) -> None:
        """Answer what was asked. What was asked ahead of its answer is asked next: a loop, not one within the other.

        Answers to what was asked ahead go out in one write.
        """
        if len(self.pipeline) > self._limits.pipelined:
            self._asked = None
            self.close()
        unsent: list[bytes] = []
        while self._asked is not None:
            (cycle, app), self._asked = self._asked, None
            answer = self._at_once(cycle.scope) if self._at_once is not None and not cycle.more_body else None
            write = unsent.append if unsent or self.pipeline else self.transport.write
            if answer is not None and sent_at_once(cycle, answer.status, answer.sent_headers(), answer.body, write):
                # After each write it is noticed when the client is slow to take its answers.
                if len(unsent) >= _WRITTEN_TOGETHER or len(answer.body) > _WRITTEN_ALONE_BYTES:
                    self._write(unsent)
                continue
            self._write(unsent)
            self._start_task(cycle, app if answer is None else _of(answer))
        if unsent:
            self._write(unsent)

    def _write(self, unsent: list[bytes]) -> None:
        if len(unsent) == 1:
            self.transport.write(unsent[0])
        elif unsent:
            self.transport.writelines(unsent)
        unsent.clear()

    def _start_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answering = cycle
        knows_chunks = cycle.scope["http_version"] not in _WITHOUT_CHUNKS
        send = WholeAnswer(cycle).send if knows_chunks else AnswerUntilTheEnd(cycle).send
        # Starlette's type of a message is wider than uvicorn's.
        super()._start_asgi_task(cycle, lambda scope, receive, _: app(scope, receive, send))  # type: ignore[arg-type]

    def _awaits(self) -> object:
        """Return what the client is waited for with: the same object as long as it is the same; None: it is not."""
        if self.transport.get_write_buffer_size() > 0:
            return self.cycle or self
        if self.cycle is None or self.cycle.response_complete:
            return self.scope or self
        return None

    def _check_unfinished(self, received: int) -> None:
        if self.cycle is None or self.cycle.scope is not self.scope:
            self._check_head(received)
        elif self.cycle.more_body:
            # No route takes a body: it is not read, and nothing can be read after it.
            self.cycle.keep_alive = False
            self.flow.pause_reading()

    def _check_head(self, received: int) -> None:
        if self._head is not self.scope:
            self._head, self._head_bytes = self.scope, 0
        self._head_bytes += received
        if self._head_bytes > self._limits.head_bytes:
            self._refuse(RequestTooLarge(self._limits.head_bytes))

    def _refuse(self, error: Exception) -> None:
        if self.cycle is None or self.cycle.response_complete:
            answer = problem(error, "/")
            headers = [*answer.headers, (b"content-length", b"%d" % len(answer.body)), (b"connection", b"close")]
            head = b"".join(b"%b: %b\r\n" % header for header in headers)
            self.transport.write(STATUS_LINE[answer.status] + head + b"\r\n" + answer.body)
        # Else the answer would be taken for that of the request before this one.
        self.transport.close()


def _of(answer: Answer) -> ASGI3Application:
    """Return an application that gives one answer."""
    return lambda _scope, _receive, send: answer.send(send)  # type: ignore[arg-type]  # as in _start_task


def make_room(others: Iterable[Connection], newest: Connection) -> None:
    """Close an eighth of the other idle connections, and at least one: those that are worth least.

    So slow clients, however many, do not keep out those who ask. Many at once, since finding them takes time. Where
    all others are in use, there is no room for the newest.
    """
    idle = sorted((each for each in others if each.is_idle), key=lambda each: each.worth)
    for connection in idle[: len(idle) // 8 + 1] or [newest]:
        connection.close()

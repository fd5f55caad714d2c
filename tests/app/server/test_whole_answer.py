"""An answer that goes out in one write is the answer that uvicorn would send, byte for byte."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from unittest.mock import Mock

import pytest
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.server.connection import Connection
from app.server.whole_answer import sent_at_once
from runtime.cluster.host_metadata import HostInfo
from tests.drivers.http_instance import exchange, free_host, serving, without_dates

START = "http.response.start"
BODY = "http.response.body"
LENGTH_3 = (b"content-length", b"3")
TAG = (b"etag", b'"a"')


def start(*headers: tuple[bytes, bytes], status: int = 200) -> Message:
    """Return the beginning of an answer."""
    return {"type": START, "status": status, "headers": list(headers)}


def body(content: bytes, *, more: bool = False) -> Message:
    """Return a piece of an answer."""
    return {"type": BODY, "body": content, "more_body": more}


ANSWERS: dict[str, list[Message]] = {
    "whole": [start(LENGTH_3, TAG), body(b"abc")],
    "whole, a megabyte": [start((b"content-length", b"1048576"), TAG), body(b"x" * 2**20)],
    "whole, empty": [start((b"content-length", b"0")), body(b"")],
    "whole, no body given": [start((b"content-length", b"0")), {"type": BODY}],
    "whole, a problem": [start(LENGTH_3, TAG, status=404), body(b"abc")],
    "whole, the length comes last": [start(TAG, LENGTH_3), body(b"abc")],
    "not modified": [start(TAG, status=304), body(b"")],
    "not modified, no headers": [start(status=304), body(b"")],
    "two pieces": [start(LENGTH_3), body(b"ab", more=True), body(b"c")],
    "no length": [start(TAG), body(b"ab", more=True), body(b"c")],
    "no length, one piece": [start(), body(b"abc")],
    "no headers given": [{"type": START, "status": 200}, body(b"abc")],
    "the application closes": [start(LENGTH_3, (b"connection", b"close")), body(b"abc")],
    "longer than it says": [start(LENGTH_3), body(b"abcdef")],
    "shorter than it says": [start(LENGTH_3), body(b"a")],
    "a value with a line's end": [start(LENGTH_3, (b"x", b"a\r\nset-cookie: b")), body(b"abc")],
    "a name with a line's end": [start(LENGTH_3, (b"x: a\ny", b"b")), body(b"abc")],
    "nothing": [],
    "two beginnings": [start(LENGTH_3), start(LENGTH_3)],
    "a body first": [body(b"abc")],
    "one piece too many": [start(LENGTH_3), body(b"abc"), body(b"d")],
}

FIRST = {
    "GET": b"GET /%d HTTP/1.1\r\nHost: here\r\n\r\n",
    "HEAD": b"HEAD /%d HTTP/1.1\r\nHost: here\r\n\r\n",
    "waits for leave": b"GET /%d HTTP/1.1\r\nHost: here\r\nExpect: 100-continue\r\n\r\n",
    "of HTTP/1.0": b"GET /%d HTTP/1.0\r\n\r\n",
}
WITHOUT_CHUNKS = {
    "HTTP/1.0": b"GET /%d HTTP/1.0\r\n\r\n",
    "HTTP/1.0, kept alive": b"GET /%d HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "HTTP/1.0, waits for leave": b"GET /%d HTTP/1.0\r\nExpect: 100-continue\r\n\r\n",
    "HTTP/0.9, as HTTP/1.0 spells it": b"GET /%d HTTP/0.9\r\n\r\n",
}
OF_NO_LENGTH = ("no length", "no length, one piece", "no headers given")
LAST = b"GET /%d HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"


NO_BODY = "/nobody"


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Send the answer that the path names."""
    if scope["type"] != "http":
        return
    if b"expect" in dict(scope["headers"]):
        await receive()
    if scope["path"] == NO_BODY:
        await send(start(LENGTH_3))
        return
    for message in list(ANSWERS.values())[int(scope["path"][1:])]:
        await send(message)


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> Iterator[None]:
    logging.getLogger("uvicorn.error").disabled = True
    yield
    logging.getLogger("uvicorn.error").disabled = False


class OfUvicorn(Connection):
    """A connection that lets uvicorn send all answers."""

    _start_asgi_task = HttpToolsProtocol._start_asgi_task  # noqa: SLF001


@pytest.fixture(scope="module")
def ours() -> Iterator[HostInfo]:
    """The server as it is."""
    with serving(application, free_host()) as host:
        yield host


@pytest.fixture(scope="module")
def of_uvicorn() -> Iterator[HostInfo]:
    """The server as it would be if uvicorn sent all answers."""

    with ExitStack() as opened:
        # Only until this server is made: the other one makes its own connections.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("app.server.http_server.Connection", OfUvicorn)
            host = opened.enter_context(serving(application, free_host()))
        yield host


@pytest.mark.parametrize("first", FIRST.values(), ids=FIRST.keys())
@pytest.mark.parametrize("number", range(len(ANSWERS)), ids=ANSWERS.keys())
def test_the_bytes_are_those_of_uvicorn(ours: HostInfo, of_uvicorn: HostInfo, number: int, first: bytes) -> None:
    sent = first % number + LAST % 0
    expected = without_dates(exchange(of_uvicorn, sent))
    if first == FIRST["of HTTP/1.0"] and list(ANSWERS)[number] in OF_NO_LENGTH:
        head = expected.partition(b"\r\n\r\n")[0].replace(b"\r\ntransfer-encoding: chunked", b"")
        expected = head + b"\r\n\r\nabc"
    assert without_dates(exchange(ours, sent)) == expected


@pytest.mark.parametrize("first", WITHOUT_CHUNKS.values(), ids=WITHOUT_CHUNKS.keys())
@pytest.mark.parametrize("what", OF_NO_LENGTH)
def test_the_end_of_an_answer_without_a_length_is_that_of_the_connection(
    ours: HostInfo, what: str, first: bytes
) -> None:
    answer = exchange(ours, first % list(ANSWERS).index(what) + LAST % 0)
    head, _, content = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert b"transfer-encoding" not in head
    assert b"\r\nconnection: close" in head
    assert content == b"abc"


def test_an_answer_without_a_length_has_no_body_for_head(ours: HostInfo) -> None:
    for version in (b"1.0", b"1.1"):
        number = list(ANSWERS).index("no length")
        answer = exchange(ours, b"HEAD /%d HTTP/%b\r\nHost: h\r\nConnection: close\r\n\r\n" % (number, version))
        assert answer.endswith(b"\r\n\r\n")
        assert b"transfer-encoding" not in answer


def test_an_answer_that_never_gets_its_body_is_an_error_and_not_half_an_answer(ours: HostInfo) -> None:
    answer = exchange(ours, b"GET %b HTTP/1.1\r\nHost: here\r\n\r\n" % NO_BODY.encode())
    assert answer.startswith(b"HTTP/1.1 500 ")


def test_the_comparison_sees_answers(of_uvicorn: HostInfo) -> None:
    answer = without_dates(exchange(of_uvicorn, LAST % 0))
    assert answer == b'HTTP/1.1 200 OK\r\ncontent-length: 3\r\netag: "a"\r\nconnection: close\r\n\r\nabc'


@pytest.mark.parametrize(("length", "writes"), [(3, 1), (64 * 1024, 1), (64 * 1024 + 1, 2)])
def test_a_large_body_is_handed_on_as_it_is_so_that_slow_clients_hold_one_between_them(
    length: int, writes: int
) -> None:
    written, content = list[bytes](), b"x" * length
    cycle = Mock(disconnected=False, scope={"method": "GET"}, default_headers=[])
    cycle.flow.write_paused = False
    assert sent_at_once(cycle, 200, [(b"content-length", b"%d" % length)], content, written.append)
    assert len(written) == writes
    assert b"".join(written) == b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (length, content)
    if writes > 1:
        assert written[-1] is content

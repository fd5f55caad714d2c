"""A connection that answers where it has read the request sends the bytes that it would send by a task."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from api.http.answers import Answer
from runtime.cluster.host_metadata import HostInfo
from tests.drivers.fake_view import board_of
from tests.drivers.http_instance import app_alone, exchange, free_host, serving, without_dates

BOARDS = {1: board_of(1), 6: board_of(6, 10)}
ID = b"X-Request-ID: given\r\n"


def ask(target: bytes, *lines: bytes, method: bytes = b"GET", version: bytes = b"1.1") -> bytes:
    """Return a request."""
    return b"%b %b HTTP/%b\r\nHost: here\r\n%b%b\r\n" % (method, target, version, ID, b"".join(lines))


CLOSE = b"Connection: close\r\n"
LAST = ask(b"/leaderboard/1", CLOSE)
KEPT = ask(b"/leaderboard/1")

SENT = {
    "one": LAST,
    "three ahead of their answers": KEPT * 3 + LAST,
    "as many as may be asked ahead": KEPT * 256 + LAST,
    "some that wait and some that do not": ask(b"/leaderboard") + KEPT + ask(b"/leaderboard/count") + KEPT + LAST,
    "not modified": ask(b"/leaderboard/1", b"If-None-Match: *\r\n") + LAST,
    "no such board": ask(b"/leaderboard/9") + LAST,
    "large, compressed": ask(b"/leaderboard/6?limit=10", b"Accept-Encoding: gzip\r\n") + LAST,
    "HEAD": ask(b"/leaderboard/1", method=b"HEAD") + LAST,
    "POST": ask(b"/leaderboard/1", b"Content-Length: 2\r\n", method=b"POST") + b"{}" + LAST,
    "with a body": ask(b"/leaderboard/1", b"Content-Length: 5\r\n") + b"hello" + LAST,
    "with a body in chunks": ask(b"/leaderboard/1", b"Transfer-Encoding: chunked\r\n")
    + b"5\r\nhello\r\n0\r\n\r\n"
    + LAST,
    "waits for leave": ask(b"/leaderboard/1", b"Expect: 100-continue\r\n") + LAST,
    "asks for another protocol": ask(b"/leaderboard/1", b"Connection: Upgrade\r\nUpgrade: h2c\r\n"),
    "HTTP/1.0": ask(b"/leaderboard/1", version=b"1.0"),
    "HTTP/1.0, kept alive": ask(b"/leaderboard/1", b"Connection: keep-alive\r\n", version=b"1.0"),
}


@pytest.fixture(scope="module")
def at_once() -> Iterator[HostInfo]:
    """The application as it is."""
    host = free_host()
    with serving(app_alone(BOARDS, host), host):
        yield host


@pytest.fixture(scope="module")
def by_task() -> Iterator[HostInfo]:
    """The application without its answers at once."""
    host = free_host()
    with serving(only_called(app_alone(BOARDS, host)), host):
        yield host


def only_called(app: ASGIApp) -> ASGIApp:
    """Return an application of which a server knows no more than ASGI says."""

    async def called(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)

    return called


@pytest.mark.parametrize("sent", SENT.values(), ids=SENT.keys())
def test_the_bytes_are_the_same(at_once: HostInfo, by_task: HostInfo, sent: bytes) -> None:
    answers = [comparable(exchange(host, sent), host) for host in (at_once, by_task)]
    assert answers[0] == answers[1] != b""


# Not those with a body: it is not read, and a connection that is closed so may take its answer with it.
@pytest.mark.parametrize("name", ["three ahead of their answers", "some that wait and some that do not", "HEAD", "one"])
def test_requests_in_pieces_too(at_once: HostInfo, by_task: HostInfo, name: str) -> None:
    answers = [comparable(exchange(host, SENT[name], piece_bytes=7), host) for host in (at_once, by_task)]
    assert answers[0] == answers[1] != b""


def test_who_asks_too_far_ahead_gets_nothing(at_once: HostInfo, by_task: HostInfo) -> None:
    assert [exchange(host, KEPT * 257 + LAST) for host in (at_once, by_task)] == [b"", b""]


def comparable(answers: bytes, host: HostInfo) -> bytes:
    """Return answers without what changes from second to second and from server to server."""
    return without_dates(answers).replace(str(host).encode(), b"here")


def test_a_client_that_waits_gets_its_answer_before_it_asks_again(at_once: HostInfo) -> None:
    for _ in range(3):
        assert exchange(at_once, KEPT, end=True).startswith(b"HTTP/1.1 200 ")


class TwoWays:
    """An application whose answers say which way they took; there is one at once for `/here`."""

    def at_once(self, scope: Scope) -> Answer | None:
        """Answer `/here`."""
        return Answer(200, [], b"at once") if scope["path"] == "/here" else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  # as ASGI has it
        """Answer anything."""
        if scope["type"] == "http":
            await Answer(200, [], b"by task").send(send)


@pytest.mark.parametrize(
    ("sent", "ways"),
    [
        (ask(b"/here") + ask(b"/here", CLOSE), [b"at once", b"at once"]),
        (ask(b"/here") + ask(b"/there", CLOSE), [b"at once", b"by task"]),
        (ask(b"/here", version=b"1.0"), [b"at once"]),
        (ask(b"/here", method=b"HEAD") + ask(b"/there", CLOSE), [b"by task"]),
    ],
)
def test_the_application_is_called_only_when_it_has_no_answer_at_once(sent: bytes, ways: list[bytes]) -> None:
    with serving(TwoWays(), free_host()) as host:
        answers = exchange(host, sent)
    assert re.findall(rb"at once|by task", answers) == ways

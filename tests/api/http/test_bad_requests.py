"""Whatever comes in over a socket: an answer, a problem or a closed connection, and others are answered meanwhile."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator

import httpx
import pytest
from fastapi import APIRouter
from hypothesis import given, settings
from hypothesis import strategies as st

from api.own import Own
from runtime.cluster.host_metadata import HostInfo
from tests.drivers.cluster import Cluster
from tests.drivers.fake_view import board_of
from tests.drivers.http_instance import app_alone, exchange, free_host, serving

CLOSED: list[int] = []
"""No answer, only the end of the connection."""

_STATUS = re.compile(rb"HTTP/1\.1 ([0-9]{3}) ")

Row = tuple[bytes, list[int]]


def ask(target: bytes, status: int, *, method: bytes = b"GET", version: bytes = b"HTTP/1.1", head: bytes = b"") -> Row:
    """Return a request, and what answers it."""
    return b"%b %b %b\r\nHost: here\r\n%bConnection: close\r\n\r\n" % (method, target, version, head), [status]


def post(head: bytes, body: bytes, *statuses: int) -> Row:
    """Return a request with a body, after which the connection could be kept, and what answers it."""
    return b"POST /leaderboard/1 HTTP/1.1\r\nHost: here\r\n%b\r\n%b" % (head, body), list(statuses)


BOARD = b"/leaderboard/1"
KEPT = b"GET /leaderboard/1 HTTP/1.1\r\nHost: here\r\n\r\n"
LAST = ask(BOARD, 200)[0]

TARGETS: dict[str, Row] = {
    "a board": ask(BOARD, 200),
    "an encoded digit is a digit": ask(b"/leaderboard/%31", 200),
    "an encoded slash": ask(b"/leaderboard/1%2F6", 400),
    "an encoded slash before the id": ask(b"/leaderboard%2f1", 400),
    "an overlong id": ask(b"/leaderboard/" + b"1" * 60_000, 400),
    "an id beyond 64 bits": ask(b"/leaderboard/9223372036854775808", 400),
    "a leading zero": ask(b"/leaderboard/01", 400),
    "a plus": ask(b"/leaderboard/+1", 400),
    "Arabic digits": ask(b"/leaderboard/%D9%A3", 400),
    "an encoded NUL": ask(b"/leaderboard/1%00", 400),
    "a raw NUL": ask(b"/leaderboard/1\x00", 400),
    "invalid UTF-8, encoded": ask(b"/leaderboard/%FF%FE", 400),
    "invalid UTF-8, raw": ask(b"/leaderboard/\xff\xfe", 400),
    "no percent-encoding": ask(b"/leaderboard/%zz", 400),
    "a line break": ask(b"/leaderboard/1%0d%0aX-Served-By:%20me", 400),
    "a space": ask(b"/leaderboard/1 6", 400),
    "an empty target": ask(b"", 400),
    "no leading slash": ask(b"leaderboard/1", 400),
    "two leading slashes": ask(b"//elsewhere/leaderboard/1", 404),
    "dots are not resolved": ask(b"/hosts/../leaderboard/1", 404),
    "a range from high to low": ask(b"/leaderboard/6/1", 400),
    "a range with a word": ask(b"/leaderboard/1/x", 400),
    "three ids": ask(b"/leaderboard/1/2/3", 404),
    "a limit of nothing": ask(b"/leaderboard/1?limit=", 400),
    "a limit twice": ask(b"/leaderboard/1?limit=3&limit=4", 400),
    "a limit twice, once encoded": ask(b"/leaderboard/1?limit=3&%6cimit=3", 400),
    "a flag twice": ask(b"/leaderboard?partial=true&partial=false", 400),
    "a limit with a NUL": ask(b"/leaderboard/1?limit=3%00", 400),
    "an overlong limit": ask(b"/leaderboard/1?limit=" + b"9" * 60_000, 400),
    "two question marks": ask(b"/leaderboard/1?limit=3?limit=4", 400),
    "semicolons": ask(b"/leaderboard/1?limit=3;limit=4", 400),
    "raw bytes in the query": ask(b"/leaderboard/1?limit=\xff", 400),
    "unknown parameters mean nothing": ask(b"/leaderboard/1?x=1&x=2&&&=", 200),
    "a URL of 70 KB": ask(b"/leaderboard/" + b"1" * 70_000, 400),
    "a URL of 1 MB": ask(b"/leaderboard/" + b"1" * 1_000_000, 431),
    "another scheme": ask(b"javascript:1", 400),
    "an absolute target is of this server": ask(b"http://elsewhere/leaderboard/1", 200),
    "an absolute target with a bad port": ask(b"http://elsewhere:999999/leaderboard/1", 400),
    "an absolute target without a path": ask(b"http://elsewhere", 400),
}  # fmt: skip
METHODS: dict[str, Row] = {
    **{f"{name} of a board": ask(BOARD, 405, method=name.encode())
       for name in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "PURGE")},
    "HEAD": ask(BOARD, 200, method=b"HEAD"),
    "HEAD of nothing": ask(b"/leaderboard/99", 404, method=b"HEAD"),
    "OPTIONS *": ask(b"*", 404, method=b"OPTIONS"),
    "CONNECT": ask(b"elsewhere:443", 400, method=b"CONNECT"),
    "CONNECT with a path": ask(BOARD, 405, method=b"CONNECT"),
    "an unknown method": ask(BOARD, 400, method=b"FETCH"),
    "a method in small letters": ask(BOARD, 400, method=b"get"),
}  # fmt: skip
HEADERS: dict[str, Row] = {
    "60 KB": ask(BOARD, 200, head=b"X: " + b"a" * 60_000 + b"\r\n"),
    "200 KB": ask(BOARD, 431, head=b"X: " + b"a" * 200_000 + b"\r\n"),
    "thousands": ask(BOARD, 200, head=b"x: y\r\n" * 6_000),
    "a hundred thousand": ask(BOARD, 431, head=b"x: y\r\n" * 100_000),
    "no host": (b"GET /leaderboard/1 HTTP/1.1\r\nConnection: close\r\n\r\n", [200]),
    "a bad host": ask(BOARD, 200, head=b"Host: a b/../\xff\r\n"),
    "a NUL": ask(BOARD, 400, head=b"X: a\x00b\r\n"),
    "no colon": ask(BOARD, 400, head=b"nonsense\r\n"),
    "no name": ask(BOARD, 400, head=b": x\r\n"),
    "a space before the colon": ask(BOARD, 400, head=b"X : y\r\n"),
    "a folded line first": (b"GET /leaderboard/1 HTTP/1.1\r\n X: y\r\n\r\n", [400]),
    "odd Accept": ask(BOARD, 200, head=b"Accept: text/xml;q=0, ;;;,\xff\r\nAccept-Encoding: gzip;q=nan, *;q=-1\r\n"),
    "odd If-None-Match": ask(BOARD, 200, head=b"If-None-Match: " + b'"' * 30_001 + b"\r\n"),
    "any If-None-Match": ask(BOARD, 304, head=b"If-None-Match: *\r\n"),
    "a range of bytes": ask(BOARD, 200, head=b"Range: bytes=0-1,5-2\r\n"),
    "an unknown expectation": ask(BOARD, 200, head=b"Expect: miracles\r\n"),
    "a WebSocket": (KEPT[:-2] + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", [200]),
    "HTTP/2 asked for": (KEPT[:-2] + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                         b"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n", [200]),
}  # fmt: skip
BODIES: dict[str, Row] = {
    "a body of GET is skipped": (KEPT[:-2] + b"Content-Length: 5\r\n\r\nhello" + LAST, [200, 200]),
    "a body that does not come": (KEPT[:-2] + b"Content-Length: 5\r\n\r\n", [200]),
    "a body that waits to be asked for": (KEPT[:-2] + b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n", [200]),
    "chunks": post(b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n" + LAST, 405, 200),
    "chunks without end": post(b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n", 405),
    "chunks and a length": post(b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n" + LAST, 400),
    "a length and chunks": post(b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", b"0\r\n\r\n" + LAST, 400),
    "two lengths": post(b"Content-Length: 5\r\nContent-Length: 6\r\n", b"hello" + LAST, 400),
    "one length twice": post(b"Content-Length: 5\r\nContent-Length: 5\r\n", b"hello" + LAST, 400),
    "a list of lengths": post(b"Content-Length: 5, 5\r\n", b"hello" + LAST, 400),
    "a negative length": post(b"Content-Length: -5\r\n", b"hello" + LAST, 400),
    "a length with a plus": post(b"Content-Length: +5\r\n", b"hello" + LAST, 400),
    "a hexadecimal length": post(b"Content-Length: 0x5\r\n", b"hello" + LAST, 400),
    "a length beyond all": post(b"Content-Length: 99999999999999999999999\r\n", b"hello" + LAST, 400),
    "an empty length": post(b"Content-Length:\r\n", b"hello" + LAST, 400),
    "chunked, then identity": post(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", LAST, 400),
    "chunked, then gzip": post(b"Transfer-Encoding: chunked, gzip\r\n", b"0\r\n\r\n" + LAST, 400),
    "almost chunked": post(b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n" + LAST),
    "chunked after a space": post(b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n" + LAST, 400),
    "chunked after a vertical tab": post(b"Transfer-Encoding:\x0bchunked\r\n", b"0\r\n\r\n" + LAST, 400),
    "chunked on the next line": post(b"Transfer-Encoding:\r\n chunked\r\n", b"0\r\n\r\n" + LAST, 400),
    "a chunk without a length": post(b"Transfer-Encoding: chunked\r\n", b"zz\r\n" + LAST),
    "a chunk longer than it says": post(b"Transfer-Encoding: chunked\r\n", b"5\r\nhello!\r\n0\r\n\r\n" + LAST),
    "a chunk longer than memory": post(b"Transfer-Encoding: chunked\r\n", b"ffffffffffffffffff\r\n" + LAST),
}  # fmt: skip
PROTOCOLS: dict[str, Row] = {
    "nothing": (b"", CLOSED),
    "empty lines first": (b"\r\n" * 50 + LAST, [200]),
    "empty lines only": (b"\r\n" * 1000, CLOSED),
    "half a request line": (b"GET /leader", CLOSED),
    "half a header": (b"GET /leaderboard/1 HTTP/1.1\r\nHos", CLOSED),
    "HTTP/0.9": (b"GET /leaderboard/1\r\n\r\n", [200]),
    "HTTP/1.0": (b"GET /leaderboard/1 HTTP/1.0\r\n\r\n", [200]),
    "HTTP/1.0, kept alive": (b"GET /leaderboard/1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", [200]),
    "HTTP/1.2": ask(BOARD, 400, version=b"HTTP/1.2"),
    "HTTP/9.9": ask(BOARD, 400, version=b"HTTP/9.9"),
    "HTTP/2 at once": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [400]),
    "Icecast": ask(BOARD, 400, version=b"ICE/1.0"),
    "bare line feeds": (b"GET /leaderboard/1 HTTP/1.1\nHost: here\n\n", [400]),
    "bare carriage returns": (b"GET /leaderboard/1 HTTP/1.1\rHost: here\r\r", [400]),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)), [400]),
    "text": (b"hello?\r\n\r\n", [400]),
    "zeros": (b"\0" * 1000, [400]),
    "requests ahead of their answers": (KEPT * 100 + LAST, [200] * 101),
    "far too many requests ahead": (b"GET / HTTP/1.1\r\n\r\n" * 10_000, CLOSED),
    "what follows the last request": (LAST + KEPT, [200]),
    "nonsense after a request": (KEPT + b"nonsense\r\n\r\n", CLOSED),
    "nonsense before an answer that takes a while": (b"GET /leaderboard HTTP/1.1\r\n\r\nnonsense\r\n\r\n", CLOSED),
}  # fmt: skip
ROWS = {
    f"{part}: {name}": row
    for part, rows in {
        "target": TARGETS, "method": METHODS, "headers": HEADERS, "body": BODIES, "protocol": PROTOCOLS
    }.items()
    for name, row in rows.items()
}  # fmt: skip


@pytest.fixture(scope="module")
def instance() -> Iterator[HostInfo]:
    """An instance that no test stops, with boards 1 to 5."""
    host = free_host()
    with serving(app_alone({each: board_of(each) for each in range(1, 6)}, host), host):
        yield host


@pytest.fixture
def quiet_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail when something was worth a warning: bad requests are nobody's worry, and must not fill a log."""
    yield
    worse = [each for each in caplog.get_records("call") if each.levelno >= logging.WARNING or each.exc_info]
    assert not worse, [each.getMessage() for each in worse]


def answers_to(host: HostInfo, sent: bytes) -> list[int]:
    """Return the statuses of all answers, each of which is whole; every refusal is a problem that says what to do."""
    received = exchange(host, sent, end=True)
    answers = _STATUS.split(received)[1:]
    for status, rest in zip(answers[::2], answers[1::2], strict=True):
        head, _, body = rest.partition(b"\r\n\r\n")
        if int(status) >= 400 and not sent.startswith(b"HEAD"):
            assert b"content-type: application/problem+json" in head
            assert json.loads(body)["status"] == int(status)
            assert json.loads(body)["detail"]
        assert (b"allow: GET, HEAD" in head) == (status == b"405")
    return [int(status) for status in answers[::2]]


def still_answers(host: HostInfo) -> None:
    """Fail unless an ordinary reader gets its board."""
    assert exchange(host, LAST).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.usefixtures("quiet_log")
@pytest.mark.parametrize("name", ROWS)
def test_a_bad_request_is_a_problem_or_a_closed_connection(instance: HostInfo, name: str) -> None:
    sent, expected = ROWS[name]
    answered = answers_to(instance, sent)
    # A server that closes while the client still sends may take its answer with it: TCP resets the connection.
    lost_on_the_way = answered == CLOSED and len(sent) > 65536
    assert answered == expected or lost_on_the_way
    still_answers(instance)


pieces = st.sampled_from(
    [
        b"GET ", b"HEAD ", b"POST ", b"CONNECT ", b"/leaderboard/1", b"/leaderboard", b"?limit=", b"*", b"http://h",
        b" HTTP/1.1", b" HTTP/1.0", b"\r\n", b"\r\n\r\n", b"\n", b"\r", b" ", b"Host: h", b"Connection: close",
        b"Connection: upgrade", b"Upgrade: h2c", b"Content-Length: ", b"5", b"-1", b"Transfer-Encoding: chunked",
        b"Expect: 100-continue", b"0\r\n\r\n", b"5\r\nhello\r\n", b"\x00", b"\xff", b"%", b":", KEPT, LAST,
    ]
)  # fmt: skip


@pytest.mark.usefixtures("quiet_log")
@given(st.lists(pieces | st.binary(max_size=8), max_size=40).map(b"".join))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_no_bytes_bring_the_server_down(instance: HostInfo, sent: bytes) -> None:
    received = exchange(instance, sent, end=True)
    assert not received or received.startswith(b"HTTP/1.1 ")
    assert not [each for each in _STATUS.findall(received) if int(each) >= 500]
    still_answers(instance)


@pytest.mark.usefixtures("quiet_log")
def test_a_request_that_comes_byte_by_byte_is_answered(instance: HostInfo) -> None:
    whole = exchange(instance, LAST)
    assert exchange(instance, LAST, piece_bytes=1).partition(b"\r\n\r\n")[2] == whole.partition(b"\r\n\r\n")[2] != b""


def test_what_a_request_says_of_those_before_it_decides_nothing(instance: HostInfo) -> None:
    told = ("host", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-forwarded-prefix", "forwarded",
            "x-original-url", "x-rewrite-url", "x-http-method-override", "x-real-ip")  # fmt: skip
    url = f"http://{instance}/leaderboard/1"
    plain = httpx.get(url, trust_env=False, timeout=60)
    for name in told:
        answer = httpx.get(url, headers={name: "/internal/stores/leader-boards/count"}, trust_env=False, timeout=60)
        assert answer.content == plain.content
        assert answer.headers.get("x-served-by") == plain.headers["x-served-by"] == str(instance)


@pytest.mark.parametrize(
    ("path", "status"), [("?n=3", 200), ("?n=1&n=2", 400), ("?n=%ff", 400), ("?x=1&x=2", 200)], ids=str
)
async def test_routes_of_one_s_own_take_what_can_be_read_in_one_way_alone(path: str, status: int) -> None:
    outer, inner = APIRouter(), APIRouter(prefix="/own")

    @inner.get("/number")
    async def number(n: str = "0") -> str:
        return n

    outer.include_router(inner)
    cluster = Cluster({}, size=1, own=lambda _: Own(routers=[outer]))
    assert (await cluster.get(f"/own/number{path}")).status_code == status

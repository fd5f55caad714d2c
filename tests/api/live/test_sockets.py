"""Two instances behind real servers and sockets, as they run."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import httpx
import pytest

from runtime.cluster.host_metadata import ClusterMap, HostInfo, HostMetadata
from tests.drivers.declared import boards_view
from tests.drivers.fake_view import FakeView, board_of
from tests.drivers.http_instance import app_of, free_host, serving

IDS = list(range(1, 21))


@dataclass
class Instance:
    """One server.

    Attributes:
        host: where it listens.
        stop: ends it at once, and returns when it has ended.
    """

    host: HostInfo
    stop: Callable[[], None]

    def get(self, target: str) -> httpx.Response:
        """Ask it over a connection of its own."""
        return httpx.get(f"http://{self.host}{target}", trust_env=False, timeout=60)


@contextmanager
def started(view: FakeView, cluster: Callable[[], ClusterMap], host: HostInfo) -> Iterator[Instance]:
    """Run one instance."""
    with ExitStack() as running:
        running.enter_context(serving(app_of(view, cluster, host), host))
        yield Instance(host, running.close)


@contextmanager
def two_instances() -> Iterator[tuple[Instance, Instance]]:
    """Run two instances: the first is active for the even partitions, the second for the odd ones; both hold all."""
    boards = {each: board_of(each) for each in IDS}
    hosts = [free_host() for _ in range(2)]
    even, odd = frozenset({0, 2}), frozenset({1, 3})
    members = ClusterMap((HostMetadata(hosts[0], even, odd), HostMetadata(hosts[1], odd, even)), 4)
    with ExitStack() as stack:
        instances = []
        for host, active, standby in zip(hosts, (even, odd), (odd, even), strict=True):
            view = boards_view(boards)
            view.hold(active)
            view.hold(standby, "standby")
            instances.append(stack.enter_context(started(view, lambda: members, host)))
        yield instances[0], instances[1]


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Instance, Instance]]:
    """Two instances that no test stops."""
    with two_instances() as instances:
        yield instances


def test_both_instances_answer_alike_and_losing_one_is_not_noticed() -> None:
    targets = [f"/leaderboard/{each}" for each in (*IDS, 99)] + [
        "/leaderboard",
        "/leaderboard/3/9",
        "/leaderboard/count",
    ]
    with two_instances() as (first, second):
        before = {}
        for target in targets:
            here, there = first.get(target), second.get(target)
            assert (here.status_code, here.content) == (there.status_code, there.content)
            assert here.headers.get("x-served-by") == there.headers.get("x-served-by")
            before[target] = (here.status_code, here.content)
        assert json.loads(before["/leaderboard"][1]).keys() == {str(each) for each in IDS}
        second.stop()
        for target in targets:
            after = first.get(target)
            assert (after.status_code, after.content) == before[target]


def raw(host: HostInfo, request: bytes) -> bytes:
    """Return what a server answers to these bytes until it closes the connection."""
    with socket.create_connection((host.host, host.port), timeout=60) as connection:
        connection.sendall(request)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    return answer


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"GET /leaderboard/1 HTTP/1.1", 200),
        (b"HEAD /leaderboard/1 HTTP/1.1", 200),
        (b"HEAD /leaderboard/2 HTTP/1.1", 200),
        (b"GET /leaderboard/%FF%FE HTTP/1.1", 400),
        (b"GET /leaderboard/\xff HTTP/1.1", 400),
        (b"GET /leaderboard/1?limit=\xff HTTP/1.1", 400),
        (b"GET /leaderboard/%zz HTTP/1.1", 400),
        (b"GET /leaderboard/" + b"1" * 50_000 + b" HTTP/1.1", 400),
        (b"GET /leaderboard/1?limit=" + b"9" * 50_000 + b" HTTP/1.1", 400),
        (b"GET http://elsewhere/leaderboard/1 HTTP/1.1", 200),
        (b"GET //leaderboard/1 HTTP/1.1", 404),
        (b"DELETE /leaderboard/1 HTTP/1.1", 405),
        (b"GARBAGE", 400),
        (b"GET leaderboard HTTP/1.1", 400),
    ],
)
def test_whatever_is_sent_the_server_answers_and_goes_on(
    pair: tuple[Instance, Instance], line: bytes, status: int
) -> None:
    answer = raw(pair[0].host, line + b"\r\nHost: here\r\nConnection: close\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert int(head.split()[1]) == status
    assert (body == b"") == line.startswith(b"HEAD")
    assert pair[0].get("/leaderboard/1").status_code == 200


@pytest.mark.parametrize("product_id", [1, 2, 3, 4])
def test_not_modified_has_no_body_on_the_wire(pair: tuple[Instance, Instance], product_id: int) -> None:
    tag = pair[0].get(f"/leaderboard/{product_id}").headers["etag"]
    request = f"GET /leaderboard/{product_id} HTTP/1.1\r\nHost: h\r\nIf-None-Match: {tag}\r\nConnection: close\r\n\r\n"
    head, _, body = raw(pair[0].host, request.encode()).partition(b"\r\n\r\n")
    assert head.split()[1] == b"304"
    assert body == b""
    assert b"transfer-encoding" not in head.lower()

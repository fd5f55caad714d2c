"""The load balancer in a real nginx: what a reader sees when replicas end, hang, know nothing yet, come and go."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

import httpx
import pytest

from tests.drivers.nginx import Nginx
from tests.drivers.ports import free_port
from tests.waiting import UNHURRIED_S, wait_until

pytestmark = pytest.mark.system

UNAVAILABLE = b'{"status":503,"partitions":[2]}'


@dataclass
class Replica:
    """Answers like one: 200 with its name, until it is told otherwise.

    Attributes:
        status: what it answers with.
        silent: while set, it takes requests and does not answer.
        paused: of each stream what it waits for before it sends its next event.
        seen: the headers of each request, their names in lower case.
        targets: path and query of each.
    """

    name: str
    status: int = 200
    silent: threading.Event = field(default_factory=threading.Event)
    paused: list[threading.Semaphore] = field(default_factory=list)
    seen: list[Mapping[str, str]] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def go_on(self, events: int = 1) -> None:
        """Let each stream send so many further events; after the last one it ends."""
        for each in self.paused:
            each.release(events)

    def __exit__(self, *_: object) -> None:
        """Stop to listen, as a process that has ended; does nothing the second time."""
        self.silent.clear()
        if self._thread.is_alive():
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128


def _handler(replica: Replica) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            replica.seen.append({name.lower(): value for name, value in self.headers.items()})
            replica.targets.append(self.path)
            if self.path.partition("?")[0].endswith("/events") and replica.status != 503:
                self._stream()
                return
            while replica.silent.is_set():
                time.sleep(0.02)
            body = UNAVAILABLE if replica.status == 503 else replica.name.encode()
            self.send_response(replica.status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", '"7"')
            self.send_header("X-Served-By", replica.name)
            if replica.status == 503:
                self.send_header("Content-Type", "application/problem+json")
                self.send_header("Retry-After", "1")
            # As after the end of a process: a connection that is kept alive would outlive the listening socket.
            self.send_header("Connection", "close")
            with suppress(ConnectionError):  # nginx has waited for long enough.
                self.end_headers()
                self.wfile.write(body)

        def _stream(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            with suppress(ConnectionError):  # The reader has heard enough.
                go_on = threading.Semaphore(0)
                replica.paused.append(go_on)
                for number in range(3):
                    self.wfile.write(b"data: %d\n\n" % number)
                    go_on.acquire()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    return Handler


@dataclass
class Cluster:
    """Three replicas behind a load balancer."""

    replicas: tuple[Replica, Replica, Replica]
    nginx: Nginx
    start: Callable[[Replica], Replica]

    def ask(self, times: int = 12, path: str = "/leaderboard/1", **headers: str) -> list[httpx.Response]:
        """Ask one after the other over connections of their own.

        By one client: one for each request would take longer to make than the request itself.
        """
        anew = httpx.Limits(max_keepalive_connections=0)
        with httpx.Client(base_url=self.nginx.url, headers=headers, limits=anew, timeout=UNHURRIED_S) as client:
            return [client.get(path) for _ in range(times)]


@contextmanager
def new_cluster(directory: Path) -> Iterator[Cluster]:
    with ExitStack() as running:
        a, b, c = (running.enter_context(Replica(name)) for name in "abc")
        nginx = running.enter_context(Nginx(directory, [a.port, b.port, c.port]))
        yield Cluster((a, b, c), nginx, running.enter_context)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with new_cluster(tmp_path) as made:
        yield made


def answers(responses: list[httpx.Response]) -> list[tuple[int, str]]:
    return sorted({(response.status_code, response.text) for response in responses})


def assert_answered_by(cluster: Cluster, *names: str, path: str = "/leaderboard/1") -> None:
    """Ask until each of these replicas has answered, and no other one: a busy machine may leave one out at first."""
    missing = set(names)

    def all_have_answered() -> bool:
        found = answers(cluster.ask(path=path))
        assert {status for status, _ in found} == {200}
        who = {name for _, name in found}
        assert who <= set(names)
        missing.difference_update(who)
        return not missing

    wait_until(all_have_answered, lambda: f"{missing} has answered")


def test_every_replica_gets_its_share(cluster: Cluster) -> None:
    assert_answered_by(cluster, "a", "b", "c")


@pytest.mark.parametrize(
    "path",
    ["/leaderboard/1", "/leaderboard", "/stores", "/stores/counts-store/keys", "/stores/counts-store/keys/a%2Fb"],
)
def test_a_replica_that_has_ended_is_not_noticed(cluster: Cluster, path: str) -> None:
    cluster.replicas[0].__exit__()
    assert_answered_by(cluster, "b", "c", path=path)


def test_a_frozen_replica_costs_one_wait_and_is_then_left_alone(tmp_path: Path) -> None:
    for tries_left in (2, 1, 0):
        with new_cluster(tmp_path / str(tries_left)) as cluster:
            cluster.replicas[0].silent.set()
            started = time.monotonic()
            assert answers(cluster.ask(times=30)) == [(200, "b"), (200, "c")]
            took_s = time.monotonic() - started
            # 3 s for the one that found out; in the 2 s after that nobody asks it. A busy machine may need longer.
            if took_s >= 5 and tries_left:
                continue
            assert took_s < 5
            assert len(cluster.replicas[0].seen) == 1
            break


def test_a_replica_that_knows_nothing_yet_is_asked_but_not_believed(cluster: Cluster) -> None:
    cluster.replicas[0].status = 503
    assert_answered_by(cluster, "b", "c")


def test_one_that_has_ended_and_one_that_knows_nothing_leave_the_third(cluster: Cluster) -> None:
    cluster.replicas[0].__exit__()
    cluster.replicas[1].status = 503
    assert_answered_by(cluster, "c")


def test_when_all_answer_503_the_reader_gets_the_reason_and_the_next_board_is_served(cluster: Cluster) -> None:
    for replica in cluster.replicas:
        replica.status = 503
    refused = cluster.ask()
    assert answers(refused) == [(503, UNAVAILABLE.decode())]
    assert {response.headers["retry-after"] for response in refused} == {"1"}
    assert {response.headers["content-type"] for response in refused} == {"application/problem+json"}
    # A true 503 about one board keeps nobody from the others.
    for replica in cluster.replicas:
        replica.status = 200
    assert answers(cluster.ask()) == [(200, "a"), (200, "b"), (200, "c")]


@pytest.mark.parametrize("status", [404, 500])
def test_other_answers_pass_as_they_are_and_are_not_asked_for_again(cluster: Cluster, status: int) -> None:
    for replica in cluster.replicas:
        replica.status = status
    assert {response.status_code for response in cluster.ask(times=6)} == {status}
    assert sum(len(replica.seen) for replica in cluster.replicas) == 6


def test_without_any_replica_the_load_balancer_says_so_as_the_service_would(cluster: Cluster) -> None:
    for replica in cluster.replicas:
        replica.__exit__()
    (response,) = cluster.ask(times=1)
    assert response.status_code == 503
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["retry-after"] == "1"
    problem = json.loads(response.text)
    assert problem["status"] == 503
    assert set(problem) == {"type", "title", "status", "detail"}


def test_a_replica_that_comes_back_is_used_again(cluster: Cluster) -> None:
    cluster.replicas[0].status = 503
    cluster.ask()
    cluster.replicas[0].status = 200
    assert (200, "a") in answers(cluster.ask())


def test_a_reader_cannot_pass_for_a_replica_and_replicas_learn_who_asks(cluster: Cluster) -> None:
    (response,) = cluster.ask(
        times=1, **{"X-Leaderboard-Hop": "1", "X-Forwarded-For": "10.1.2.3", "If-None-Match": '"6"'}
    )
    (seen,) = [headers for replica in cluster.replicas for headers in replica.seen]
    assert "x-leaderboard-hop" not in seen
    assert seen["host"] == f"127.0.0.1:{cluster.nginx.port}"
    assert seen["x-forwarded-for"] == "10.1.2.3, 127.0.0.1"
    assert seen["if-none-match"] == '"6"'
    assert "connection" not in seen
    assert response.headers["etag"] == '"7"'
    assert response.headers["x-served-by"] == response.text


def test_replicas_come_and_go(cluster: Cluster) -> None:
    a, b, _ = cluster.replicas
    d = cluster.start(Replica("d"))
    cluster.nginx.reload([a.port, b.port, d.port])
    assert_answered_by(cluster, "a", "b", "d")
    cluster.nginx.reload([free_port(), d.port])
    assert_answered_by(cluster, "d")


@pytest.mark.parametrize("key", ["hello", "a%2Fb", "%252F", "a%20b", "@", "%F0%9F%8E%B2", "%0A", "%2F%2F", "%3F%23"])
def test_a_key_comes_to_a_replica_as_it_was_sent(cluster: Cluster, key: str) -> None:
    target = f"/stores/counts-store/keys/{key}?limit=1"
    cluster.ask(times=3, path=target)
    # Also where the first has ended, and the second knows nothing yet.
    cluster.replicas[0].__exit__()
    cluster.replicas[1].status = 503
    cluster.ask(times=3, path=target)
    assert {asked for replica in cluster.replicas for asked in replica.targets} == {target}


def test_a_thousand_names_pass(cluster: Cluster) -> None:
    target = "/stores/counts-store/keys?" + "&".join(f"key={'x' * 40}{number}" for number in range(1000))
    assert_answered_by(cluster, "a", "b", "c", path=target)


def test_an_answer_about_many_rows_may_take_longer(cluster: Cluster) -> None:
    paths = ["/stores/counts-store/keys", "/stores/counts-store/count", "/stores", "/leaderboard"]
    for replica in cluster.replicas:
        replica.silent.set()
    with ThreadPoolExecutor(len(paths)) as pool:
        asked = [pool.submit(cluster.ask, 1, path) for path in paths]
        # Longer than an answer about one row may take; the silence is what is tested.
        time.sleep(4)
        for replica in cluster.replicas:
            replica.silent.clear()
        assert [response.status_code for each in asked for response in each.result()] == [200] * len(paths)
    assert sorted(path for replica in cluster.replicas for path in replica.targets) == sorted(paths)


def test_live_updates_pass_one_by_one_and_may_be_silent_for_long(cluster: Cluster) -> None:
    paths = [
        "/leaderboard/1/events", "/leaderboard/events", "/leaderboard/1/events?limit=2",
        "/leaderboard/1/players/2/events",
        "/stores/counts-store/events", "/stores/counts-store/keys/a%2Fb/events", "/stores/counts-store/keys/%0A/events",
    ]  # fmt: skip
    with ExitStack() as open_streams, httpx.Client(base_url=cluster.nginx.url, timeout=UNHURRIED_S) as client:
        opened = [client.stream("GET", path, headers={"Last-Event-ID": "7"}) for path in paths]
        responses = [open_streams.enter_context(each) for each in opened]
        pieces = [response.iter_raw() for response in responses]
        assert [next(each) for each in pieces] == [b"data: 0\n\n"] * len(paths)
        # Silent for longer than any other answer may take; the silence is what is tested.
        time.sleep(8)
        for expected in (b"data: 1\n\n", b"data: 2\n\n", None):
            for replica in cluster.replicas:
                replica.go_on()
            assert [next(each, None) for each in pieces] == [expected] * len(paths)
    assert {response.headers["content-type"] for response in responses} == {"text/event-stream"}
    assert sorted(path for replica in cluster.replicas for path in replica.targets) == sorted(paths)
    assert {headers["last-event-id"] for replica in cluster.replicas for headers in replica.seen} == {"7"}


def test_live_updates_past_a_replica_that_knows_nothing_may_be_silent_for_long(cluster: Cluster) -> None:
    cluster.replicas[0].status = 503
    while not cluster.replicas[0].seen:
        with httpx.stream("GET", f"{cluster.nginx.url}/leaderboard/1/events", timeout=UNHURRIED_S) as response:
            pieces = response.iter_raw()
            assert next(pieces) == b"data: 0\n\n"
            if cluster.replicas[0].seen:
                # Silent for longer than any other answer may take; the silence is what is tested.
                time.sleep(8)
            for replica in cluster.replicas[1:]:
                replica.go_on(3)
            assert b"".join(pieces) == b"data: 1\n\ndata: 2\n\n"


def test_a_replica_that_has_ended_is_not_noticed_by_who_opens_live_updates(cluster: Cluster) -> None:
    cluster.replicas[0].__exit__()
    for _ in range(6):
        with httpx.stream("GET", f"{cluster.nginx.url}/leaderboard/1/events", timeout=UNHURRIED_S) as response:
            assert next(response.iter_raw()) == b"data: 0\n\n"
    for replica in cluster.replicas[1:]:
        replica.go_on(3)

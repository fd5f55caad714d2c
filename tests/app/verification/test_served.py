"""Asking instances for their boards: real HTTP, and every answer that is no leaderboard."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from app.errors import NotComparable, SetupError
from app.verification.boards.comparison import Place
from app.verification.boards.served import Instances
from runtime.errors import LeaderboardError

ENTRY = {"playerId": 3, "productId": 6, "playerName": "Isabelle", "gameName": "Mario Kart", "score": 4000.0}
TOKEN = "shown-by-readers"
PLACE = Place(4000.0, 3, "Isabelle", "Mario Kart")


class Answering(ThreadingHTTPServer):
    """Answers every path with what a test has put there, and notes what was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.answers: dict[str, tuple[int, bytes]] = {"/leaderboard/count": (200, b"1")}
        self.asked: list[tuple[str, str | None]] = []

    def says(self, body: Any, status: int = 200, depth: int = 10) -> None:
        """Answer with this, JSON unless it is bytes already."""
        answer = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.answers[f"/leaderboard?limit={depth}"] = (status, answer)


class _Handler(BaseHTTPRequestHandler):
    server: Answering

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers["Authorization"]))
        status, body = self.server.answers[self.path]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Answering]:
    with Answering() as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_boards_and_count_are_what_every_instance_says(server: Answering) -> None:
    server.says({"6": [ENTRY]}, depth=7)
    with Instances((server.url, server.url), 7, TOKEN) as instances:
        first, second = instances.ask()
    assert first == second
    assert (first.url, first.boards, first.counted) == (server.url, {6: (PLACE,)}, 1)
    assert json.loads(first.body) == {"6": [ENTRY]}
    assert server.asked == 2 * [
        ("/leaderboard?limit=7", f"Bearer {TOKEN}"),
        ("/leaderboard/count", f"Bearer {TOKEN}"),
    ]


def test_no_boards_are_an_answer(server: Answering) -> None:
    server.says({})
    server.answers["/leaderboard/count"] = (200, b"0")
    with Instances((server.url,), 10) as instances:
        [served] = instances.ask()
    assert (served.boards, served.counted) == ({}, 0)
    assert {token for _, token in server.asked} == {None}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"4",
        b"\xff",
        b"[" * 100_000,
        {"6": {}},
        {"6": []},
        {"6": [{}]},
        {"7": [ENTRY]},
        {"06": [ENTRY]},
        {"6": [ENTRY, ENTRY | {"productId": 7}]},
        {"6": [ENTRY | {"playerId": 2**63}]},
        {"6": [ENTRY | {"playerId": "3"}]},
        {"6": [ENTRY | {"playerName": None}]},
        {"6": [ENTRY | {"score": True}]},
        {"6": [ENTRY | {"score": "4000.0"}]},
        {"6": [ENTRY | {"further": 1}]},
        b'{"6": [%b], "6": [%b]}' % (json.dumps(ENTRY).encode(), json.dumps(ENTRY).encode()),
        json.dumps({"6": [ENTRY]}).replace("4000.0", "NaN").encode(),
    ],
    ids=lambda body: str(body)[:60],
)
def test_an_answer_that_is_no_leaderboard_is_refused(server: Answering, body: Any) -> None:
    server.says(body)
    with (
        Instances((server.url,), 10) as instances,
        pytest.raises(SetupError, match=f"{server.url} answers with something that is no leaderboard"),
    ):
        instances.ask()


@pytest.mark.parametrize(
    ("status", "error", "says"),
    [
        (503, NotComparable, "answers 503: partition 2 restores"),
        (500, NotComparable, "answers 500: partition 2 restores"),
        (400, SetupError, "answers 400: partition 2 restores: give LEADERBOARD_DEPTH "),
        (401, SetupError, "answers 401: partition 2 restores: give LEADERBOARD_API_TOKEN "),
        (403, SetupError, "answers 403: partition 2 restores: give LEADERBOARD_API_TOKEN "),
        (404, SetupError, "answers 404: partition 2 restores: see what it is"),
        (307, SetupError, "answers 307: partition 2 restores: see what it is"),
    ],
)
def test_a_refusal_is_told_as_it_came(server: Answering, status: int, error: type[LeaderboardError], says: str) -> None:
    server.says({"detail": "partition 2 restores"}, status)
    with Instances((server.url,), 10) as instances, pytest.raises(error) as raised:
        instances.ask()
    assert says in str(raised.value)
    server.says(b"just text", status)
    with Instances((server.url,), 10) as instances, pytest.raises(error, match="just text"):
        instances.ask()


@pytest.mark.parametrize("url", ["localhost:7000", "ftp://localhost", "http://", "http://localhost:x", "http://\x7f"])
def test_a_url_that_cannot_be_asked_is_refused(url: str) -> None:
    with Instances((url,), 10) as instances, pytest.raises(SetupError, match="is not a URL that can be asked"):
        instances.ask()

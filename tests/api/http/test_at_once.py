"""What is answered without waiting is what the application would answer, and is counted once."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import Message, Scope

from api.http.answers import Headers
from api.http.auth import Tokens
from api.http.delivery import Sharing
from api.http.observed import Observed
from runtime.kafka.partitioner import partition_for
from runtime.records import ID_MAX, ID_MIN
from tests.drivers.cluster import Cluster, cluster_with_everything
from tests.drivers.fake_view import board_of


def of_instance_0(at_least: int) -> int:
    """Return a product whose active copy is on the first of three instances."""
    return next(each for each in range(at_least, at_least + 100) if partition_for(each, 4) == 0)


ABSENT = of_instance_0(100)
LARGE = of_instance_0(10**17)
"""All of it is large enough to be compressed."""
IDS = [ID_MIN, -3, 0, 1, 6, 12, 99, ID_MAX]
ID = (b"x-request-id", b"given")
BY_PEER = (b"x-leaderboard-hop", b"1")
OF_ANOTHER = "/leaderboard/100"


def instance(cluster: Cluster, number: int) -> Observed:
    """Return the application of an instance."""
    observed = cluster.network.apps[cluster.hosts[number]]
    assert isinstance(observed, Observed)
    return observed


def asked(target: str, headers: Headers, method: str = "GET") -> Scope:
    """Return a request as ASGI has it."""
    path, _, query = target.partition("?")
    return {
        "type": "http", "http_version": "1.1", "scheme": "http", "root_path": "", "server": ("here", 80),
        "client": ("there", 1), "method": method, "path": unquote(path), "raw_path": path.encode(),
        "query_string": query.encode(), "headers": headers,
    }  # fmt: skip


async def waited_for(app: Observed, scope: Scope) -> tuple[int, Headers, bytes]:
    """Return status, headers and body as the application sends them."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(dict(scope), receive, send)
    return sent[0]["status"], sent[0]["headers"], b"".join(message.get("body", b"") for message in sent[1:])


def answered_at_once(app: Observed, scope: Scope) -> tuple[int, Headers, bytes] | None:
    """Return status, headers and body of an answer that waits for nothing, None without one."""
    answer = app.at_once(scope)
    return None if answer is None else (answer.status, answer.sent_headers(), answer.body)


BOARDS = {each: board_of(each) for each in IDS} | {LARGE: board_of(LARGE, 10)}
CLUSTER = cluster_with_everything(BOARDS)
GUARDED = cluster_with_everything(BOARDS, tokens=[Tokens(api=("secret",))] * 3)

ids = st.sampled_from([*IDS, LARGE]) | st.integers(ID_MIN - 2, ID_MAX + 2) | st.integers(-20, 120)
texts = ids.map(str) | st.sampled_from(["01", "-0", "%31", "count", "count/local", "", "1/6"])
queries = st.sampled_from(["", "?", "?limit=2", "?limit=10", "?limit=11", "?limit=0", "?foo=1"])
tags = st.sampled_from([b"*", b'"x"']) | st.sampled_from(IDS).map(
    lambda each: CLUSTER.views[0].get(each, 3).etag.encode()  # type: ignore[union-attr]
)
more_headers = st.lists(
    st.just(BY_PEER)
    | st.just((b"authorization", b"Bearer secret"))
    | st.just((b"accept-encoding", b"gzip"))
    | tags.map(lambda tag: (b"if-none-match", tag)),
    unique_by=lambda each: each[0],
)
methods = st.sampled_from(["GET", "GET", "GET", "HEAD", "POST", "OPTIONS"])


@given(texts, queries, more_headers, methods, st.integers(0, 2), st.sampled_from([CLUSTER, GUARDED]))
@settings(max_examples=500, deadline=None)
async def test_it_is_what_the_application_answers(
    text: str, query: str, headers: Headers, method: str, number: int, cluster: Cluster
) -> None:
    app, scope = instance(cluster, number), asked(f"/leaderboard/{text}{query}", [ID, *headers], method)
    at_once = answered_at_once(app, scope)
    assert at_once is None or at_once == await waited_for(app, scope)


@pytest.mark.parametrize(
    ("target", "headers", "status"),
    [
        ("/leaderboard/1", [], 200),
        ("/leaderboard/1?limit=2", [], 200),
        ("/leaderboard/1", [(b"if-none-match", b"*")], 304),
        ("/leaderboard/1", [(b"accept-encoding", b"gzip")], 200),
        (f"/leaderboard/{ABSENT}", [], 404),
        (f"/leaderboard/{LARGE}", [], 200),
        (f"/leaderboard/{LARGE}?limit=10", [], None),
        (OF_ANOTHER, [], None),
        (OF_ANOTHER, [BY_PEER], 503),
        ("/leaderboard", [], None),
        ("/leaderboard/01", [], None),
        ("/leaderboard/1?limit=99", [], None),
    ],
)
def test_boards_that_are_here_are_answered_at_once(target: str, headers: Headers, status: int | None) -> None:
    at_once = answered_at_once(instance(CLUSTER, 0), asked(target, headers))
    assert (at_once and at_once[0]) == status


def test_who_has_no_token_is_refused_at_once() -> None:
    refused = answered_at_once(instance(GUARDED, 0), asked("/leaderboard", []))
    assert refused is not None
    assert refused[0] == 401


def test_an_id_is_in_the_answer_when_it_was_given_or_something_is_wrong() -> None:
    app = instance(CLUSTER, 0)
    ids_of = {
        "given": app.at_once(asked("/leaderboard/1", [ID])),
        "none needed": app.at_once(asked("/leaderboard/1", [])),
        "a problem": app.at_once(asked(OF_ANOTHER, [BY_PEER])),
    }
    named = {name: b"x-request-id" in dict(answer.headers) for name, answer in ids_of.items() if answer is not None}
    assert named == {"given": True, "none needed": False, "a problem": True}


def test_what_fails_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_with_everything(BOARDS)

    def fail(*_: object) -> None:
        raise RuntimeError("the store is broken")

    monkeypatch.setattr(cluster.views[0], "get", fail)
    at_once = answered_at_once(instance(cluster, 0), asked("/leaderboard/1", []))
    assert at_once is not None
    assert at_once[0] == 500
    assert b"broken" not in at_once[2]


def test_with_pages_of_other_origins_everything_goes_through_their_rules() -> None:
    shared = cluster_with_everything(BOARDS, sharing=Sharing(cors_origins=("https://games.example",)))
    assert instance(shared, 0).at_once(asked("/leaderboard/1", [])) is None


async def test_each_answer_is_counted_once_as_if_it_had_been_waited_for() -> None:
    targets = ["/leaderboard/1", "/leaderboard/1", OF_ANOTHER, "/leaderboard/1?limit=2"]
    requests = [asked(target, [BY_PEER]) for target in targets]
    at_once, waited = (instance(cluster_with_everything(BOARDS), 0) for _ in range(2))
    for scope in requests:
        assert at_once.at_once(scope) is not None
        await waited_for(waited, scope)
    # Of another instance: nothing is answered, nothing is counted.
    assert at_once.at_once(asked(OF_ANOTHER, [])) is None
    assert await counted(at_once) == await counted(waited) != set()


async def counted(app: Observed) -> set[str]:
    """Return what the metrics say about requests, without times."""
    _, _, text = await waited_for(app, asked("/metrics", []))
    names = ("leaderboard_http_requests_total", "leaderboard_http_request_duration_seconds_count")
    return {line for line in text.decode().splitlines() if line.startswith(names)}

"""Tokens of clients and of peers, and that no request from outside reaches what it should not."""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
import re

import httpx
import pytest

from api.cluster import self_check
from api.http.auth import OPEN_PATHS, Tokens
from api.main import create_app
from runtime.cluster.host_metadata import ClusterMap, HostInfo, HostMetadata
from tests.drivers.cluster import Cluster, Network
from tests.drivers.declared import PAGE_FILES, boards_view, components_of
from tests.drivers.eventually import eventually
from tests.drivers.fake_view import ABSENT, board_of
from tests.drivers.http_instance import app_alone, exchange, free_host, serving

CLIENT, CLIENT_NEXT, PEER, PEER_NEXT = (
    "token-of-clients",
    "next-of-clients~+/==",
    "token-of-peers00",
    "next-of-peers000",
)
TOKENS = Tokens(api=(CLIENT, CLIENT_NEXT), peer=(PEER, PEER_NEXT))
SECRETS = (CLIENT, CLIENT_NEXT, PEER, PEER_NEXT)
IDS = range(1, 21)
GUARDED = [
    "/leaderboard", "/leaderboard/1", "/leaderboard/2?limit=1", "/leaderboard/01", "/leaderboard/1/6",
    "/leaderboard/count", "/leaderboard/count/local", "/hosts", "/hosts/1", "/metrics",
    "/internal/stores/leader-boards/range", "/stores", "/stores/leader-boards/keys/1", "/stores/x", "/topology",
    "/nowhere", "/docs/oauth2-redirect", "/Health/live", "/health/live/", "/%64ocs/x",
]  # fmt: skip


def cluster(*tokens: Tokens) -> Cluster:
    """Return three instances; each has the tokens given, by default all the same ones."""
    return Cluster({each: board_of(each) for each in IDS}, tokens=tokens or [TOKENS] * 3)


@functools.cache
def guarded() -> Cluster:
    """Return instances that all have both kinds of token, for tests that change nothing."""
    return cluster()


def is_refused(response: httpx.Response, challenge: str) -> bool:
    """Return whether the answer is 401, as a problem that says which token is asked for."""
    fields = response.json()
    return (
        response.status_code == fields["status"] == 401
        and response.headers["content-type"] == "application/problem+json"
        and response.headers["www-authenticate"] == challenge
        and "_TOKEN" in fields["detail"]
        and "x-served-by" not in response.headers
    )


@pytest.mark.parametrize("path", GUARDED)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_without_a_token_a_client_is_told_which_to_send(path: str, method: str) -> None:
    async with guarded().client() as client:
        assert is_refused(await client.request(method, path), "Bearer")


WRONG = [
    "Bearer", "Bearer ", "Bearer wrong", f"Bearer {CLIENT}x", f"Bearer {CLIENT[:-1]}", f"Bearer {CLIENT.upper()}",
    f"Bearer {CLIENT}, Bearer {CLIENT_NEXT}", f"Bearer {CLIENT},{CLIENT_NEXT}", f"Basic {CLIENT}", CLIENT,
    f"Bearer{CLIENT}", f"Bearer {PEER}", "Bearer \u00fc", "",
]  # fmt: skip


@pytest.mark.parametrize("sent", WRONG)
@pytest.mark.parametrize("path", ["/leaderboard/1", "/leaderboard"])
async def test_another_token_is_refused(path: str, sent: str) -> None:
    async with guarded().client() as client:
        answer = await client.get(path, headers=[(b"authorization", sent.encode())])
    assert is_refused(answer, 'Bearer error="invalid_token"')


@pytest.mark.parametrize("token", [CLIENT, CLIENT_NEXT])
@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER "])
async def test_each_token_of_clients_opens_every_route(token: str, scheme: str) -> None:
    to_all = Cluster({each: board_of(each) for each in IDS})
    for path in ("/leaderboard", *(f"/leaderboard/{each}" for each in IDS), "/leaderboard/count", "/hosts", "/hosts/1"):
        answer = await guarded().get(path, authorization=f"{scheme} {token}")
        assert (answer.status_code, answer.content) == (200, (await to_all.get(path)).content)


async def test_two_tokens_at_once_are_no_token() -> None:
    async with guarded().client() as client:
        both = [("authorization", f"Bearer {CLIENT}"), ("authorization", f"Bearer {CLIENT}")]
        assert is_refused(await client.get("/leaderboard/1", headers=both), 'Bearer error="invalid_token"')


@pytest.mark.parametrize("path", sorted(OPEN_PATHS | PAGE_FILES))
async def test_health_and_the_documents_need_no_token(path: str) -> None:
    assert (await guarded().get(path)).status_code == 200


async def test_methods_are_told_without_a_token() -> None:
    async with guarded().client() as client:
        assert (await client.options("/leaderboard/1")).status_code == 405


async def test_without_tokens_everything_is_as_open_as_it_was() -> None:
    answer = await cluster(*[Tokens()] * 3).get("/leaderboard/1", authorization="Bearer anything")
    assert answer.status_code == 200


async def test_between_instances_the_first_token_of_peers_travels_and_never_that_of_a_client() -> None:
    asked = cluster()
    for each in IDS:
        assert (await asked.get(f"/leaderboard/{each}", authorization=f"Bearer {CLIENT_NEXT}")).status_code == 200
    assert (await asked.get("/leaderboard", authorization=f"Bearer {CLIENT_NEXT}")).status_code == 200
    assert len(asked.network.authorizations) > 5
    assert set(asked.network.authorizations) == {f"Bearer {PEER}"}


async def test_without_tokens_no_authorization_travels() -> None:
    asked = cluster(*[Tokens()] * 3)
    for each in IDS:
        await asked.get(f"/leaderboard/{each}", authorization=f"Bearer {CLIENT}", cookie="session=1")
    assert set(asked.network.authorizations) == {None}


async def test_one_token_for_all_serves_between_instances_too() -> None:
    asked = cluster(*[Tokens(api=(CLIENT, CLIENT_NEXT))] * 3)
    answer = await asked.get("/leaderboard/count", authorization=f"Bearer {CLIENT_NEXT}")
    assert answer.content == b"20"
    assert set(asked.network.authorizations) == {f"Bearer {CLIENT}"}


async def test_tokens_of_peers_are_rotated_one_instance_after_the_other() -> None:
    """First all accept the new one, then all send it, then none accepts the old one."""
    steps = [Tokens(peer=each) for each in ((PEER,), (PEER, PEER_NEXT), (PEER_NEXT, PEER), (PEER_NEXT,))]
    for before, after in itertools.pairwise(steps):
        for changed in range(4):
            mixed = cluster(*[after if number < changed else before for number in range(3)])
            for number in range(3):
                assert (await mixed.get("/leaderboard/count", at=number)).content == b"20"


async def test_a_peer_with_another_token_is_like_one_that_is_down_and_nothing_loops() -> None:
    asked = cluster(*[Tokens(peer=(token,)) for token in (PEER, PEER_NEXT, PEER_NEXT)])
    product = next(each for each in IDS if asked.holders(each)[2] == 0)
    answer = await asked.get(f"/leaderboard/{product}")
    assert answer.status_code == 503
    assert "it does not take the token of this instance" in answer.json()["detail"]
    assert len(asked.network.requests) == 2


FORGED = ["", "Bearer wrong", f"Bearer {CLIENT}"]


async def from_inside(asked: Cluster, path: str, authorization: str = "", number: int = 0) -> httpx.Response:
    """Ask with the header that marks requests between instances, whoever asks."""
    headers = {"x-leaderboard-hop": "1"} | ({"authorization": authorization} if authorization else {})
    async with asked.client(number) as client:
        return await client.get(path, headers=headers)


@pytest.mark.parametrize("forged", FORGED)
@pytest.mark.parametrize(
    "path",
    [
        "/leaderboard/1",
        "/leaderboard",
        "/health/live",
        "/internal/stores/leader-boards/count?partitions=0",
        "/internal/instance",
    ],
)
async def test_a_hop_header_from_outside_opens_nothing_and_reaches_no_other_instance(path: str, forged: str) -> None:
    asked = cluster()
    for number in range(3):
        answer = await from_inside(asked, path, forged, number)
        assert is_refused(answer, 'Bearer error="invalid_token"' if forged else "Bearer")
    assert asked.network.requests == []


async def test_what_is_internal_needs_the_hop_header_and_the_token_of_a_peer() -> None:
    asked = cluster()
    path = "/internal/stores/leader-boards/count?partitions=0"
    assert (await asked.get(path, authorization=f"Bearer {CLIENT}")).status_code == 404
    assert is_refused(await asked.get(path, authorization=f"Bearer {PEER}"), 'Bearer error="invalid_token"')
    assert (await from_inside(asked, path, f"Bearer {PEER_NEXT}")).status_code == 200


@pytest.mark.parametrize("hop", ["1", "0", "", "http://elsewhere:1"])
async def test_without_tokens_a_hop_header_is_answered_from_the_own_store_or_not_at_all(hop: str) -> None:
    asked = cluster(*[Tokens()] * 3)
    for each in IDS:
        active, standby, other = asked.holders(each)
        statuses = [(await asked.get(f"/leaderboard/{each}", at=number, x_leaderboard_hop=hop)).status_code
                    for number in (active, standby, other)]  # fmt: skip
        assert statuses == [200, 200, 503]
    assert (await asked.get("/leaderboard", x_leaderboard_hop=hop)).status_code == 503
    assert asked.network.requests == []


async def test_instances_that_send_each_other_a_key_do_so_once() -> None:
    asked = cluster(*[Tokens()] * 3)
    for view in asked.views:
        view.statuses = dict.fromkeys(range(4), ABSENT)
    for number in range(3):
        assert (await asked.get("/leaderboard/1", at=number)).status_code == 503
    assert 0 < len(asked.network.requests) <= 6


TARGETS = [
    "/leaderboard/{}", "/leaderboard/{}?limit=2", "/leaderboard/%3{}", "/leaderboard/{}?limit=3&x=@elsewhere",
    "/leaderboard/{}/20", "/leaderboard?host=elsewhere", "/leaderboard/count", "//elsewhere/leaderboard/{}",
    "/leaderboard/{}@elsewhere:1", "/leaderboard/{}%0d%0aHost:%20elsewhere", "/leaderboard/{}#@elsewhere",
]  # fmt: skip
_FORWARDED = re.compile(
    r"/leaderboard/-?[0-9]+\?limit=[0-9]+"
    r"|/internal/stores/leader-boards/(range|named|count)\?partitions=[0-9,]+[a-z0-9=&-]*"
)


async def test_requests_go_to_members_of_the_group_only_with_targets_made_here() -> None:
    asked = cluster(*[Tokens()] * 3)
    for target in TARGETS:
        for each in range(1, 10):
            await asked.get(
                target.format(each), host="elsewhere:1", x_forwarded_host="elsewhere", forwarded="host=elsewhere",
                x_served_by="elsewhere:1", referer="http://elsewhere", x_original_url="http://elsewhere/",
            )  # fmt: skip
    hosts, targets = zip(*asked.network.requests, strict=True)
    assert set(hosts) <= set(asked.hosts)
    assert not [target for target in targets if not _FORWARDED.fullmatch(target)]


async def test_an_instance_that_left_the_group_is_asked_no_more() -> None:
    asked = cluster(*[Tokens()] * 3)
    asked.map = ClusterMap((HostMetadata(asked.hosts[0]), *asked.map.hosts[1:2]), 4)
    for each in IDS:
        await asked.get(f"/leaderboard/{each}")
    assert {host for host, _ in asked.network.requests} == {asked.hosts[1]}


def test_the_server_listens_where_it_is_told_and_nowhere_else() -> None:
    host = free_host()
    with serving(app_alone({1: board_of(1)}, host), host):
        assert exchange(host, b"GET /health/live HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200")
        with pytest.raises(ConnectionRefusedError):
            exchange(HostInfo("127.0.0.2", host.port), b"")


async def test_no_secret_is_in_a_log_line_or_an_answer(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    asked = cluster(TOKENS, Tokens(api=(CLIENT,), peer=(PEER_NEXT,)), TOKENS)
    asked.kill(2)
    answers = []
    for path in ("/leaderboard/1", "/leaderboard/2", "/leaderboard", "/hosts", "/nowhere", "/leaderboard/x"):
        answers += [await asked.get(path), await asked.get(path, authorization=f"Bearer {CLIENT}")]
        answers += [await from_inside(asked, path), await from_inside(asked, path, f"Bearer {PEER}")]
    monkeypatch.setattr(asked.views[0], "status", None)
    answers.append(await asked.get("/leaderboard/1", authorization=f"Bearer {CLIENT}"))
    assert answers[-1].status_code == 500
    text = caplog.text + repr(TOKENS) + "".join(f"{answer.headers}{answer.text}" for answer in answers)
    assert "Traceback" in caplog.text
    assert not [secret for secret in SECRETS if secret in text]


def test_a_bad_request_over_a_socket_tells_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    host = free_host()
    with serving(app_alone({1: board_of(1)}, host, TOKENS), host):
        for last in (b"\r\n", b"X: " + b"a" * 100_000, b"Content-Length: x\r\n\r\n"):
            sent = b"GET /leaderboard/1 HTTP/1.0\r\nAuthorization: Bearer " + CLIENT.encode() + b"\r\n" + last
            assert CLIENT.encode() not in exchange(host, sent, end=True)
    assert not [secret for secret in SECRETS if secret in caplog.text]


async def test_an_instance_reaches_itself_with_the_token_of_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_check, "_EVERY_S", 0.001)
    network, here = Network(), HostInfo("here", 7000)
    of = components_of(boards_view({}), cluster=lambda: ClusterMap((), 4), host=here, transport=network, tokens=TOKENS)
    network.apps[here] = create_app(of)
    check = self_check.SelfCheck(of)
    running = asyncio.create_task(check.run())
    await eventually(lambda: len(network.requests) > 3)
    running.cancel()
    await asyncio.wait([running])
    assert check.reason is None
    assert set(network.authorizations) == {f"Bearer {PEER}"}

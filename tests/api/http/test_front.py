"""The front and the router behind it give the same answers."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.http.front import Front
from api.http.observed import Observed
from runtime.records import ID_MAX, ID_MIN
from tests.drivers.cluster import Cluster, cluster_with_everything
from tests.drivers.fake_view import board_of

IDS = [ID_MIN, -3, 0, 1, 6, 12, 99, ID_MAX]


BOARDS = {each: board_of(each) for each in IDS}
CLUSTER = cluster_with_everything(BOARDS)

ids = st.sampled_from(IDS) | st.integers(ID_MIN - 2, ID_MAX + 2) | st.integers(-20, 120)
texts = ids.map(str) | st.sampled_from(["01", "+1", "-0", "1.0", "%31", "1%0A", "count", "", "1/6", "1/", "٣"])
limits = st.integers(-1, 12).map(str) | st.sampled_from(["", "03", "1e1", "9" * 30, "3&limit=4", "3&x=1", "%33"])
queries = st.just("") | st.just("?") | limits.map("?limit={}".format) | st.just("?foo=1") | st.just("?Limit=1")
tags = st.none() | st.just("*") | st.sampled_from(IDS).map(lambda each: CLUSTER.views[0].get(each, 3)).map(
    lambda rendered: rendered.etag if rendered else '"x"'
)  # fmt: skip


def front_of(cluster: Cluster, number: int) -> Front:
    """Return the front of an instance."""
    observed = cluster.network.apps[cluster.hosts[number]]
    assert isinstance(observed, Observed)
    assert isinstance(observed.app, Front)
    return observed.app


async def asked(
    app: object, target: str, headers: dict[str, str], method: str
) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Return everything that an application answers."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://outside") as client:  # type: ignore[arg-type]
        response = await client.request(method, target, headers=headers)
    return response.status_code, sorted(response.headers.raw), response.content


@given(texts, queries, tags, st.booleans(), st.integers(0, 2))
@settings(max_examples=300, deadline=None)
async def test_the_front_answers_as_the_router_does(
    text: str, query: str, tag: str | None, hop: bool, number: int
) -> None:
    front = front_of(CLUSTER, number)
    headers = {"if-none-match": tag} if tag else {}
    if hop:
        headers["x-leaderboard-hop"] = "1"
    target = f"/leaderboard/{text}{query}"
    assert await asked(front, target, headers, "GET") == await asked(front.app, target, headers, "GET")


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
@pytest.mark.parametrize("target", ["/leaderboard/1", "/leaderboard/1?limit=2"])
async def test_only_the_plainest_get_stays_in_the_front(
    method: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    front = front_of(cluster_with_everything(BOARDS), 0)
    routed = []

    async def app(scope: dict[str, object], receive: object, send: object) -> None:
        routed.append(scope["method"])
        await send({"type": "http.response.start", "status": 204, "headers": []})  # type: ignore[operator]
        await send({"type": "http.response.body"})  # type: ignore[operator]

    monkeypatch.setattr(front, "app", app)
    await asked(front, target, {}, method)
    assert routed == {"GET": [], "HEAD": ["GET"], "POST": ["POST"]}[method]

"""What comes with an answer: encodings, tags, how long it may be kept, and which pages may read it."""

from __future__ import annotations

import gzip

import pytest

from api.http.delivery import GZIP_FROM_BYTES, Sharing, accepts_gzip
from tests.drivers.cluster import Cluster
from tests.drivers.fake_view import board_of

IDS = list(range(1, 30))
INSTANCES = [0, 1, 2]
LARGE = ["/leaderboard", "/leaderboard/1/20", "/leaderboard?page_size=20", "/leaderboard/1?limit=15"]
SMALL = ["/leaderboard/1", "/leaderboard/count"]


@pytest.fixture
def cluster() -> Cluster:
    """Three instances, four partitions, one standby each."""
    return Cluster({each: board_of(each, 20) for each in IDS}, depth=20)


@pytest.mark.parametrize(
    ("accept", "taken"),
    [
        ("gzip", True), ("GZIP", True), ("deflate, gzip;q=0.5, br", True), ("*", True), ("x-gzip", True),
        ("gzip;q=0", False), ("gzip; q=0.000", False), ("*;q=0", False), ("gzip;q=0, *", False), ("*;q=0, gzip", True),
        ("identity", False), ("br", False), ("", False), ("gzipped", False), ("notgzip", False),
    ],
)  # fmt: skip
def test_who_takes_gzip(accept: str, taken: bool) -> None:
    assert accepts_gzip(accept.encode()) is taken
    assert accepts_gzip(None) is False


@pytest.mark.parametrize("target", LARGE)
async def test_large_bodies_are_compressed_for_who_takes_it_alike_everywhere(cluster: Cluster, target: str) -> None:
    plain = await cluster.get(target, accept_encoding="identity")
    assert len(plain.content) >= GZIP_FROM_BYTES
    assert "content-encoding" not in plain.headers
    assert plain.headers["vary"] == "accept-encoding"
    for number in INSTANCES:
        async with cluster.client(number) as client, client.stream("GET", target) as response:
            raw = b"".join([piece async for piece in response.aiter_raw()])
        assert response.headers["content-encoding"] == "gzip"
        assert response.headers["vary"] == "accept-encoding"
        assert int(response.headers["content-length"]) == len(raw) < len(plain.content)
        assert gzip.decompress(raw) == plain.content


async def test_a_large_cached_body_is_compressed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = Cluster({each: board_of(each) for each in range(500)}, size=1)
    compressed: list[int] = []
    real = gzip.compress

    def counted(body: bytes, level: int, *, mtime: int) -> bytes:
        compressed.append(len(body))
        return real(body, level, mtime=mtime)

    monkeypatch.setattr("api.http.delivery.gzip.compress", counted)
    first = (await alone.get("/leaderboard", accept_encoding="gzip")).content
    assert (await alone.get("/leaderboard", accept_encoding="gzip")).content == first
    assert len(compressed) == 1
    alone.change(1, board_of(1, 1))
    assert (await alone.get("/leaderboard", accept_encoding="gzip")).content != first
    assert len(compressed) == 2


@pytest.mark.parametrize("target", SMALL)
async def test_small_bodies_stay_as_they_are(cluster: Cluster, target: str) -> None:
    response = await cluster.get(target, accept_encoding="gzip")
    assert "content-encoding" not in response.headers
    assert "vary" not in response.headers


async def test_live_updates_are_never_compressed(cluster: Cluster) -> None:
    events = await cluster.events("/leaderboard/events")
    assert "content-encoding" not in events.stream.headers
    await events.stream.leave()


@pytest.mark.parametrize("number", INSTANCES)
async def test_other_bytes_of_a_board_have_a_weak_tag_that_is_as_good(cluster: Cluster, number: int) -> None:
    target = "/leaderboard/1?limit=15"
    plain = await cluster.get(target, at=number, accept_encoding="identity")
    packed = await cluster.get(target, at=number, accept_encoding="gzip")
    assert packed.headers["etag"] == "W/" + plain.headers["etag"]
    for accept in ("identity", "gzip"):
        for tag in (plain.headers["etag"], packed.headers["etag"], "*"):
            fresh = await cluster.get(target, at=number, accept_encoding=accept, if_none_match=tag)
            assert (fresh.status_code, fresh.content) == (304, b"")
            assert fresh.headers["etag"] == (packed if accept == "gzip" else plain).headers["etag"]
            assert fresh.headers["vary"] == "accept-encoding"
            assert "content-encoding" not in fresh.headers


@pytest.mark.parametrize(
    ("sharing", "value"),
    [
        (Sharing(), "no-cache"),
        (Sharing(private=True), "private, no-cache"),
        (Sharing(max_age_s=5), "public, max-age=5"),
        (Sharing(max_age_s=5, private=True), "private, max-age=5"),
    ],
)
async def test_how_long_an_answer_may_be_kept_is_a_setting(sharing: Sharing, value: str) -> None:
    cluster = Cluster({each: board_of(each, 20) for each in IDS}, depth=20, sharing=sharing)
    for number in INSTANCES:
        for target in (*LARGE, *SMALL):
            response = await cluster.get(target, at=number)
            assert response.headers.get_list("cache-control") == [value]
        tag = (await cluster.get("/leaderboard/1", at=number)).headers["etag"]
        fresh = await cluster.get("/leaderboard/1", at=number, if_none_match=tag)
        assert fresh.headers.get_list("cache-control") == [value]


async def test_errors_and_parts_are_never_kept() -> None:
    cluster = Cluster({each: board_of(each) for each in IDS}, sharing=Sharing(max_age_s=60))
    for number in INSTANCES:
        for target in ("/leaderboard/99", "/leaderboard/x", "/leaderboard?limit=0", "/nowhere", "/leaderboard/9/1"):
            response = await cluster.get(target, at=number)
            assert response.status_code >= 400
            assert response.headers.get_list("cache-control") == ["no-store"]
    cluster.kill(1)
    cluster.kill(2)
    for target in ("/leaderboard", "/leaderboard?partial=true", "/leaderboard/count?partial=true"):
        assert (await cluster.get(target)).headers.get_list("cache-control") == ["no-store"]


async def test_pages_of_other_origins_read_nothing_unless_they_are_named(cluster: Cluster) -> None:
    for target in ("/leaderboard/1", "/leaderboard"):
        response = await cluster.get(target, origin="https://games.example")
        assert not [name for name in response.headers if name.startswith("access-control")]


@pytest.mark.parametrize(("origins", "allowed"), [(("*",), "*"), (("https://games.example",), "https://games.example")])
@pytest.mark.parametrize("number", INSTANCES)
async def test_pages_of_named_origins_read_everything(origins: tuple[str, ...], allowed: str, number: int) -> None:
    cluster = Cluster({each: board_of(each) for each in IDS}, sharing=Sharing(cors_origins=origins))
    for target in ("/leaderboard/1", "/leaderboard/2", "/leaderboard", "/leaderboard/99", "/leaderboard/x"):
        response = await cluster.get(target, at=number, origin="https://games.example")
        assert response.headers["access-control-allow-origin"] == allowed
        exposed = response.headers["access-control-expose-headers"].split(", ")
        assert {"ETag", "X-Served-By", "X-Store-Role", "X-Store-Lag", "X-Missing-Partitions", "Link"} <= set(exposed)
    if allowed != "*":
        stranger = await cluster.get("/leaderboard/1", at=number, origin="https://elsewhere.example")
        assert "access-control-allow-origin" not in stranger.headers


async def test_a_browser_may_ask_first(cluster: Cluster) -> None:
    shared = Cluster({1: board_of(1)}, sharing=Sharing(cors_origins=("https://games.example",)))
    asks = {
        "origin": "https://games.example",
        "access-control-request-method": "GET",
        "access-control-request-headers": "authorization, if-none-match",
    }
    async with shared.client() as client:
        response = await client.options("/leaderboard/1", headers=asks)
    assert response.status_code == 200
    assert response.headers["access-control-allow-methods"] == "GET, HEAD"
    assert "Authorization" in response.headers["access-control-allow-headers"]

"""The board routes of one instance that holds every partition."""

from __future__ import annotations

import httpx
import pytest

from runtime.copies.status import CopyStatus
from runtime.records import ID_MAX, ID_MIN
from tests.drivers.cluster import Cluster
from tests.drivers.fake_view import RESTORING, Entry, board_of

IDS = [ID_MIN, -7, 0, 1, 6, 10, 90, ID_MAX]
HIDDEN = 5

Boards = dict[int, list[Entry]]


@pytest.fixture
def boards() -> Boards:
    """Boards at the edges, and a hidden one."""
    return {each: board_of(each) for each in IDS} | {HIDDEN: []}


@pytest.fixture
def alone(boards: Boards) -> Cluster:
    """One instance."""
    return Cluster(boards, size=1)


def is_problem(response: httpx.Response, status: int) -> bool:
    """Return whether the response is a whole problem of this status."""
    fields = response.json()
    return (
        response.status_code == fields["status"] == status
        and response.headers["content-type"] == "application/problem+json"
        and all(fields[name] for name in ("type", "title", "detail", "instance"))
    )


@pytest.mark.parametrize("product_id", IDS)
async def test_a_board_is_the_bytes_of_the_view(alone: Cluster, product_id: int) -> None:
    response = await alone.get(f"/leaderboard/{product_id}")
    expected = alone.views[0].get(product_id, 3)
    assert expected is not None
    assert response.status_code == 200
    assert response.content == expected.body
    assert response.headers["content-type"] == "application/json"
    assert response.headers["etag"] == expected.etag
    assert response.headers["x-served-by"] == "instance-0:7000"
    assert response.headers["x-store-role"] == "active"
    assert response.headers["x-store-lag"] == "0"
    assert response.json()[0]["playerName"] == "Player 0 ü"


@pytest.mark.parametrize("product_id", [2, HIDDEN, -1])
async def test_without_a_visible_entry_there_is_no_such_board(alone: Cluster, product_id: int) -> None:
    response = await alone.get(f"/leaderboard/{product_id}")
    assert is_problem(response, 404)
    assert response.json()["instance"] == f"/leaderboard/{product_id}"
    assert response.headers["x-served-by"] == "instance-0:7000"
    assert response.headers["x-store-role"] == "active"
    assert response.headers["x-store-lag"] == "0"


IMPOSSIBLE_IDS = [
    "+1", "01", "1.0", "1e3", "%201", "1%20", "-0", "-", "--1", "1_000", "0x1", "abc", "٣", "%D9%A3", "\uff11",
    str(2**63), str(-(2**63) - 1), "9" * 5000, "%FF", "%00", "1%0A", "nan", "null", "[1]", "%", "%zz", "1;2",
]  # fmt: skip


@pytest.mark.parametrize("text", IMPOSSIBLE_IDS)
@pytest.mark.parametrize("path", ["/leaderboard/{}", "/leaderboard/{}/6", "/leaderboard/1/{}", "/hosts/{}"])
async def test_an_id_that_cannot_be_is_a_bad_request(alone: Cluster, path: str, text: str) -> None:
    response = await alone.get(path.format(text))
    assert is_problem(response, 400)
    assert len(response.content) < 1500


@pytest.mark.parametrize("limit", ["0", "11", "-1", "03", "+3", "3.0", "", "a", "%203", "9" * 5000, "%FF", "٣"])
@pytest.mark.parametrize("path", ["/leaderboard", "/leaderboard/1", "/leaderboard/1/6"])
async def test_a_limit_that_cannot_be_is_a_bad_request(alone: Cluster, path: str, limit: str) -> None:
    response = await alone.get(f"{path}?limit={limit}")
    assert is_problem(response, 400)
    assert "limit" in response.json()["detail"]


@pytest.mark.parametrize(("query", "entries"), [("", 3), ("?limit=1", 1), ("?limit=5", 5), ("?limit=10", 5)])
async def test_the_limit_bounds_every_board(alone: Cluster, query: str, entries: int) -> None:
    assert len((await alone.get(f"/leaderboard/1{query}")).json()) == entries
    for path in ("/leaderboard", "/leaderboard/0/90"):
        assert {len(board) for board in (await alone.get(path + query)).json().values()} == {entries}


async def test_a_shallow_service_serves_its_depth_by_default(boards: Boards) -> None:
    shallow = Cluster(boards, size=1, depth=2)
    assert len((await shallow.get("/leaderboard/1")).json()) == 2
    assert is_problem(await shallow.get("/leaderboard/1?limit=3"), 400)


async def test_unknown_parameters_are_ignored(alone: Cluster) -> None:
    assert (await alone.get("/leaderboard/1?foo=1&limit=1&bar")).json() == (
        await alone.get("/leaderboard/1?limit=1")
    ).json()


async def test_all_boards_are_one_object_in_numeric_order(alone: Cluster) -> None:
    response = await alone.get("/leaderboard")
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert list(response.json()) == [str(each) for each in IDS]


async def test_all_boards_follow_every_change(alone: Cluster, boards: Boards) -> None:
    before = (await alone.get("/leaderboard")).json()
    boards[7] = board_of(7)
    alone.views[0].version += 1
    after = (await alone.get("/leaderboard")).json()
    assert after.keys() - before.keys() == {"7"}


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (1, 6, [1, 6]),
        (1, 1, [1]),
        (2, 5, []),
        (-7, 10, [-7, 0, 1, 6, 10]),
        (ID_MIN, ID_MAX, IDS),
        (ID_MAX, ID_MAX, [ID_MAX]),
        (7, 9, []),
    ],
)
async def test_a_range_is_numeric_and_inclusive(alone: Cluster, first: int, last: int, expected: list[int]) -> None:
    response = await alone.get(f"/leaderboard/{first}/{last}")
    assert response.status_code == 200
    assert list(response.json()) == [str(each) for each in expected]


async def test_a_range_from_high_to_low_cannot_be(alone: Cluster) -> None:
    assert is_problem(await alone.get("/leaderboard/6/1"), 400)


@pytest.mark.parametrize("path", ["/leaderboard/count", "/leaderboard/count/local"])
async def test_the_count_is_a_bare_number_of_visible_boards(alone: Cluster, path: str) -> None:
    response = await alone.get(path)
    assert response.content == str(len(IDS)).encode()
    assert response.headers["content-type"] == "application/json"


async def test_without_boards_the_answers_are_empty() -> None:
    empty = Cluster({}, size=1)
    assert (await empty.get("/leaderboard")).content == b"{}"
    assert (await empty.get("/leaderboard/count")).content == b"0"


async def test_a_client_that_has_the_board_gets_304(alone: Cluster) -> None:
    tag = (await alone.get("/leaderboard/1")).headers["etag"]
    response = await alone.get("/leaderboard/1", if_none_match=f'"other", W/{tag}')
    assert (response.status_code, response.content) == (304, b"")
    assert response.headers["etag"] == tag
    assert response.headers["x-served-by"] == "instance-0:7000"
    assert (await alone.get("/leaderboard/1?limit=1", if_none_match=tag)).status_code == 200
    assert (await alone.get("/leaderboard/2", if_none_match="*")).status_code == 404


ROUTES = [
    "/leaderboard", "/leaderboard/1", "/leaderboard/2", "/leaderboard/x", "/leaderboard/1/6", "/leaderboard/count",
    "/leaderboard/count/local", "/hosts", "/hosts/1", "/health/live", "/health/ready", "/docs", "/openapi.json",
    "/nowhere",
]  # fmt: skip


@pytest.mark.parametrize("path", ROUTES)
async def test_head_is_get_without_the_body(alone: Cluster, path: str) -> None:
    async with alone.client() as client:
        client.headers.update({"x-request-id": "the-same", "accept-encoding": "identity"})
        get, head = await client.get(path), await client.head(path)
    assert head.status_code == get.status_code
    assert head.headers == get.headers
    assert head.content == b""
    assert int(head.headers["content-length"]) == len(get.content)


@pytest.mark.parametrize("path", [path for path in ROUTES if path != "/nowhere"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])
async def test_other_methods_are_refused(alone: Cluster, path: str, method: str) -> None:
    async with alone.client() as client:
        response = await client.request(method, path)
    assert is_problem(response, 405)
    assert response.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    "path",
    [
        "/leaderboards", "/leaderboard/", "/leaderboard/1/", "/leaderboard//1", "/leaderboard/1/2/3",
        "/leaderboard/count/", "/leaderboard/count/local/x", "/Leaderboard", "/%FF%FE", "/leaderboard%00",
        "/internal/stores/leader-boards/range", "/internal/stores/leader-boards/range?partitions=0",
        "/internal/stores/leader-boards/count?partitions=0",
        "/..%2Fetc",
    ],
)  # fmt: skip
async def test_an_unknown_path_is_a_problem(alone: Cluster, path: str) -> None:
    assert is_problem(await alone.get(path), 404)


@pytest.mark.parametrize("partial", ["1", "yes", "True", "", "0"])
async def test_a_flag_is_true_or_false(alone: Cluster, partial: str) -> None:
    assert is_problem(await alone.get(f"/leaderboard?partial={partial}"), 400)


@pytest.mark.parametrize("path", ["/leaderboard/1", "/leaderboard", "/leaderboard/1/6", "/leaderboard/count"])
async def test_while_nothing_is_restored_the_answer_is_to_come_back(alone: Cluster, path: str) -> None:
    alone.views[0].statuses = dict.fromkeys(range(4), RESTORING)
    response = await alone.get(path)
    assert is_problem(response, 503)
    assert response.headers["retry-after"] == "1"
    assert "restoring: 20 records to go" in response.json()["detail"]
    assert response.json()["partitions"]


@pytest.mark.parametrize(
    "path", ["/leaderboard/1", "/leaderboard", "/leaderboard?partial=true", "/leaderboard/count", "/hosts/1"]
)
async def test_while_the_partitions_are_not_known_the_answer_is_to_come_back(alone: Cluster, path: str) -> None:
    alone.views[0].partition_count = 0
    assert is_problem(await alone.get(path), 503)


async def test_the_local_count_waits_for_every_active_copy(alone: Cluster) -> None:
    alone.views[0].statuses[2] = CopyStatus(False, "active", 9, "restoring")
    response = await alone.get("/leaderboard/count/local")
    assert is_problem(response, 503)
    assert response.json()["partitions"] == [2]


@pytest.mark.parametrize("path", ["/leaderboard/1", "/leaderboard/1?foo", "/leaderboard", "/leaderboard/count"])
async def test_an_unexpected_error_is_a_problem_and_in_the_log(
    alone: Cluster, path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(partition: int) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(alone.views[0], "status", broken)
    response = await alone.get(path)
    assert is_problem(response, 500)
    assert "secret" not in response.text
    assert "secret" in caplog.text


async def test_the_bytes_of_a_map_are_those_of_its_boards(alone: Cluster) -> None:
    both = await alone.get("/leaderboard/1/6")
    one, six = (await alone.get("/leaderboard/1")).content, (await alone.get("/leaderboard/6")).content
    assert both.content == b'{"1":' + one + b',"6":' + six + b"}"

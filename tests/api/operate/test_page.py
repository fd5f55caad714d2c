"""The page and the routes' documentation: their files hold no data, load nothing from elsewhere, and are shipped."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx
import pytest

from api.http.auth import OPEN_PATHS, Tokens
from api.own import no_own_routes
from tests.drivers.cluster import Cluster
from tests.drivers.declared import PAGE_FILES, STATIC
from tests.drivers.fake_view import board_of
from tests.waiting import UNHURRIED_S
from topology.word_count import WORD_COUNT

ROOT = Path(__file__).parents[3]
PAGES = ["/", "/docs"]
EVERYTHING = [*PAGES, *sorted(PAGE_FILES)]
_ELSEWHERE = re.compile(r"""(?:https?:)?//[\w.-]+\.\w+|@import|url\(["']?(?!#)""")
_NAMESPACE = "http://www.w3.org/2000/svg"


@pytest.fixture
def cluster() -> Cluster:
    return Cluster({6: board_of(6)}, size=1, depth=7)


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/docs", "text/html; charset=utf-8"),
        ("/page/page.css", "text/css; charset=utf-8"),
        ("/page/page.js", "text/javascript; charset=utf-8"),
        ("/page/topology.svg", "image/svg+xml"),
    ],
)
async def test_each_file_comes_as_what_it_is(cluster: Cluster, path: str, content_type: str) -> None:
    answer = await cluster.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, content_type)


@pytest.mark.parametrize("path", EVERYTHING)
async def test_nothing_runs_that_is_not_a_file_of_the_service(cluster: Cluster, path: str) -> None:
    headers = (await cluster.get(path)).headers
    policy = dict(each.strip().split(" ", 1) for each in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
    if not path.endswith(".svg"):
        assert {policy[f"{kind}-src"] for kind in ("script", "style", "connect", "img")} == {"'self'"}
        assert policy["base-uri"] == policy["form-action"] == "'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("path", EVERYTHING)
async def test_nothing_is_loaded_from_elsewhere(cluster: Cluster, path: str) -> None:
    text = (await cluster.get(path)).text.replace(_NAMESPACE, "")
    assert not _ELSEWHERE.findall(text)
    assert "<script>" not in text
    assert not re.findall(r"\s(?:on\w+|style)=", text)


@pytest.mark.parametrize("path", EVERYTHING)
async def test_whatever_a_file_names_is_there_and_needs_no_token(cluster: Cluster, path: str) -> None:
    text = (await cluster.get(path)).text
    names = re.findall(r"""(?:href|src|srcset)="(page/[^"]+)"|from "\./([^"]+)\"""", text)
    named = {f"/{whole}" if whole else f"/page/{module}" for whole, module in names}
    assert named <= OPEN_PATHS | PAGE_FILES
    for each in named:
        assert (await cluster.get(each)).status_code == 200
    assert named or path not in PAGES


def test_every_script_sets_text_only() -> None:
    scripts = [script for directory in STATIC for script in directory.glob("*.js")]
    assert len(scripts) > 5
    for script in scripts:
        text = script.read_text()
        for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "DOMParser"):
            assert forbidden not in text, script


async def test_the_page_knows_the_depth(cluster: Cluster) -> None:
    assert '<meta name="leaderboard-depth" content="7">' in (await cluster.get("/")).text
    assert "{{" not in (await cluster.get("/")).text


async def test_a_file_that_is_not_there_is_a_problem(cluster: Cluster) -> None:
    for path in ("/page/nope.js", "/page/index.html", "/page/..%2fpage.py", "/page/", "/page"):
        answer = await cluster.get(path)
        assert answer.status_code in (400, 404), path
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", EVERYTHING)
async def test_a_file_is_kept_and_asked_for_by_its_tag(cluster: Cluster, path: str) -> None:
    answer = await cluster.get(path)
    assert answer.headers["cache-control"] == "no-cache"
    again = await cluster.get(path, if_none_match=answer.headers["etag"])
    assert (again.status_code, again.content) == (304, b"")


async def test_pages_need_no_token_and_hold_no_data() -> None:
    guarded = Cluster({6: board_of(6)}, size=1, tokens=[Tokens(api=("token-of-clients",))])
    for path in EVERYTHING:
        answer = await guarded.get(path)
        assert answer.status_code == 200, path
        assert "Player 0" not in answer.text
    assert (await guarded.get("/leaderboard/6")).status_code == 401


async def test_pages_are_no_routes_of_the_api(cluster: Cluster) -> None:
    answer: httpx.Response = await cluster.get("/openapi.json")
    assert not [path for path in answer.json()["paths"] if path == "/" or path.startswith(("/page", "/docs"))]


def test_the_wheel_ships_every_file(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=UNHURRIED_S)
    (wheel,) = tmp_path.glob("*.whl")
    shipped = set(zipfile.ZipFile(wheel).namelist())
    assert shipped >= {str(path.relative_to(ROOT)) for directory in STATIC for path in directory.iterdir()}


@pytest.fixture
def generic() -> Cluster:
    """An instance of a topology that has no page of its own."""
    return Cluster({"hello": {"word": "hello", "count": 2}}, size=1, topology=WORD_COUNT, own=no_own_routes)


async def test_a_topology_without_a_page_has_one_that_shows_its_stores(generic: Cluster) -> None:
    text = (await generic.get("/")).text
    assert "<title>word-count</title>" in text
    assert 'id="stores-rows"' in text
    for word in ("game", "board", "podium", "player"):
        assert word not in text.lower().replace("leaderboard", "")
    names = re.findall(r'(?:href|src|srcset)="(page/[^"]+)"', text)
    assert {"page/page.js", "page/page.css", "page/topology.svg"} <= set(names)
    for name in names:
        assert (await generic.get(f"/{name}")).status_code == 200, name
    assert (await generic.get("/page/games.js")).status_code == 404

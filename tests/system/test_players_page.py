"""Players on the page, in a real browser: found by id or name, their ranks on all games, who is around, live."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.drivers import page_checks
from tests.drivers.browser import ELEMENT, Browser
from tests.drivers.fake_view import entry
from tests.drivers.http_instance import free_host, serving
from tests.drivers.ranks import RankedInstances, best

pytestmark = pytest.mark.system

GAMES = {1: "Super Smash Bros", 6: "Mario Kart", 7: "Nobody plays"}
PLAYING = range(1, 41)
NAME = "Zoë <b>& a name that is rather long, as some players like it"
LIVE = "document.querySelector('#state').dataset.state === 'live'"
AROUND = "[...document.querySelectorAll('#around-rows tr')].map(row => row.textContent)"
STANDINGS = "[...document.querySelectorAll('#standings-rows tr')].map(row => row.textContent)"


@pytest.fixture
def ranked() -> RankedInstances:
    """One instance that ranks forty players of two games."""
    boards = {
        product: [entry(3, product, NAME, name, 400.0), entry(2, product, "Mitch", name, 300.0)]
        for product, name in GAMES.items()
    }
    names = {**{player: f"players {player}" for player in PLAYING}, 3: NAME, 99: "Has not played"}
    ranked = RankedInstances(1, boards, {"players": {player: {"name": name} for player, name in names.items()}})
    ranked.names(PLAYING, [])
    ranked.name("players", 3, NAME)
    ranked.name("players", 99, "Has not played")
    for product, name in GAMES.items():
        ranked.name("products", product, name)
    for player in PLAYING:
        ranked.publish(1, player, best(1000.0 - player, player))
        ranked.publish(6, player, best(float(player // 2), player))
    return ranked


class Served:
    """The application, which tells in which event loop it is served."""

    loop: asyncio.AbstractEventLoop

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.loop = asyncio.get_running_loop()
        await self._app(scope, receive, send)


@pytest.fixture
def served(ranked: RankedInstances) -> Served:
    return Served(ranked.cluster.network.apps[ranked.cluster.hosts[0]])


@pytest.fixture
def url(served: Served) -> Iterator[str]:
    host = free_host()
    with serving(served, host):
        yield f"http://{host}"


def test_a_player_is_found_by_id_and_by_name_with_the_keyboard_alone(
    url: str, browser: Browser, tmp_path: Path
) -> None:
    browser.open(f"{url}/#/players")
    browser.wait_for(LIVE, "it is live")
    browser.run("document.querySelector('#players-search').focus()")
    browser.type("20")
    browser.press("Enter")
    browser.wait_for(f"{AROUND}.length === 11", "those around are shown")
    assert browser.run("return location.hash") == "#/players/20"
    # Best is 1, where the player is number 20; in the other game number 21.
    assert browser.run(f"return {AROUND}")[5] == "20players 20980"
    assert browser.run(f"return {STANDINGS}") == ["Super Smash Bros20 of 4052.5 %980", "Mario Kart20 of 4052.5 %10"]

    browser.run(
        "document.querySelector('#players-search').value = ''; document.querySelector('#players-search').focus()"
    )
    browser.type("zoe")
    browser.wait_for("document.querySelectorAll('#players-found a').length === 1", "a name is found")
    browser.press("Enter")
    browser.wait_for("location.hash === '#/players/3'", "the player is opened")
    browser.wait_for("document.querySelector('#players-title').textContent.startsWith('Zoë <b>')", "names are text")
    browser.screenshot(tmp_path / "player.png")


def test_a_rank_changes_as_others_play(url: str, browser: Browser, ranked: RankedInstances) -> None:
    browser.open(f"{url}/#/players/40/1")
    browser.wait_for(f"{AROUND}.length === 6", "those around are shown")
    link = "document.querySelector('#standings-rows a[aria-current]')"
    assert browser.run(f"return {link}.textContent") == "Super Smash Bros"
    browser.run("document.querySelector('#around-rows a').click()")
    browser.wait_for("location.hash === '#/players/35/1'", "a neighbour is opened on the same game")
    browser.wait_for(f"{AROUND}.length === 11", "those around are shown")
    answer = browser.run("return document.querySelector('#around-rows [aria-current] td').textContent")
    assert answer == "35"


def test_a_pause_holds_ranks_and_those_around_as_they_are(
    url: str, browser: Browser, ranked: RankedInstances, served: Served
) -> None:
    browser.open(f"{url}/#/players/20/1")
    browser.wait_for(f"{AROUND}.length === 11", "those around are shown")
    browser.run("document.querySelector('#pause').click()")
    with httpx.stream("GET", f"{url}/leaderboard/1/players/20/events", trust_env=False) as events:
        served.loop.call_soon_threadsafe(ranked.publish, 1, 21, best(5000.0, 21))
        assert any('"rank":21' in line for line in events.iter_lines())
    assert browser.run(f"return {AROUND}")[5] == "20players 20980"
    browser.run("document.querySelector('#pause').click()")
    browser.wait_for(f"{AROUND}[5] === '21players 20980'", "what there is by then is shown")


def test_whoever_has_a_rank_no_longer_stands_nowhere(
    url: str, browser: Browser, ranked: RankedInstances, served: Served
) -> None:
    browser.open(f"{url}/#/players/20/1")
    browser.wait_for(f"{AROUND}.length === 11", "those around are shown")
    served.loop.call_soon_threadsafe(ranked.publish, 1, 20)
    browser.wait_for("document.querySelector('#around').hidden", "nobody is around any more")
    browser.wait_for(f"{STANDINGS}.length === 1", "one game is left")
    assert browser.run(f"return {STANDINGS}") == ["Mario Kart20 of 4052.5 %10"]
    assert "has no rank in Super Smash Bros" in browser.run(
        "return document.querySelector('#player-empty').textContent"
    )


def test_a_name_is_found_on_the_page_of_another_player(url: str, browser: Browser) -> None:
    browser.open(f"{url}/#/players/20/1")
    browser.wait_for(LIVE, "it is live")
    browser.run("document.querySelector('#players-search').focus()")
    browser.type("MITCH")
    browser.press("Enter")
    browser.wait_for("location.hash === '#/players/2'", "the player is opened")


@pytest.mark.parametrize(("path", "said"), [
    ("99", "Has not played has no score yet"),
    ("1234", "1234"),
    ("x", "is no player's id"),
    ("5/7", "has no rank in"),
])  # fmt: skip
def test_what_cannot_be_shown_is_said(url: str, browser: Browser, path: str, said: str) -> None:
    browser.open(f"{url}/#/players/{path}")
    browser.wait_for(
        f"document.querySelector('#player-empty').textContent.includes({said!r})", f"{said} is said of {path}"
    )


@pytest.mark.parametrize(("width", "height", "dark"), [(320, 700, False), (390, 844, True), (1920, 1080, False)])
def test_it_fits_a_phone_and_a_wall_and_can_be_read(
    url: str, browser: Browser, tmp_path: Path, width: int, height: int, dark: bool
) -> None:
    for path in ("players", "players/3", "players/20/6"):
        browser.look(width=width, height=height, dark=dark)
        browser.open(f"{url}/#/{path}")
        browser.wait_for(LIVE, "it is live")
        if path != "players":
            browser.wait_for(f"{AROUND}.length > 5", "those around are shown")
        assert browser.run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth"), path
        assert browser.run(page_checks.FAINT) == []
        controls = [
            each for each in browser.elements(page_checks.CONTROLS) if browser.run(page_checks.IS_SEEN, {ELEMENT: each})
        ]
        assert [each for each in controls if not browser.label(each).strip()] == []
        browser.screenshot(tmp_path / f"{width}-{path.replace('/', '-')}.png")


def test_without_ranks_the_page_has_no_players(browser: Browser) -> None:
    from tests.drivers.http_instance import app_alone

    host = free_host()
    with serving(app_alone({1: [entry(1, 1, "a", "b", 1.0)]}, host), host):
        browser.open(f"http://{host}/")
        browser.wait_for(LIVE, "it is live")
        assert browser.run("return document.querySelector('[data-view=players]').hidden")

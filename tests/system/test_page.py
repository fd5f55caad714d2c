"""The page in a real browser: live within 200 ms of a producer's record, usable by everyone, honest when cut off.

What is live is tried at a real instance with a real broker; how it looks and is used, at boards that stay as they are.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from api.http.auth import Tokens
from app.java.broker import Broker
from runtime.cluster.host_metadata import ClusterMap, HostMetadata
from runtime.kafka.connection import KafkaConnection
from tests.drivers import page_checks
from tests.drivers.browser import ELEMENT, Browser
from tests.drivers.declared import boards_view
from tests.drivers.fake_view import board_of, entry
from tests.drivers.http_instance import EVERY_PARTITION, app_alone, app_of, free_host, serving
from tests.drivers.instance import Instance
from tests.drivers.producer import Inputs
from tests.waiting import wait_until
from topology.leaderboard.topics import SCORE_EVENTS

pytestmark = pytest.mark.system

LIVE = "document.querySelector('#state').dataset.state === 'live'"
GAME = 6
NASTY = "<img src=x onerror=\"document.body.innerHTML=''\">"
LARGEST = 2**63 - 1
BOARDS = {
    **{each: board_of(each) for each in range(1, 12)},
    12: [entry(1, 12, NASTY, "A name as long as a line on a phone, and then some more of it", 1e300)],
    LARGEST: [entry(LARGEST, LARGEST, "W" * 120, "Largest", 0.5), entry(2, LARGEST, "Zoë", "Largest", -3)],
}
VIEWS = ("/", "/#/game/1", "/#/game/12", "/#/cluster", "/#/topology", "/docs")
MEDIAN_OF = 20
WARM_UP = 5
MEDIAN_MOST_S = 2.0
"""The aim is 0.2 s; a machine that runs other tests at the same time gets ten times that."""

_WATCH = """
window.seen = {};
new MutationObserver(() => {
  const score = document.querySelector('[data-product="6"] .score');
  if (score) window.seen[score.textContent] ??= {at: Date.now(), place: score.closest(".place").className};
}).observe(document.getElementById("cards"), {subtree: true, childList: true, characterData: true});
"""


@pytest.fixture(scope="module")
def still() -> Iterator[str]:
    """The address of an instance whose boards stay as they are."""
    host = free_host()
    with serving(app_alone(BOARDS, host), host):
        yield f"http://{host}"


@pytest.fixture
def live(tmp_path: Path) -> Iterator[tuple[Instance, Inputs]]:
    """An instance with a stream in real time, on a broker of its own."""
    with Broker(tmp_path / "broker") as broker:
        inputs = Inputs(KafkaConnection(broker.bootstrap_servers))
        inputs.create_topics()
        inputs.players({1: "Elyse", 2: "Mitch", 3: "Isabelle"})
        inputs.products({1: "Super Smash Bros", GAME: "Mario Kart"})
        inputs.scores([(1.0, 1, 1), (1.0, 2, GAME)])
        with Instance(tmp_path / "instance", broker.bootstrap_servers) as instance:
            instance.wait_for_real_time()
            yield instance, inputs


def test_a_score_shows_at_once_and_a_lost_instance_is_told_and_comes_back(
    live: tuple[Instance, Inputs], browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    instance, inputs = live
    browser.open(instance.url)
    browser.wait_for(f"{LIVE} && document.querySelectorAll('.card').length === 2", "both boards are shown")
    browser.run(_WATCH)
    sent_s, acknowledged_s = asyncio.run(latencies(browser, inputs.kafka))
    with capsys.disabled():
        sys.stdout.write(
            f"\na score is on the page {1000 * sent_s:.0f} ms after it was sent, {1000 * acknowledged_s:.0f} ms after"
            f" the broker had it (median of {MEDIAN_OF})\n"
        )
    assert sent_s < MEDIAN_MOST_S
    # It is marked for two seconds only.
    assert browser.run(f"return window.seen['{1000 + WARM_UP + MEDIAN_OF:,}'].place") == "place changed"

    browser.run("location.hash = '#/cluster'")
    browser.wait_for("/running/.test(document.querySelector('#cluster-facts').textContent)", "where the stream runs")
    cells = "[...document.querySelectorAll('#instances-rows td')].map(cell => cell.textContent)"
    browser.wait_for(f"/^0123,[^,]*,0 records,running$/.test({cells})", "what the instance has, up to date")
    browser.screenshot(tmp_path / "cluster.png")
    browser.run("location.hash = '#/'")

    instance.kill()
    browser.wait_for(
        "document.querySelector('#state-text').textContent === 'Connection lost, trying again'", "it says so"
    )
    browser.wait_for("!document.querySelector('#notice').hidden", "it says from when the boards are")
    browser.wait_for("/ old$/.test(document.querySelector('#age').textContent)", "and how old they are")
    assert browser.run("return document.querySelectorAll('.card .score').length") == 1 + 3
    instance.start()
    browser.wait_for(f"{LIVE} && document.querySelector('#notice').hidden", "the page is live again")
    # Names need no stream, which takes a while to begin again.
    inputs.products({GAME: "Mario Kart 8"})
    browser.wait_for("document.querySelector('[data-product=\"6\"] a').textContent === 'Mario Kart 8'", "a rename")


async def latencies(browser: Browser, kafka: KafkaConnection) -> tuple[float, float]:
    """Return the median time until a score is on the page: since it was sent, and since the broker had it; seconds."""
    since_sent, since_acknowledged = [], []
    async with AIOKafkaProducer(**kafka.for_aiokafka()) as producer:
        for number in range(1, WARM_UP + MEDIAN_OF + 1):
            event = {"score": 1000 + number, "product_id": GAME, "player_id": 3}
            sent_s = time.time()
            await producer.send_and_wait(SCORE_EVENTS, json.dumps(event).encode())
            acknowledged_s = time.time()
            shown_s = await asyncio.to_thread(shown_at, browser, f"{1000 + number:,}")
            if number > WARM_UP:
                since_sent.append(shown_s - sent_s)
                since_acknowledged.append(shown_s - acknowledged_s)
    return statistics.median(since_sent), statistics.median(since_acknowledged)


def shown_at(browser: Browser, score: str) -> float:
    """Wait until a score is on the page; return since when, as wall-clock time in seconds."""
    browser.wait_for(f"window.seen[{score!r}]", f"{score} is shown")
    return float(browser.run("return window.seen[arguments[0]].at", score)) / 1000


def test_names_are_text_and_ids_are_exact(still: str, browser: Browser) -> None:
    opened(browser, still)
    browser.wait_for("document.querySelectorAll('.card:has(.score)').length === 13", "every game is drawn")
    assert browser.run("return document.querySelector('[data-product=\"12\"] .player').textContent") == NASTY
    assert browser.run("return [...document.querySelectorAll('.card')].map(card => card.dataset.product)") == [
        *map(str, range(1, 13)),
        str(LARGEST),
    ]
    opened(browser, f"{still}/#/game/{LARGEST}")
    browser.wait_for("document.querySelectorAll('#places-rows tr').length === 2", "the board of the largest id")


@pytest.mark.parametrize("path", VIEWS)
def test_every_control_has_a_name_and_every_text_can_be_read(still: str, browser: Browser, path: str) -> None:
    for dark in (False, True):
        browser.look(width=1280, height=900, dark=dark)
        opened(browser, still + path)
        assert browser.run(page_checks.FAINT) == []
    assert [browser.run("return arguments[0].outerHTML", {ELEMENT: each}) for each in nameless(browser)] == []
    assert browser.run(page_checks.OUTLINE) == []


def nameless(browser: Browser) -> list[str]:
    controls = [
        each for each in browser.elements(page_checks.CONTROLS) if browser.run(page_checks.IS_SEEN, {ELEMENT: each})
    ]
    assert controls
    return [each for each in controls if not browser.label(each).strip()]


@pytest.mark.parametrize("width", [320, 360, 768, 1920])
def test_nothing_is_wider_than_the_screen(still: str, browser: Browser, tmp_path: Path, width: int) -> None:
    for path in VIEWS:
        browser.look(width=width, height=900, dark=width == 768)
        opened(browser, still + path)
        assert browser.run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth"), path
        browser.screenshot(tmp_path / f"{width}{path.replace('/', '-')}.png")


def test_all_of_it_is_reached_by_keyboard(still: str, browser: Browser) -> None:
    opened(browser, still)
    walked: list[str] = []
    while not walked or walked[-1] != "Metrics":
        browser.press("Tab")
        assert browser.run(page_checks.FOCUS_IS_SEEN), browser.run("return document.activeElement.outerHTML")
        walked.append(browser.run("return document.activeElement.textContent || document.activeElement.id").strip())
        assert len(walked) < 40, walked
    games = [f"Game {each}" for each in range(1, 12)]
    views = ["Games", "Stores", "Cluster", "Topology"]
    assert walked[:8] == ["Skip to the content", "Leaderboard", *views, "Pause", "search"]
    assert walked[8:19] == games
    assert walked[21:] == ["Routes", "OpenAPI", "Metrics"]

    browser.run("document.querySelector('[data-product=\"3\"] a').focus()")
    browser.press("Enter")
    browser.wait_for(
        "document.activeElement.id === 'game-title' && document.activeElement.textContent === 'Game 3'", "3"
    )
    browser.press("Escape")
    browser.wait_for("document.activeElement.matches('[data-product=\"3\"] a')", "the focus is where it was")


def test_a_game_is_found_by_name_and_by_id(still: str, browser: Browser) -> None:
    opened(browser, still)
    browser.run("document.querySelector('#search').focus()")
    browser.type("larg")
    browser.wait_for("document.querySelectorAll('.card:not([hidden])').length === 1", "one is left")
    assert browser.run("return document.querySelector('#search-hint').textContent") == "1 game"
    browser.press("Enter")
    browser.wait_for("document.querySelector('#game-title').textContent === 'Largest'", "it is open")
    opened(browser, f"{still}/?game=99")
    browser.wait_for("document.querySelector('#game-empty').textContent.includes('no score')", "there is no game 99")
    for wrong in ("x", "%", "%C3%BC"):
        opened(browser, f"{still}/#/game/{wrong}")
        said = f"document.querySelector('#game-empty').textContent.startsWith('“{wrong}” is no game')"
        browser.wait_for(said, f"{wrong} is no id")


def test_it_keeps_still_when_asked_to(still: str, browser: Browser) -> None:
    browser.look(width=1280, height=900, still=True)
    opened(browser, still)
    assert browser.run("return document.getAnimations().length") == 0
    browser.look(width=1280, height=900)
    assert browser.run("return document.getAnimations().length") > 0
    browser.run("document.querySelector('#pause').click()")
    assert browser.run("return document.querySelector('#state-text').textContent") == "Paused"


def test_who_runs_the_stream_and_who_keeps_a_driver_warm_is_shown(browser: Browser) -> None:
    host, runs, neither = (free_host() for _ in range(3))
    view = boards_view(BOARDS)
    view.hold(EVERY_PARTITION)
    members = (
        HostMetadata(runs, runs_stream=True),
        HostMetadata(host, EVERY_PARTITION, stream_standby=1),
        HostMetadata(neither),
    )
    with serving(app_of(view, lambda: ClusterMap(members, len(EVERY_PARTITION)), host), host):
        browser.open(f"http://{host}/#/cluster")
        rows = "[...document.querySelectorAll('#instances-rows tr')]"
        browser.wait_for(f"{rows}.length === 3", "the instances are shown")
        cell = "row => [row.querySelector('th').firstChild.textContent, row.querySelector('td:last-child').textContent]"
        said = dict(browser.run(f"return {rows}.map({cell})"))
        assert said == {str(runs): "runs", str(host): "standby", str(neither): "\N{EN DASH}"}
        browser.open("about:blank")


@contextmanager
def other_boards(count: int, tokens: Tokens | None = None) -> Iterator[str]:
    host = free_host()
    with serving(app_alone({each: board_of(each, 1) for each in range(count)}, host, tokens), host):
        yield f"http://{host}"


def test_thousands_of_games_come_a_page_at_a_time(browser: Browser) -> None:
    with other_boards(2_000) as address:
        opened(browser, address)
        browser.wait_for("document.querySelectorAll('.card').length === 100", "a page of them")
        assert browser.run("return document.querySelector('#games-count').textContent") == "2,000 games"
        browser.run("document.querySelector('#page-next').click()")
        browser.wait_for("document.querySelector('.card')?.dataset.product === '100'", "the next page")
        assert browser.run("return document.querySelectorAll('.card').length") == 100
        browser.open("about:blank")


def test_a_token_is_asked_for_and_kept_in_the_tab(browser: Browser) -> None:
    with other_boards(3, Tokens(api=("token-of-clients",))) as address:
        browser.open(address)
        browser.wait_for("!document.querySelector('#token-form').hidden", "it asks for a token")
        for text in ("wrong-token-0000", "token-of-clients"):
            browser.run("document.querySelector('#token').focus()")
            browser.type(text)
            browser.press("Enter")
            if text.startswith("wrong"):
                browser.wait_for("document.querySelector('#token-text').textContent.startsWith('It was refused')", "no")
        browser.wait_for(f"{LIVE} && document.querySelectorAll('.card').length === 3", "the boards are shown")
        browser.open(address)
        browser.wait_for(f"{LIVE} && document.querySelector('#token-form').hidden", "it is still known")
        browser.open("about:blank")


def opened(browser: Browser, address: str) -> None:
    """Open an address anew, and wait until what it shows is there."""
    browser.open("about:blank")
    browser.open(address)
    ready = "document.querySelectorAll('article').length > 9" if address.endswith("/docs") else page_checks.IS_DRAWN
    wait_until(lambda: bool(browser.run(f"return Boolean({ready})")), f"{address} is shown")

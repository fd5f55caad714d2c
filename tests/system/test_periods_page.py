"""The choice of a period on the page, in a real browser: what runs comes first, and what was before is there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drivers import page_checks
from tests.drivers.browser import Browser
from tests.drivers.http_instance import app_alone, free_host, serving
from tests.drivers.period_instances import PeriodInstances
from topology.leaderboard.periods import NAMES, before, date_of, period_of
from topology.leaderboard.topics import PLAYERS, PRODUCTS

pytestmark = pytest.mark.system

LIVE = "document.querySelector('#state').dataset.state === 'live'"
CARDS = "[...document.querySelectorAll('.card')].map(card => card.querySelector('.score')?.textContent).join(' ')"
CHOSEN = "document.querySelector('#period').selectedOptions[0].textContent"
CHOOSE = """
const select = document.querySelector('#period');
select.value = arguments[0];
select.dispatchEvent(new Event('change'));
"""


@pytest.fixture(scope="module")
def page() -> Iterator[str]:
    """The address of an instance with three games: scores of 11, 22, 33 today, others before."""
    instances = PeriodInstances(time.time_ns() // 1_000_000, size=1)
    today = date_of(instances.now_ms)
    for number, name in enumerate(("Elyse", "Mitch", "Isabelle"), 1):
        instances.name(PLAYERS, number, name)
        instances.name(PRODUCTS, number, f"Game {number}")
    for product in (1, 2, 3):
        for place, name in enumerate(NAMES, 1):
            best = 10.0 ** (place - 1) * 11 * product
            instances.publish(product, period_of(name, today), (best, 1), (best - 1, 2), (best - 2, 3), (best - 3, 1))
        instances.publish(product, period_of("day", before("day", today, 1)), (7.0 * product, 3))
    host = free_host()
    app = instances.cluster.network.apps[instances.cluster.hosts[0]]
    with serving(app, host):
        yield f"http://{host}"


def test_today_comes_first_and_each_period_has_its_boards(page: str, browser: Browser) -> None:
    browser.open(page)
    browser.wait_for(f"{LIVE} && {CARDS} === '11 22 33'", "the boards of today")
    assert browser.run(f"return {CHOSEN}") == "Today"
    for value, scores in {
        "day before": "7 14 21",
        "week": "110 220 330",
        "month": "1,100 2,200 3,300",
        "month before": "",
        "all": "",
        "day": "11 22 33",
    }.items():
        browser.run(CHOOSE, value)
        browser.wait_for(f"{LIVE} && {CARDS} === '{scores}'", f"the boards of {value}")
        if not scores:
            browser.wait_for("!document.querySelector('#empty').hidden", "it says that there is none")
    browser.run("location.hash = '#/game/2'")
    browser.wait_for("document.querySelector('.podium .score')?.textContent === '22'", "the podium of today")
    browser.run(CHOOSE, "day before")
    browser.wait_for("document.querySelector('.podium .score')?.textContent === '14'", "the podium of yesterday")
    browser.run(CHOOSE, "month before")
    browser.wait_for("/last month/.test(document.querySelector('#game-empty').textContent)", "there is none")
    browser.run("location.hash = '#/cluster'")
    browser.wait_for("document.querySelector('#period-when').hidden", "there is no choice where there are no boards")
    assert browser.errors() == []


def test_the_choice_can_be_made_by_the_keyboard_and_is_read_aloud(page: str, browser: Browser) -> None:
    browser.open(page)
    browser.wait_for(f"{LIVE} && {CARDS} === '11 22 33'", "the boards of today")
    browser.run("document.querySelector('#period').focus()")
    browser.type("this w")
    browser.wait_for(f"{CHOSEN} === 'This week' && {CARDS} === '110 220 330'", "this week is chosen by typing")
    [select] = browser.elements("#period")
    assert browser.label(select) == "Time"


@pytest.mark.parametrize(("width", "height"), [(360, 740), (1280, 800), (3840, 2160)])
@pytest.mark.parametrize("dark", [False, True])
def test_the_choice_can_be_used_on_every_screen(
    page: str, browser: Browser, tmp_path: Path, width: int, height: int, dark: bool
) -> None:
    browser.look(width=width, height=height, dark=dark)
    browser.open(page)
    browser.wait_for(f"{LIVE} && {CARDS} === '11 22 33'", "the boards of today")
    assert browser.run(page_checks.FAINT) == []
    assert browser.run(page_checks.OUTLINE) == []
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    assert browser.run("return document.querySelector('#period').getBoundingClientRect().height >= 44")
    browser.screenshot(tmp_path / f"periods-{width}.png")


def test_there_is_no_choice_where_periods_are_off(browser: Browser) -> None:
    host = free_host()
    with serving(app_alone({}, host), host):
        browser.open(f"http://{host}")
        browser.wait_for(LIVE, "it is live")
        assert browser.run("return document.querySelector('#period-when').hidden")
        assert "in null" not in browser.run("return document.querySelector('#empty').textContent")

"""A store with windows in a real browser: a key over time, as a chart and as a table, live, at any width."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.declaration import Json, Store, Stream, Topology
from runtime.keys import Int64, Key, Text
from runtime.types import Decimal
from runtime.values import Latest, Sum
from runtime.windows import Hopping, Tumbling, WindowKey, time_text
from tests.drivers import page_checks
from tests.drivers.browser import ELEMENT, Browser
from tests.drivers.changing_view import instance
from topology.browser_windows import BROWSER_WINDOWS
from topology.sessions import SESSIONS

pytestmark = pytest.mark.system

NINE = 1_764_061_200_000
LISTED = "[...document.querySelectorAll('#rows-body tr')].map(row => [...row.children].map(cell => cell.textContent))"
BARS = "[...document.querySelectorAll('#windows-chart .bar')]"
TABLE = "[...document.querySelectorAll('#windows-rows tr')].map(row => [...row.children].map(cell => cell.textContent))"
CHART = "document.querySelector('#windows-chart')"
PICKED = "document.querySelector('#windows-value').textContent"


def row_of(key: Any, number: int, actions: int = 1) -> Any:
    """Return a row of the window that begins so many windows after nine."""
    start_ms = NINE + number * 2_000
    times = {"windowStart": time_text(start_ms), "windowEnd": time_text(start_ms + 5_000)}
    return {"browserHash": key, **times, "actions": actions}


def key_of(key: Any, number: int) -> WindowKey:
    return WindowKey(key, NINE + number * 2_000)


def rows_of(**actions: dict[int, int]) -> dict[Any, Any]:
    """Return the rows of keys: the number of each window with what it counts."""
    return {
        key_of(key, number): row_of(key, number, each) for key, of in actions.items() for number, each in of.items()
    }


ROWS = rows_of(b1={0: 1, 1: 3, 2: 3, 3: 2, 7: 1}, b2={0: 5}) | {key_of("a/b@1", 1): row_of("a/b@1", 1, 4)}


def test_a_key_is_found_and_seen_over_time(browser: Browser) -> None:
    with instance(ROWS, BROWSER_WINDOWS) as (url, view):
        browser.open(url)
        browser.wait_for(f"{LISTED}.length === {len(ROWS)}", "all rows are listed")
        listed = browser.run(f"return {LISTED}")
        assert listed[0] == ["a/b@1", "2025-11-25 09:00:02 \u2013\u00a009:00:07", "4"]
        assert [(key, window[11:19]) for key, window, _ in listed[1:3]] == [("b1", "09:00:00"), ("b1", "09:00:02")]
        assert "window of 5 seconds, every 2 seconds" in browser.run("return document.body.innerText")

        browser.run("document.querySelector('#find-key').focus()")
        browser.type("b1")
        browser.wait_for(f"{LISTED}.length === 5", "the windows of the key are left")
        view.change(key_of("b1", 8), row_of("b1", 8, 6))
        browser.wait_for(f"{LISTED}.length === 6", "another one comes")
        browser.press("Enter")
        browser.wait_for(f"{BARS}.length === 6", "a bar for each window")
        assert browser.run("return document.activeElement.id") == "row-title"
        assert browser.run(f"return {TABLE}") == [
            ["2025-11-25 09:00:16", "6", "2025-11-25 09:00:21"],
            ["2025-11-25 09:00:14", "1", "2025-11-25 09:00:19"],
            ["3 windows without a row"],
            ["2025-11-25 09:00:06", "2", "2025-11-25 09:00:11"],
            ["2025-11-25 09:00:04", "3", "2025-11-25 09:00:09"],
            ["2025-11-25 09:00:02", "3", "2025-11-25 09:00:07"],
            ["2025-11-25 09:00:00", "1", "2025-11-25 09:00:05"],
        ]
        assert browser.run(f"return {PICKED}") == "6"

        view.change(key_of("b1", 9), row_of("b1", 9, 7))
        browser.wait_for(f"{PICKED} === '7' && {BARS}.length === 7", "the newest one is told as it comes")
        view.change(key_of("b1", 9), row_of("b1", 9, 1234567890123456789))
        marked = "document.querySelector('#windows-rows td').className === 'number changed'"
        changed = f"{TABLE}[0][1] === '1234567890123456789' && {marked}"
        browser.wait_for(changed, "it changes, to the last digit, and is marked for a moment")
        for number in (0, 1, 2, 3, 7, 8, 9):
            view.change(key_of("b1", number), {})
        browser.wait_for("document.querySelector('#row-empty').textContent.startsWith('There is no row')", "all go")
        assert browser.run("return document.querySelector('#row-windows').hidden")
        view.change(key_of("b1", 20), row_of("b1", 20, 2))
        browser.wait_for(f"{PICKED} === '2' && {BARS}.length === 1", "one comes")
        browser.press("Escape")
        # The row that it was opened from is gone meanwhile; the focus goes on to another window of the key.
        browser.wait_for(f"{LISTED}.length === 1", "back in the list, of which one row is left")
        assert browser.run("return document.activeElement.textContent") == "b1"


def test_windows_are_picked_by_keys_and_told_in_words(browser: Browser) -> None:
    with instance(ROWS, BROWSER_WINDOWS) as (url, view):
        browser.open(f"{url}/#/stores/counterStore/keys/b1")
        browser.wait_for(f"{BARS}.length === 5", "it is open")
        (chart,) = browser.elements("#windows-chart")
        assert (browser.role(chart), browser.label(chart)) == ("slider", "actions by window")
        browser.run(f"{CHART}.focus()")

        def told() -> Any:
            return browser.run(f"return {CHART}.getAttribute('aria-valuetext')")

        assert told() == "actions 1, 2025-11-25 09:00:14 to 09:00:19 UTC"
        browser.press("ArrowLeft")
        assert told() == "actions 2, 2025-11-25 09:00:06 to 09:00:11 UTC"
        assert browser.run(f"return {BARS}.findIndex(bar => bar.classList.contains('picked'))") == 3
        view.change(key_of("b1", 9), row_of("b1", 9, 9))
        browser.wait_for(f"{BARS}.length === 6", "another one comes")
        assert told() == "actions 2, 2025-11-25 09:00:06 to 09:00:11 UTC"
        browser.press("Home")
        assert told() == "actions 1, 2025-11-25 09:00:00 to 09:00:05 UTC"
        browser.press("ArrowLeft")
        assert browser.run(f"return {CHART}.getAttribute('aria-valuenow')") == "1"
        browser.press("End")
        assert told() == "actions 9, 2025-11-25 09:00:18 to 09:00:23 UTC"


def test_any_key_is_opened_from_the_list(browser: Browser) -> None:
    with instance(ROWS, BROWSER_WINDOWS) as (url, _):
        browser.open(url)
        browser.wait_for(f"{LISTED}.length === {len(ROWS)}", "all rows are listed")
        browser.run("document.querySelector('#rows-body a').click()")
        browser.wait_for(f"{PICKED} === '4' && {BARS}.length === 1", "a key with a slash and an at sign is open")


SUMS = Topology(
    "sums",
    source=Stream("sales", Json({"number": Int64, "amount": Decimal(2), "city": Text})),
    stores=[
        Store(
            "sums-store",
            topic="sums",
            key=Key("number", Int64),
            values={"city": Latest("city"), "total": Sum("amount"), "units": Sum("number")},
            window=Tumbling("1 hour"),
        )
    ],
)


def test_decimals_below_zero_and_several_columns(browser: Browser) -> None:
    def row(hour: int, total: float, units: int) -> Any:
        times = {"windowStart": time_text(hour * 3_600_000), "windowEnd": time_text((hour + 1) * 3_600_000)}
        return {"number": -7, **times, "city": "Rome", "total": total, "units": units}

    rows = {WindowKey(-7, hour * 3_600_000): row(hour, *of) for hour, of in {-2: (-1.25, 3), -1: (2.5, 0)}.items()}
    with instance(rows, SUMS) as (url, _):
        browser.open(url)
        browser.wait_for(f"{LISTED}.length === 2", "both are listed")
        assert browser.run(f"return {LISTED}")[1][1] == "1969-12-31 23:00:00 \u2013\u00a01970-01-01 00:00:00"
        browser.run("document.querySelector('#rows-body a').click()")
        browser.wait_for(f"{BARS}.length === 2", "it is open")
        columns = "[...document.querySelector('#windows-column').options].map(option => option.value)"
        assert browser.run(f"return {columns}") == ["total", "units"]
        assert browser.run(f"return {PICKED}") == "2.5"
        heights = f"{BARS}.map(bar => Number(bar.getAttribute('height')))"
        low, high = browser.run(f"return {heights}")
        assert high == pytest.approx(2 * low, rel=0.1)
        tops = f"{BARS}.map(bar => Number(bar.getAttribute('y')))"
        below, above = browser.run(f"return {tops}")
        assert below > above
        browser.run(
            "const choice = document.querySelector('#windows-column'); choice.value = 'units';"
            "choice.dispatchEvent(new Event('change'))"
        )
        browser.wait_for(f"{PICKED} === '0'", "the other column is shown")
        assert min(browser.run(f"return {heights}")) > 0, "a row of nothing is seen all the same"
        assert browser.run(f"return {TABLE}")[0] == ["1969-12-31 23:00:00", "Rome", "2.5", "0", "1970-01-01 00:00:00"]


def test_what_show_makes_of_a_window_is_shown_as_it_is(browser: Browser) -> None:
    store = BROWSER_WINDOWS.stores[0]
    shown = Store(
        store.name,
        topic=store.topic,
        key=store.key,
        values=store.values,
        window=Hopping("5 seconds", "2 seconds"),
        show=lambda row, _: {"n": row["actions"]},
    )
    topology = Topology("shown", source=BROWSER_WINDOWS.events, stores=[shown])
    with instance({key_of("b1", 0): {"n": 3}}, topology) as (url, _):
        browser.open(url)
        browser.wait_for(f"{LISTED}[0]?.join() === 'b1,3'", "the row is listed")
        browser.run("document.querySelector('#rows-body a').click()")
        browser.wait_for("document.querySelector('#row-whole').textContent.includes('\"n\": 3')", "it is open")
        assert browser.run("return document.querySelector('#row-windows').hidden")


def test_hundreds_of_windows_are_turned_over_and_drawn(browser: Browser) -> None:
    rows = rows_of(b1={number: number % 50 for number in range(700)})
    with instance(rows, BROWSER_WINDOWS) as (url, view):
        browser.open(url)
        browser.wait_for(f"{LISTED}.length === 50", "a page of rows")
        browser.run("document.querySelector('#rows-next').click()")
        browser.wait_for(f"{LISTED}[0][1].includes(' 09:01:40 ')", "the next page goes on within the key")
        view.change(key_of("b1", 50), row_of("b1", 50, 77))
        browser.wait_for(f"{LISTED}[0][2] === '77'", "it is renewed")

        browser.open(f"{url}/#/stores/counterStore/keys/b1")
        browser.wait_for(f"{BARS}.length > 100", "it is open")
        assert browser.run(f"return {TABLE}.length") == 500
        assert "The newest 500 of 700" in browser.run("return document.body.innerText")
        browser.run(
            "const choice = document.querySelector('#windows-span'); choice.value = '30';"
            "choice.dispatchEvent(new Event('change'))"
        )
        browser.wait_for(f"{BARS}.length === 30", "the newest ones alone")


def session(key: str, begin_s: float, end_s: float, actions: int) -> tuple[WindowKey, Any]:
    """Return a row of a session that began and ended so many seconds after nine."""
    start_ms, end_ms = (NINE + round(each * 1000) for each in (begin_s, end_s))
    times = {"windowStart": time_text(start_ms), "windowEnd": time_text(end_ms)}
    return WindowKey(key, start_ms), {"browserHash": key, **times, "actions": actions}


def test_sessions_are_drawn_as_long_as_they_were(browser: Browser) -> None:
    rows = dict([session("b1", 0, 100, 9), session("b1", 500, 900, 41), session("b2", 3.5, 33.5, 1)])
    with instance(rows, SESSIONS) as (url, view):
        browser.open(url)
        browser.wait_for(f"{LISTED}.length === 3", "all are listed")
        assert browser.run(f"return {LISTED}")[2] == ["b2", "2025-11-25 09:00:03.500 \u2013\u00a009:00:33.500", "1"]
        head = "return [...document.querySelectorAll('#rows-head th')].map(cell => cell.textContent)"
        assert browser.run(head) == ["browserHash", "session (UTC)", "actions"]
        assert "browserHash: text, session, until nothing came for 30 seconds" in browser.run(
            "return document.querySelector('#stores-rows').innerText"
        )
        browser.run("document.querySelector('#rows-body a').click()")
        browser.wait_for(f"{BARS}.length === 2", "the sessions of a key")
        assert browser.run("return document.querySelector('#windows-title').textContent") == "Sessions"
        assert browser.run("return document.querySelector('#windows-text').textContent") == (
            "2 sessions; one ends when nothing comes for 30 seconds. Times are UTC."
        )
        assert browser.run(f"return {TABLE}") == [
            ["2025-11-25 09:08:20", "41", "2025-11-25 09:15:00"],
            ["2025-11-25 09:00:00", "9", "2025-11-25 09:01:40"],
        ]
        (chart,) = browser.elements("#windows-chart")
        assert browser.label(chart) == "actions by session"
        edges = f"{BARS}.map(bar => [Number(bar.getAttribute('x')), Number(bar.getAttribute('width'))])"
        (first_x, first), (second_x, second) = browser.run(f"return {edges}")
        assert second / first == pytest.approx(4, rel=0.02)
        assert (second_x - first_x) / first == pytest.approx(5, rel=0.02)

        view.change(*session("b1", 1000, 1030, 2))
        browser.wait_for(f"{PICKED} === '2' && {BARS}.length === 3", "another one has ended")
        browser.run(f"{CHART}.focus()")
        browser.press("ArrowLeft")
        told = f"return {CHART}.getAttribute('aria-valuetext')"
        assert browser.run(told) == "actions 41, 2025-11-25 09:08:20 to 09:15:00 UTC"


OVERLAPS = """
const boxes = [...document.querySelectorAll('#windows-chart text')].filter((each) => each.textContent)
  .map((each) => [each.textContent, each.getBoundingClientRect()]);
const picture = document.querySelector('#windows-chart svg').getBoundingClientRect();
const found = [];
for (const [text, box] of boxes) {
  const inside = box.left > picture.left - 1 && box.right < picture.right + 1 && box.bottom < picture.bottom + 1;
  if (!inside) found.push(`${text} is cut`);
  for (const [other, of] of boxes) {
    const apart = box.right <= of.left || of.right <= box.left || box.bottom <= of.top + 2 || of.bottom <= box.top + 2;
    if (text < other && !apart) found.push(`${text} is over ${other}`);
  }
}
return found;
"""
"""Returns which texts of the chart stand over each other, or are cut."""


@pytest.mark.parametrize("kind", ["few", "one", "many", "huge", "low"])
def test_it_can_be_read_and_fits_the_screen(browser: Browser, tmp_path: Path, kind: str) -> None:
    rows = rows_of(
        few={0: 1, 1: 3, 5: 2},
        one={3: 7},
        many={number: number % 50 for number in range(500)},
        huge=dict.fromkeys(range(3), 2**62),
        low={number: 10 * number - 10_000_000 for number in range(40)},
    )
    with instance(rows, BROWSER_WINDOWS) as (url, _):
        for width, dark in ((1920, False), (1280, True), (360, False), (320, True)):
            browser.look(width=width, height=844, dark=dark)
            browser.open("about:blank")
            browser.open(f"{url}/#/stores/counterStore/keys/{kind}")
            browser.wait_for(f"{BARS}.length > 0", kind)
            browser.screenshot(tmp_path / f"{width}.png")
            assert browser.run(page_checks.FAINT) == []
            assert browser.run(page_checks.OUTLINE) == []
            assert browser.run(OVERLAPS) == [], width
            fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
            assert browser.run(f"return {fits}"), width
        for each in browser.elements(f"{page_checks.CONTROLS}, select"):
            if browser.run(page_checks.IS_SEEN, {ELEMENT: each}):
                assert browser.label(each).strip(), browser.run("return arguments[0].outerHTML", {ELEMENT: each})

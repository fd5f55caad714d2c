"""The stores in a real browser: a key is found, by itself and by how it begins; rows change before one's eyes."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.leaderboard.own import leaderboard_routes
from tests.drivers import page_checks
from tests.drivers.browser import ELEMENT, Browser
from tests.drivers.changing_view import instance
from tests.drivers.declared import leaderboard
from tests.drivers.fake_view import board_of
from topology.paid_orders import PAID_ORDERS
from topology.word_count import WORD_COUNT

pytestmark = pytest.mark.system

WORDS = ["\n", "%2F", "<b>x</b>", "@", "a/b", "c d", "hello", "help", "world", "🎲"]
ROWS = {word: {"word": word, "count": number + 1} for number, word in enumerate(WORDS)}
LISTED = "[...document.querySelectorAll('#rows-body th')].map(cell => cell.textContent)"
COUNT_OF_ROW = "document.querySelector('#row-values [data-name=count] dd')?.textContent"


def test_a_key_is_found_and_seen_to_change(browser: Browser) -> None:
    with instance(ROWS, WORD_COUNT) as (url, view):
        browser.open(url)
        browser.wait_for(f"{LISTED}.length === {len(WORDS)}", "all rows are listed")
        assert browser.run(f"return {LISTED}") == ["\\n", *WORDS[1:]]

        browser.run("document.querySelector('#find-key').focus()")
        browser.type("hel")
        browser.wait_for(f"{LISTED}.join() === 'hello,help'", "those that begin so are left")
        assert browser.run("return document.querySelector('#rows-text').textContent") == "2 of 10 rows"
        view.change("help", {"word": "help", "count": 1234567890123456789})
        cell = "document.querySelector('[data-key=help] td')"
        changed = f"{cell}.textContent === '1234567890123456789' && {cell}.className === 'number changed'"
        browser.wait_for(changed, "the row changes, to the last digit, and is marked for a moment")
        view.change("help", {})
        browser.wait_for(f"{LISTED}.join() === 'hello'", "a row that is gone leaves")

        browser.type("lo")
        browser.press("Enter")
        browser.wait_for(f"{COUNT_OF_ROW} === '7'", "the row is open")
        assert browser.run("return document.activeElement.id") == "row-title"
        view.change("hello", {"word": "hello", "count": 8})
        browser.wait_for(f"{COUNT_OF_ROW} === '8'", "it changes")
        view.change("hello", {})
        browser.wait_for("document.querySelector('#row-empty').textContent.startsWith('There is no row')", "it goes")
        view.change("hello", {"word": "hello", "count": 9})
        browser.wait_for(f"{COUNT_OF_ROW} === '9' && document.querySelector('#row-empty').hidden", "it comes back")
        browser.press("Escape")
        browser.wait_for("document.activeElement.textContent === 'hello'", "back in the list, where it was")
        # What changes beside it, also who is before it, leaves the focus where it is.
        view.change("hallo", {"word": "hallo", "count": 1})
        browser.run("document.querySelector('#find-key').value = ''")
        browser.run("document.querySelector('#find-key').dispatchEvent(new Event('input'))")
        browser.wait_for(f"{LISTED}.join().includes('hallo,hello,world')", "the rows beside it come and go")
        assert browser.run("return document.activeElement.textContent") == "hello"
        view.change("hello", {})
        browser.wait_for(f"{LISTED}.join().includes('hallo,world')", "it is gone")
        assert browser.run("return document.activeElement.textContent") == "world"


@pytest.mark.parametrize("word", WORDS)
def test_any_key_is_opened_from_the_list(browser: Browser, word: str) -> None:
    with instance(ROWS, WORD_COUNT) as (url, view):
        browser.open(url)
        browser.wait_for(f"{LISTED}.length === {len(WORDS)}", "all rows are listed")
        browser.run("document.querySelectorAll('#rows-body a')[arguments[0]].click()", WORDS.index(word))
        browser.wait_for(f"{COUNT_OF_ROW} === '{ROWS[word]['count']}'", f"{word!r} is open")
        view.change(word, {"word": word, "count": 99})
        browser.wait_for(f"{COUNT_OF_ROW} === '99'", f"{word!r} changes")


def test_thousands_of_rows_come_a_page_at_a_time(browser: Browser) -> None:
    rows = {f"w{number:05}": {"word": f"w{number:05}", "count": number} for number in range(2_000)}
    with instance(rows, WORD_COUNT) as (url, view):
        browser.open(url)
        browser.wait_for(f"{LISTED}.length === 50", "a page of them")
        browser.run("document.querySelector('#rows-next').click()")
        browser.wait_for(f"{LISTED}[0] === 'w00050'", "the next page")
        view.change("w00050", {"word": "w00050", "count": 77})
        browser.wait_for("document.querySelector('#rows-body td').textContent === '77'", "it is renewed")
        browser.run("document.querySelector('#find-key').focus()")
        browser.type("w0199")
        browser.wait_for(f"{LISTED}.length === 10", "those that begin so")
        assert browser.run("return document.querySelector('#rows-next').hidden")


def test_a_number_that_no_key_can_be_is_passed_over(browser: Browser) -> None:
    rows = {order: paid_order(order, "card", 1.0) for order in range(600)}
    with instance(rows, PAID_ORDERS) as (url, _):
        browser.open(url)
        browser.wait_for(f"{LISTED}.length === 50", "a page of them")
        browser.run("document.querySelector('#find-key').focus()")
        browser.type("9999999999999999999")
        asked = "performance.getEntriesByType('resource').filter(({ name }) => name.includes('/keys?')).length"
        typed = browser.run(f"return {asked}")
        # A request is on its way while the number is typed, and one may follow with it.
        browser.wait_for(f"{asked} > {typed} + 2", "the page goes on")
        browser.run("document.querySelector('#find-key').value = '590'")
        browser.run("document.querySelector('#find-key').dispatchEvent(new Event('input'))")
        browser.wait_for(f"{LISTED}.length === 10", "those from a key on")


def paid_order(order: int, method: str, paid: float) -> dict[str, object]:
    """Return a row of an order and its payment."""
    return {"order_id": order, "customer_id": 2**53 + order, "amount": 49.99, "method": method, "paid": paid}


def test_a_row_of_streams_that_are_joined_has_the_columns_of_both_at_any_width(browser: Browser) -> None:
    rows = {1001: paid_order(1001, "card", 25.9), 1005: paid_order(1005, "voucher", 40)}
    with instance(rows, PAID_ORDERS) as (url, view):
        fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        for width in (2560, 390):
            browser.look(width=width, height=1000)
            browser.open("about:blank")
            browser.open(url)
            browser.wait_for(f"{LISTED}.join() === '1001,1005'", "both are listed")
            columns = "return [...document.querySelectorAll('#rows-head th')].map(cell => cell.textContent)"
            assert browser.run(columns) == ["order_id", "customer_id", "amount", "method", "paid"]
            assert browser.run(f"return {fits}"), width
            browser.open(f"{url}/#/topology")
            browser.wait_for("document.querySelector('.diagram').naturalWidth > 0", "the picture is there")
            assert browser.run(f"return {fits}"), width
            assert "join streams" in browser.run("return document.querySelector('#topology pre').textContent")
            browser.open(f"{url}/#/stores/paid-orders-store/keys/1005")
            value = "document.querySelector('#row-values [data-name={}] dd')?.textContent"
            browser.wait_for(f"{value.format('customer_id')} === '{2**53 + 1005}'", "it is open, to the last digit")
            assert browser.run(f"return {fits}"), width
            view.change(1005, paid_order(1005, f"card {width}", 9.99))
            browser.wait_for(f"{value.format('method')} === 'card {width}'", "it changes")


def test_the_page_of_a_topology_of_its_own_shows_its_stores_too(browser: Browser) -> None:
    with instance({6: board_of(6), -3: board_of(-3)}, leaderboard(), leaderboard_routes) as (url, _):
        browser.open(f"{url}/#/stores")
        browser.wait_for(f"{LISTED}.join() === '-3,6'", "the rows are listed by their keys")
        browser.run("document.querySelector('#rows-body a').click()")
        browser.wait_for("document.querySelector('#row-whole').textContent.includes('Game -3')", "a row that is a list")


@pytest.mark.parametrize("path", ["", "/#/stores/counts-store/keys/hello", "/#/stores/nothing", "/#/topology"])
def test_it_can_be_read_and_fits_the_screen(browser: Browser, tmp_path: Path, path: str) -> None:
    ready = {
        "": f"{LISTED}.length > 0",
        "/#/stores/counts-store/keys/hello": COUNT_OF_ROW,
        "/#/stores/nothing": "document.querySelector('#rows-empty').textContent.startsWith('There is no store')",
    }
    with instance(ROWS, WORD_COUNT) as (url, _):
        for width, dark in ((1280, False), (390, True), (320, False)):
            browser.look(width=width, height=844, dark=dark)
            browser.open("about:blank")
            browser.open(url + path)
            browser.wait_for(ready.get(path, "true"), path)
            browser.screenshot(tmp_path / f"{width}.png")
            assert browser.run(page_checks.FAINT) == []
            assert browser.run(page_checks.OUTLINE) == []
            fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
            assert browser.run(f"return {fits}"), width
        for each in browser.elements(page_checks.CONTROLS):
            if browser.run(page_checks.IS_SEEN, {ELEMENT: each}):
                assert browser.label(each).strip(), browser.run("return arguments[0].outerHTML", {ELEMENT: each})

"""Copies of a store with windows: which rows are let go, when, and that what is served of a key is its windows."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from runtime import Count, Hopping, Key, PlainText, Store, Stream, Text, Topology
from runtime.copies.result_copy import ResultRecord
from runtime.declaration import Row, Tables
from runtime.results import Made, Result
from runtime.serving.view import EVERYTHING, Range, Span
from runtime.serving.views import by_key
from runtime.stores.directory import StateDirectory
from runtime.stores.protocol import StateStores
from runtime.windows import STREAM_TIME_KEY, WindowKey, stream_time_headers
from tests.drivers.stores import CopiesDriver, feed

WINDOW = Hopping("10 seconds", "5 seconds", keep="60 seconds")
STORE = "visits-store"


def visits(show: Any = None) -> Topology:
    """Return a topology that counts visits of pages in windows."""
    store = Store(STORE, "visits", Key("page", Text), {"count": Count()}, window=WINDOW, show=show, rows=lambda r: r)
    return Topology("visits", Stream("lines", PlainText()), [store])


class Windows(CopiesDriver):
    """The copies of a store with windows, filled by hand."""

    def __init__(self, topology: Topology | None = None, stores: StateStores | None = None) -> None:
        super().__init__(topology or visits(), partitions=2, stores=stores)
        self.view = by_key(self.views[STORE])

    def count(self, page: str, start_s: int, number: int) -> None:
        """Publish the count of a window."""
        result = Result(Made(1, offsets={"lines": {"0": number}}), {"count": number})
        self.write(f"{page}@{start_s * 1000}", result)

    def write(self, key: str, result: Result | None, partition: int | None = None) -> None:
        """Publish a result, or a delete, under a key's text."""
        home = self.view.partition_for(key.rpartition("@")[0]) if partition is None else partition
        self.publish(STORE, key, result, home)

    def tell(self, stream_s: int, version: int = 1) -> None:
        """Tell every copy how far the events of a version of the store have come."""
        for partition in self.all_partitions:
            feed(self.copy(STORE, partition), STREAM_TIME_KEY, None, stream_time_headers(stream_s * 1000, version))

    def let_go_of(self) -> list[ResultRecord]:
        """Return what the active copies publish to let windows go."""
        return [each for partition in self.all_partitions for each in self.copy(STORE, partition).let_go()]

    def of(self, page: str, span: Span | None = None) -> list[tuple[int, int]] | None:
        """Return the windows of a page: the second of the day that each begins at, and its count."""
        rendered = self.view.get(page, span)
        return None if rendered is None else [_short(row) for row in json.loads(rendered.body)]


def _short(row: dict[str, Any]) -> tuple[int, int]:
    minutes, seconds = row["windowStart"][14:19].split(":")
    return int(minutes) * 60 + int(seconds), row["count"]


def test_the_windows_of_a_key_are_served_as_a_list_the_oldest_first() -> None:
    driver = Windows()
    for start_s, number in [(10, 3), (0, 1), (5, 2)]:
        driver.count("home", start_s, number)
    driver.count("home@", 5, 9)
    driver.count("hom", 5, 8)
    assert driver.of("home") == [(0, 1), (5, 2), (10, 3)]
    rendered = driver.view.get("home")
    assert rendered is not None
    assert json.loads(rendered.body)[0] == {
        "page": "home",
        "windowStart": "1970-01-01T00:00:00.000Z",
        "windowEnd": "1970-01-01T00:00:10.000Z",
        "count": 1,
    }
    assert driver.of("away") is None


@pytest.mark.parametrize(
    ("span", "starts"),
    [
        (Span(5_000, 10_000), [5, 10]),
        (Span(5_001, None), [10]),
        (Span(None, 4_999), [0]),
        (Span(11_000, 20_000), []),
        (Span(), [0, 5, 10]),
    ],
)
def test_a_span_has_both_of_its_ends(span: Span, starts: list[int]) -> None:
    driver = Windows()
    for start_s in (0, 5, 10):
        driver.count("home", start_s, 1)
    assert [start for start, _ in driver.of("home", span) or []] == starts
    assert driver.of("away", span) is None


def test_rows_are_in_the_order_of_key_and_window() -> None:
    driver = Windows()
    for page, start_s in [("b", 0), ("a", 10), ("a\0", 5), ("a", 5), ("aa", 0)]:
        driver.count(page, start_s, 1)
    rows = driver.views[STORE].rows(driver.all_partitions, EVERYTHING)
    assert [(key.key, key.start_ms // 1000) for key, _ in rows] == [
        ("a", 5), ("a", 10), ("a\0", 5), ("aa", 0), ("b", 0),
    ]  # fmt: skip
    within = Range(WindowKey("a", 10_000), WINDOW.first_of("b"))
    assert [key.key for key, _ in driver.views[STORE].rows(driver.all_partitions, within)] == ["a", "a\0", "aa"]
    assert [key for key, _ in driver.view.rows(driver.all_partitions, Range("a", "b"))] == ["a", "a\0", "aa"]
    assert driver.view.count(driver.all_partitions) == 4


@pytest.mark.parametrize(("stream_s", "gone"), [(69, []), (70, [0]), (74, [0]), (75, [0, 5]), (1000, [0, 5, 10])])
def test_a_window_is_let_go_when_stream_time_has_passed_its_end_by_what_it_is_kept(
    stream_s: int, gone: list[int]
) -> None:
    driver = Windows()
    for start_s in (10, 0, 5):
        driver.count("home", start_s, 1)
    assert driver.let_go_of() == []
    driver.tell(stream_s)
    assert [(record.key, record.value) for record in driver.let_go_of()] == [
        (b"home@%d" % (start_s * 1000), None) for start_s in gone
    ]


def test_what_was_let_go_is_gone_from_every_part_of_the_store() -> None:
    driver = Windows()
    driver.count("home", 0, 1)
    driver.count("home", 30, 1)
    driver.count("away", 0, 1)
    told: list[str | None] = []
    driver.view.watch(told.append)
    driver.tell(75)
    for record in driver.let_go_of():
        driver.publish_again(record)
    assert told == ["home", "away"] or told == ["away", "home"]
    assert driver.let_go_of() == []
    assert driver.of("home") == [(30, 1)]
    assert driver.of("away") is None
    assert driver.views[STORE].count(driver.all_partitions) == 1


@pytest.mark.parametrize("show", [None, lambda row, _: row], ids=["as it is", "shown"])
def test_what_was_let_go_takes_no_memory(show: Any) -> None:
    driver = Windows(visits(show))
    seen: deque[Any] = deque(maxlen=1)
    driver.view.watch(lambda page: seen.append(page and driver.of(page)))

    def go_on(first: int, end: int) -> int:
        """Count windows, of keys whose earlier ones are gone, and return what memory is in use then, in bytes."""
        for number in range(first, end):
            start_s = number * WINDOW.every_ms // 1000
            for page in range(3):
                driver.count(f"page {number % 50} {page}", start_s, 1)
            driver.tell(start_s)
            for record in driver.let_go_of():
                driver.publish_again(record)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        after_200, after_1000 = go_on(0, 200), go_on(200, 1000)
    finally:
        tracemalloc.stop()
    kept = (WINDOW.size_ms + WINDOW.keep_ms) // WINDOW.every_ms
    assert driver.views[STORE].count(driver.all_partitions) == 3 * kept
    # 2,400 rows have been let go meanwhile: ten bytes of each would be seen.
    assert after_1000 - after_200 < 24_000


def test_stream_time_never_goes_back_and_what_is_no_time_counts_as_unusable() -> None:
    driver = Windows()
    driver.count("home", 0, 1)
    driver.tell(75)
    driver.tell(20)
    assert len(driver.let_go_of()) == 1
    feed(driver.copy(STORE), STREAM_TIME_KEY, None, [("stream_ms", b"soon")])
    feed(driver.copy(STORE), STREAM_TIME_KEY, None)
    assert sum(driver.unusable.values()) == 2
    assert len(driver.let_go_of()) == 1


def test_what_another_version_has_read_lets_no_windows_go() -> None:
    driver = Windows()
    driver.count("home", 0, 1)
    driver.tell(1000, version=2)
    assert driver.let_go_of() == []
    driver.tell(70)
    assert len(driver.let_go_of()) == 1


def test_a_store_on_disk_knows_what_to_let_go_after_a_restart(tmp_path: Path) -> None:
    topology = visits()
    names = [STORE]

    def opened() -> StateDirectory:
        return StateDirectory(tmp_path, "app", names)

    stores = opened()
    driver = Windows(topology, stores)
    for start_s in (0, 5, 300):
        driver.count("home", start_s, 1)
    driver.write("home@5000", None)
    stores.close()
    stores = opened()
    again = Windows(topology, stores)
    again.tell(100)
    assert [record.key for record in again.let_go_of()] == [b"home@0"]
    home = again.copy(STORE, again.view.partition_for("home"))
    home.begin("another id", 0)
    again.tell(100)
    assert again.let_go_of() == []
    stores.close()


@pytest.mark.parametrize("key", ["home@3000", "home", "@5000", "home@", "home@5000.0", "home@05000"])
def test_a_key_of_no_window_is_no_result(key: str) -> None:
    driver = Windows()
    driver.write(key, Result(Made(1), {"count": 1}), partition=0)
    assert sum(driver.unusable.values()) == 1
    assert driver.views[STORE].count(driver.all_partitions) == 0


def test_a_window_in_another_partition_than_its_keys_is_not_used() -> None:
    driver = Windows()
    home = driver.view.partition_for("home")
    driver.write("home@5000", Result(Made(1), {"count": 1}), partition=1 - home)
    assert dict(driver.unusable) == {("visits", "the key belongs to another partition"): 1}


def test_show_is_given_the_window_and_may_hide_it() -> None:
    def shown(row: Row, tables: Tables) -> dict[str, Any] | None:  # as any show
        return {"from": row["windowStart"][11:19], "count": row["count"]} if row["count"] > 1 else None

    driver = Windows(visits(shown))
    driver.count("home", 0, 1)
    driver.count("home", 5, 2)
    rendered = driver.view.get("home")
    assert rendered is not None
    assert json.loads(rendered.body) == [{"from": "00:00:05", "count": 2}]
    driver.write("home@5000", None)
    assert driver.view.get("home") is None


def test_windows_that_a_reader_has_just_seen_are_as_they_are_now(tmp_path: Path) -> None:
    stores = StateDirectory(tmp_path, "app", [STORE])
    driver = Windows(stores=stores)
    driver.count("home", 0, 1)
    seen: list[Any] = []
    driver.view.watch(lambda page: seen.append(page and driver.of(page)))
    assert driver.of("home") == driver.of("home") == [(0, 1)]
    driver.count("home", 0, 2)
    driver.count("home", 5, 1)
    assert seen == [[(0, 2)], [(0, 2), (5, 1)]], "who is told of a change reads it"
    assert driver.of("home", Span(first_ms=5_000)) == [(5, 1)]
    assert driver.of("home") == [(0, 2), (5, 1)]
    home = driver.copy(STORE, driver.view.partition_for("home"))
    home.begin("another id", 0)
    assert driver.of("home") is None
    stores.close()

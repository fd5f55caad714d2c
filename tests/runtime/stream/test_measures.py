"""Histograms, how fresh results are, and how large stores are."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.copies.copies import names_of
from runtime.histogram import Histogram
from runtime.results import Made, Result
from runtime.stores.directory import StateDirectory
from runtime.stores.memory import MemoryStores
from runtime.stores.protocol import Fill
from runtime.stream.freshness import Freshness, of_query
from tests.drivers.readings import PEAKS, SENSORS, STATIONS, readings, result
from tests.drivers.stores import StoresDriver

FILL = Fill("topic", 1, restored=True, current_at_ms=0)


def of(number: int, newest_ms: int | None, generation: int = 1) -> Result:
    """Return a result whose newest event has this timestamp."""
    return Result(Made(generation, newest_ms=newest_ms), {"number": number})


@pytest.mark.parametrize(
    ("value", "counts"),
    [(-1.0, [1, 0, 0]), (1.0, [1, 0, 0]), (1.1, [0, 1, 0]), (2.0, [0, 1, 0]), (2.1, [0, 0, 1]), (1e9, [0, 0, 1])],
)
def test_a_bound_belongs_to_its_bucket(value: float, counts: list[int]) -> None:
    histogram = Histogram((1.0, 2.0))
    histogram.observe(value)
    assert (histogram.counts, histogram.total) == (counts, value)


def test_a_grown_copy_leaves_the_histogram_as_it_was() -> None:
    before = Histogram((1.0,)).plus(0.5)
    after = before.plus(3.0)
    assert (before.counts, before.total) == ([1, 0], 0.5)
    assert (after.counts, after.total) == ([1, 1], 3.5)


@pytest.mark.parametrize(
    ("held", "merged", "delay_s"),
    [
        (None, of(1, 1_000), 0.25),
        (of(1, 400), of(2, 1_000), 0.25),
        (of(1, None), of(2, 1_000), 0.25),
        (of(1, 1_000), of(2, 2_000), 0.0),  # a producer's clock ahead of this one
        (of(1, 1_000), of(2, 1_000), None),
        (of(1, 1_000), of(2, 500), None),
        (of(1, 400), of(1, 1_000), None),
        (of(1, 400), of(1, 1_000, generation=2), None),
        (None, of(1, None), None),
        (of(1, 400), of(2, None), None),
    ],
)
def test_only_a_newer_event_tells_how_fresh_a_result_is(
    held: Result | None, merged: Result, delay_s: float | None
) -> None:
    freshness = Freshness()
    freshness.note(held, merged, now_ms=1_250)
    assert sum(freshness.delays_s.counts) == (delay_s is not None)
    assert freshness.delays_s.total == pytest.approx(delay_s or 0.0)
    assert (freshness.newest_ms is None) == (delay_s is None)


def test_the_newest_event_never_goes_back() -> None:
    freshness = Freshness()
    freshness.note(None, of(1, 1_000), now_ms=1_000)
    freshness.note(None, of(1, 500), now_ms=1_000)
    assert freshness.newest_ms == 1_000


def test_results_with_more_events_and_the_same_values_are_counted_and_not_those_that_are_published_again() -> None:
    freshness = Freshness()
    held = Result(Made(1, events=5), "as it was")
    freshness.note(held, Result(Made(3, events=5), "as it was"), now_ms=1_000)
    assert (freshness.read, freshness.unchanged, freshness.generation) == (0, 0, 3)
    freshness.note(held, Result(Made(1, events=6), "as it was"), now_ms=1_000)
    freshness.note(held, Result(Made(1, events=7), "another"), now_ms=1_000)
    freshness.note(None, held, now_ms=1_000)
    assert (freshness.read, freshness.unchanged, freshness.generation) == (3, 1, 3)


def test_of_the_results_that_one_query_makes_for_two_stores_all_is_told() -> None:
    one, other = Freshness(), Freshness()
    both = of_query([one, other])
    held = Result(Made(2, events=5), "as it was")
    one.note(None, of(1, 1_000), now_ms=1_003)
    other.note(None, of(1, 1_000, generation=4), now_ms=3_000)
    other.note(held, Result(Made(3, events=6), "as it was"), now_ms=3_000)
    assert (both.read, both.unchanged, both.generation) == (3, 1, 4)
    assert sum(both.delays_s.counts) == 2
    assert both.delays_s.total == pytest.approx(2.003)
    assert both.delays_s.counts == [a + b for a, b in zip(one.delays_s.counts, other.delays_s.counts, strict=True)]
    assert of_query([one]) is one


def test_what_is_restored_tells_nothing_of_how_fresh_results_are() -> None:
    driver = StoresDriver(partitions=1)
    copy = driver.copy(PEAKS)
    copy.begin("another topic", 0)
    copy.resume(1)
    driver.now_ms = 1_250
    for level in (1, 2):
        driver.station(1, result((3, level), newest_ms=1_000 + level))
    freshness = driver.copies.freshness[PEAKS]
    assert (freshness.read, freshness.newest_ms) == (1, 1_002)


def test_a_store_on_disk_tells_its_size(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "application", ["customers"])
    store = directory.open("customers", 0)
    empty = store.disk_bytes()
    assert empty > 0
    store.write({b"%d" % number: b"x" * 100 for number in range(1_000)}, FILL)
    assert store.disk_bytes() > empty + 10_000
    files = [path for path in (tmp_path / "application/customers/0").iterdir() if path.is_file()]
    assert store.disk_bytes() == sum(path.stat().st_size for path in files)
    directory.close()


def test_a_table_counts_its_rows_through_renames_deletes_and_a_restart() -> None:
    stores = MemoryStores(names_of(readings()))
    driver = StoresDriver(stores=stores)
    changes: list[tuple[int, str | None]] = [
        (1, "a"),
        (2, "b"),
        (3, "c"),
        (1, "renamed"),
        (2, None),
        (9, None),
        (3, None),
    ]
    for sensor, name in [*changes, (2, "again")]:
        driver.name(SENSORS, {sensor: name})
    assert driver.table(SENSORS).measure().rows == 2
    again = StoresDriver(stores=stores)
    assert again.table(SENSORS).measure().rows == 2
    again.table(SENSORS).begin("another topic", 0)
    assert again.table(SENSORS).measure().rows == 0


def test_rows_are_counted_by_partition_without_those_that_are_hidden() -> None:
    driver = StoresDriver()
    driver.name(STATIONS, {1: "Ulm"})
    driver.name(SENSORS, {1: "Elbe"})
    driver.station(1, result((1, 5.0)))
    driver.station(2, result((1, 5.0)))
    partition = driver.view.partition_for(1)
    assert driver.view.shown() == {each: int(each == partition) for each in range(4)}

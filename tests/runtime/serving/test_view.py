"""The views of a store, fed by the driver of copies."""

import asyncio
import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

import pytest
from sortedcontainers import SortedList

from runtime.copies.store_copy import SLICE_S
from runtime.declaration import Row, Show, Tables
from runtime.errors import StateUnusable
from runtime.kafka.partitioner import partition_for
from runtime.keys import Int64, Text
from runtime.results import Made, Result
from runtime.serving import ahead, rendered_view, stored_view
from runtime.serving.stored_view import StoredView
from runtime.serving.view import EVERYTHING, Range, inclusive
from runtime.stores.memory import MemoryStore
from tests.drivers.eventually import eventually
from tests.drivers.readings import PEAKS, SENSORS, STATIONS, readings, result
from tests.drivers.stores import CopiesDriver, StoresDriver
from topology.word_count import WORD_COUNT

NAMES: dict[int, str | None] = {1: "Elbe", 2: "Main", 3: "Isar", 4: "Saale"}


@pytest.fixture
def driver() -> StoresDriver:
    driver = StoresDriver()
    driver.name(SENSORS, NAMES)
    driver.name(STATIONS, {1: "Passau", 6: "Regensburg"})
    return driver


@pytest.fixture(params=["cold", "warm"])
async def either(request: pytest.FixtureRequest, driver: StoresDriver) -> StoresDriver:
    if request.param == "warm":
        await driver.view.warm_up()
    return driver


async def test_a_row_shows_its_first_three_with_names(either: StoresDriver) -> None:
    either.station(1, result((3, 4000), (2, 2000), (1, 1000), (4, 10)))
    rendered = either.view.get(1, 3)
    assert rendered is not None
    assert rendered.body.startswith(b'[{"sensor":"Isar","station":"Passau","level":4000.0},')
    assert either.get(1) == [("Isar", 4000.0), ("Main", 2000.0), ("Elbe", 1000.0)]
    assert either.get(1, limit=4) == [*(either.get(1) or []), ("Saale", 10.0)]
    assert either.get(1, limit=1) == [("Isar", 4000.0)]


async def test_a_rename_shows_without_any_new_level(either: StoresDriver) -> None:
    either.station(1, result((3, 4000)))
    version = either.view.version
    either.name(SENSORS, {3: "Iller"})
    assert either.get(1) == [("Iller", 4000.0)]
    assert either.view.version > version


async def test_a_deleted_sensor_makes_room_for_the_next(either: StoresDriver) -> None:
    either.station(1, result((3, 4000), (2, 2000), (1, 1000), (4, 10)))
    either.name(SENSORS, {2: None})
    assert either.get(1) == [("Isar", 4000.0), ("Elbe", 1000.0), ("Saale", 10.0)]


async def test_an_entry_shows_the_moment_what_it_looks_up_exists(either: StoresDriver) -> None:
    either.station(1, result((9, 5000), (2, 2000)))
    assert either.get(1) == [("Main", 2000.0)]
    either.name(SENSORS, {9: "Naab"})
    assert either.get(1) == [("Naab", 5000.0), ("Main", 2000.0)]


async def test_a_row_of_hidden_entries_is_absent_until_one_shows(either: StoresDriver) -> None:
    either.station(1, result((9, 5000)))
    assert (either.get(1), either.get(1, limit=5), either.all()) == (None, None, {})
    assert either.view.count(either.all_partitions) == 0
    either.name(SENSORS, {9: "Naab"})
    assert either.all() == {1: [("Naab", 5000.0)]}
    assert either.view.count(either.all_partitions) == 1
    either.name(SENSORS, {9: None})
    assert either.view.count(either.all_partitions) == 0


async def test_an_unknown_station_hides_its_row(either: StoresDriver) -> None:
    either.station(77, result((3, 1)))
    assert either.get(77) is None
    either.name(STATIONS, {77: "Ulm"})
    assert either.get(77) == [("Isar", 1.0)]
    either.name(STATIONS, {77: None})
    assert either.get(77) is None


async def test_a_deleted_row_is_absent(either: StoresDriver) -> None:
    either.station(1, result((3, 4000)))
    either.station(1, None)
    assert (either.get(1), either.view.count(either.all_partitions)) == (None, 0)


async def test_a_range_is_numeric_and_inclusive(either: StoresDriver) -> None:
    either.name(STATIONS, {station: f"station {station}" for station in (-5, 2, 10, 30)})
    for station in (-5, 2, 10, 30):
        either.station(station, result((1, station)))

    def ids(first: int | None = None, last: int | None = None) -> list[int]:
        return [station for station, _ in either.view.rows(either.all_partitions, inclusive(Int64, first, last), 3)]

    assert ids() == [-5, 2, 10, 30]
    assert ids(2, 10) == [2, 10]
    assert ids(3) == [10, 30]
    assert ids(last=-5) == [-5]
    assert ids(11, 29) == []


async def test_only_the_rows_that_show_a_sensor_are_rendered_again(driver: StoresDriver) -> None:
    driver.station(1, result((3, 4000)))
    driver.station(6, result((2, 9000)))
    await driver.view.warm_up()
    untouched = driver.view.get(6, 3)
    driver.name(SENSORS, {3: "Iller"})
    assert driver.view.get(6, 3) is untouched


async def test_a_name_on_very_many_rows_is_right_at_once(driver: StoresDriver) -> None:
    for station in range(100, 300):
        driver.name(STATIONS, {station: f"station {station}"})
        driver.station(station, result((3, station)))
    await driver.view.warm_up()
    driver.name(SENSORS, {3: "Iller"})
    assert driver.get(250) == [("Iller", 250.0)]
    assert driver.view.count(driver.all_partitions) == 200
    driver.name(SENSORS, {3: None})
    assert driver.view.count(driver.all_partitions) == 0
    await driver.view.warm_up()
    driver.name(SENSORS, {3: "Isar"})
    assert driver.all()[299] == [("Isar", 299.0)]


async def test_equal_bytes_have_equal_tags(driver: StoresDriver) -> None:
    driver.station(1, result((3, 4000)))
    first = driver.view.get(1, 3)
    driver.name(SENSORS, {3: "Iller"})
    second = driver.view.get(1, 3)
    driver.name(SENSORS, {3: "Isar"})
    assert first is not None
    assert second is not None
    assert first.etag != second.etag
    assert first == driver.view.get(1, 3)
    assert driver.view.get(1, 1) == first


async def test_names_keep_their_letters(driver: StoresDriver) -> None:
    driver.name(SENSORS, {3: 'Zoë "Z" 🎮'})
    driver.station(1, result((3, 1.5)))
    rendered = driver.view.get(1, 3)
    assert rendered is not None
    assert 'Zoë \\"Z\\" 🎮'.encode() in rendered.body
    assert json.loads(rendered.body)[0]["level"] == 1.5


async def test_a_tables_reset_forgets_every_name(driver: StoresDriver) -> None:
    driver.station(1, result((3, 4000)))
    await driver.view.warm_up()
    driver.table(SENSORS).begin("another topic", 0)
    assert driver.get(1) is None
    driver.name(SENSORS, {3: "Iller"})
    assert driver.get(1) == [("Iller", 4000.0)]


async def test_a_warm_up_sees_rows_that_change_meanwhile(driver: StoresDriver) -> None:
    for station in range(2000):
        driver.name(STATIONS, {station: "station"})
        driver.station(station, result((3, station)))
    driver.view.tables_reset()
    for partition in driver.all_partitions:
        driver.view.partition_ready(partition)
    warming = driver.view.warm_up()
    steps = 0
    try:
        while True:
            warming.send(None)
            steps += 1
            driver.station(1999 - steps, None)
            driver.station(steps, result((2, 1), generation=2))
    except StopIteration:
        pass
    assert steps > 2, f"it should have paused every {SLICE_S} s"
    expected = {station for station in range(2000) if driver.get(station) is not None}
    assert (
        driver.view.count(driver.all_partitions)
        == len(expected)
        == 2000 - len({1999 - step for step in range(1, steps + 1)} - set(range(1, steps + 1)))
    )
    assert driver.get(1) == [("Main", 1.0)]


async def test_rows_are_rendered_ahead_again_after_a_store_could_not_be_read(
    driver: StoresDriver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ahead, "_AGAIN_AFTER_S", 0.001)
    driver.station(1, result((3, 4000)))
    driver.view.tables_reset()
    keeping_warm = asyncio.create_task(driver.view.keep_warm())
    with monkeypatch.context() as patched:
        patched.setattr(MemoryStore, "scan", _closed)
        driver.view.partition_ready(partition_for(1, 4))
        await eventually(lambda: "rendered later: it is closed" in caplog.text)
    # Nobody else has noticed.
    await eventually(lambda: sum(driver.view.shown().values()) == 1)
    keeping_warm.cancel()


def _closed(*_: object) -> NoReturn:
    raise StateUnusable("it is closed")


async def test_status_tells_the_role(driver: StoresDriver) -> None:
    driver.copies.set_active({1, 2})
    assert [driver.view.status(partition).role for partition in range(3)] == ["standby", "active", "active"]
    assert driver.view.status(99).can_answer is False
    assert driver.view.partition_for(1) in driver.all_partitions


@pytest.mark.parametrize("limit", [1, 3, 10])
async def test_watchers_are_told_of_whatever_a_reader_of_any_limit_could_see(driver: StoresDriver, limit: int) -> None:
    driver.name(SENSORS, {sensor: f"sensor {sensor}" for sensor in range(10, 20)})
    driver.station(1, result(*((sensor, 100 - sensor) for sensor in range(10, 20)), (99, 5)))
    driver.station(6, result((3, 4000)))
    await driver.view.warm_up()
    driver.view.get(1, limit)
    told: list[int | None] = []
    unwatch = driver.view.watch(told.append)
    changes: list[Callable[[], None]] = [
        lambda: driver.name(SENSORS, {19: "the last place"}),
        lambda: driver.name(SENSORS, {10: None}),
        lambda: driver.name(SENSORS, {99: "now known"}),
        lambda: driver.name(STATIONS, {1: "renamed"}),
        lambda: driver.name(STATIONS, {1: None}),
        lambda: driver.name(STATIONS, {1: "again"}),
        lambda: driver.station(1, result((3, 1), generation=2)),
        lambda: driver.station(1, None),
    ]
    for change in changes:
        told.clear()
        version = driver.view.version
        change()
        assert told == [1]
        assert driver.view.version > version
    driver.view.partition_ready(0)
    assert told[-1] is None
    unwatch()
    told.clear()
    driver.station(6, result((3, 5000)))
    assert told == []


async def test_a_row_that_very_many_look_at_changes_all_of_them_for_watchers(driver: StoresDriver) -> None:
    stations = range(100, 300)
    driver.name(STATIONS, {station: f"station {station}" for station in stations})
    for station in stations:
        driver.station(station, result((3, station)))
    await driver.view.warm_up()
    told: list[int | None] = []
    driver.view.watch(told.append)
    driver.name(SENSORS, {3: "Iller"})
    assert sorted(each for each in told if each is not None) == list(stations)
    assert driver.get(250) == [("Iller", 250.0)]


async def test_at_most_so_many_rows_are_the_lowest_ones(either: StoresDriver) -> None:
    either.name(STATIONS, {station: f"station {station}" for station in (-5, 2, 10, 30)})
    for station in (-5, 2, 10, 30):
        either.station(station, result((1, station)))
    assert [p for p, _ in either.view.rows(either.all_partitions, Range(2, most=2), 3)] == [2, 10]
    assert either.view.rows(either.all_partitions, Range(31, most=2), 3) == []


async def test_rows_are_put_in_order_once_and_stay_in_it_as_they_come_and_go(
    driver: StoresDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    sorted_anew: list[object] = []

    class Counted(SortedList):  # type: ignore[misc]  # it has no types
        def __init__(self, keys: object) -> None:
            sorted_anew.append(keys)
            super().__init__(keys)

    monkeypatch.setattr(rendered_view, "SortedList", Counted)
    await driver.view.warm_up()
    stations = random.Random(20261129).sample(range(-500, 500), 200)
    driver.name(STATIONS, {station: f"station {station}" for station in stations})
    there: set[int] = set()
    for number, station in enumerate(stations):
        driver.station(station, result((1, 10)))
        there.add(station)
        if number % 3 == 0:
            gone = min(there, key=lambda each: each * 7919 % 1009)
            there.remove(gone)
            driver.station(gone, None)
        elif number % 3 == 1:
            # Hidden while its row in the table is gone, and back.
            for name in (None, "again"):
                driver.name(STATIONS, {station: name})
                assert (driver.view.get(station) is None) == (name is None)
        for descending in (False, True):
            page = driver.view.rows(driver.all_partitions, Range(None, None, 10, descending=descending), 3)
            assert [key for key, _ in page] == sorted(there, reverse=descending)[:10]
        assert [*driver.all()] == sorted(there)
    assert len(sorted_anew) == driver.partitions


async def test_a_row_of_the_same_number_in_another_table_changes_nothing(driver: StoresDriver) -> None:
    driver.station(3, result((2, 1)))
    driver.name(STATIONS, {3: "Ulm"})
    await driver.view.warm_up()
    told: list[int | None] = []
    driver.view.watch(told.append)
    driver.name(SENSORS, {3: "Iller"})
    assert told == []
    driver.name(STATIONS, {3: "Linz"})
    assert told == [3]


def test_a_limit_that_is_left_out_is_the_default(driver: StoresDriver) -> None:
    driver.station(1, result((3, 4), (2, 3), (1, 2), (4, 1)))
    assert driver.view.get(1) == driver.view.get(1, 3)
    assert driver.view.rows(driver.all_partitions, EVERYTHING) == driver.view.rows(driver.all_partitions, EVERYTHING, 3)


def test_nobody_gets_more_than_the_most_of_a_row(driver: StoresDriver) -> None:
    driver.station(1, result(*((3, 100 - level) for level in range(15))))
    assert len(driver.get(1, limit=99) or []) == 10


def shown_by(show: Show) -> CopiesDriver:
    """Return copies of stations that are shown by something else."""
    topology = readings()
    return CopiesDriver(replace(topology, stores=[replace(topology.store(PEAKS), show=show)]))


def test_a_row_that_show_fails_for_is_hidden_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    def fails_for_low_ones(row: Row, tables: Tables) -> list[float]:
        return [100 // row["station_id"]]

    driver = shown_by(fails_for_low_ones)
    for station in (0, 50):
        for level in (1, 2):
            driver.publish(PEAKS, station, result((3, level)))
    assert driver.views[PEAKS].rows(driver.all_partitions, EVERYTHING) == [(50, b"[2]")]
    assert caplog.text.count(f"show of store {PEAKS} fails for key 0: such rows are hidden") == 1


@pytest.mark.parametrize("odd", [{1}, float("nan"), object()], ids=["a set", "no number", "an object"])
def test_a_row_that_is_no_json_is_hidden_and_the_others_of_its_batch_are_shown(odd: object) -> None:
    driver = shown_by(lambda row, _: [odd if row["station_id"] == 0 else row["station_id"]])
    for station in (0, 50):
        driver.publish(PEAKS, station, result((3, 1)))
    view = driver.views[PEAKS]
    assert view.rows(driver.all_partitions, EVERYTHING) == [(50, b"[50]")]
    assert view.get(0) is None
    assert view.get(0, 7) is None
    assert view.count(driver.all_partitions) == 1


def test_a_row_of_a_table_may_be_shown_as_it_is() -> None:
    driver = shown_by(lambda row, tables: {"sensor": tables[SENSORS].get(row["station_id"])})
    driver.name(SENSORS, {3: "Isar"})
    driver.publish(PEAKS, 3, result((3, 1)))
    assert driver.views[PEAKS].rows(driver.all_partitions, EVERYTHING) == [(3, b'{"sensor":{"name":"Isar"}}')]


def test_tables_can_only_be_looked_up_by_key() -> None:
    given: list[Tables] = []

    def note(row: Row, tables: Tables) -> None:
        given.append(tables)

    driver = shown_by(note)
    driver.name(SENSORS, {3: "Isar"})
    driver.publish(PEAKS, 1, result((3, 1)))
    sensors = given[0][SENSORS]
    assert sensors[3] == {"name": "Isar"}
    assert 3 in sensors
    assert 99 not in sensors
    assert sensors.get(None) is None
    with pytest.raises(KeyError):
        sensors[99]
    with pytest.raises(TypeError, match="table sensors can only be looked up by key, not gone through"):
        list(sensors)
    with pytest.raises(TypeError, match="not counted"):
        len(sensors)


# Rows as they are

COUNTS = "counts-store"


def count(number: int, offset: int | None = None) -> Result:
    """Return a count of events up to an offset."""
    return Result(Made(1, offsets={"lines": {"0": number if offset is None else offset}}), {"count": number})


@pytest.fixture
def words() -> CopiesDriver:
    driver = CopiesDriver(WORD_COUNT)
    for number, word in enumerate(("kafka", "a/b", "ü", "hello", "@", "z"), 1):
        driver.publish(COUNTS, word, count(number))
    return driver


def test_a_row_is_shown_as_it_is(words: CopiesDriver) -> None:
    view = words.views[COUNTS]
    assert isinstance(view, StoredView)
    rendered = view.get("ü")
    assert rendered is not None
    assert rendered.body == '{"word":"ü","count":3}'.encode()
    assert view.get("nobody") is None
    words.publish(COUNTS, "ü", count(9))
    changed = view.get("ü")
    assert changed is not None
    assert changed.body == '{"word":"ü","count":9}'.encode()
    assert changed.etag != rendered.etag


def test_a_row_that_was_read_before_is_what_its_store_says_now(
    words: CopiesDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_view, "_KEPT", 3)
    view, chance = words.views[COUNTS], random.Random(30)
    known = ["kafka", "a/b", "ü", "hello", "@", "z", "nobody"]
    for number in range(10, 300):
        words.publish(COUNTS, chance.choice(known), chance.choice([None, count(number), count(number)]))
        stored = dict(view.rows(words.all_partitions, EVERYTHING))
        for word in chance.sample(known, 4):
            rendered = view.get(word)
            assert (None if rendered is None else rendered.body) == stored.get(word)
    words.publish(COUNTS, "z", count(300))
    assert view.get("z") is not None
    words.copy(COUNTS, view.partition_for("z")).begin("another topic", 0)
    assert view.get("z") is None


def test_rows_ascend_by_their_texts_through_all_partitions(words: CopiesDriver) -> None:
    view = words.views[COUNTS]

    def keys(within: Range, partitions: range = words.all_partitions) -> list[str]:
        return [key for key, _ in view.rows(partitions, within)]

    everything = keys(EVERYTHING)
    assert everything == ["@", "a/b", "hello", "kafka", "z", "ü"]
    assert keys(Range("a", "kafka")) == ["a/b", "hello"]
    assert keys(inclusive(Text, "a", "kafka")) == ["a/b", "hello", "kafka"]
    assert keys(Range("a", "kafka", descending=True)) == ["hello", "a/b"]
    assert keys(Range("a", most=2, descending=True)) == ["ü", "z"]
    assert keys(Range("b", most=2)) == ["hello", "kafka"]
    assert keys(inclusive(Text, None, "@")) == ["@"]
    for partition in words.all_partitions:
        here = [word for word in everything if view.partition_for(word) == partition]
        assert keys(EVERYTHING, range(partition, partition + 1)) == here
    assert view.rows(words.all_partitions, inclusive(Text, "z", "z")) == [("z", b'{"word":"z","count":6}')]


def test_rows_are_counted_by_what_their_stores_remember(words: CopiesDriver) -> None:
    view = words.views[COUNTS]
    assert view.count(words.all_partitions) == sum(view.shown().values()) == 6
    words.publish(COUNTS, "z", count(9))
    words.publish(COUNTS, "@", None)
    words.publish(COUNTS, "@", None)
    words.publish(COUNTS, "new", count(1))
    words.publish(COUNTS, "hello", count(1, offset=0))
    assert view.count(words.all_partitions) == 6
    home = view.partition_for("z")
    assert view.count([home]) == len(view.rows([home], EVERYTHING))
    again = CopiesDriver(WORD_COUNT, stores=words.stores)
    assert again.views[COUNTS].count(again.all_partitions) == 6
    words.copy(COUNTS, home).begin("another topic", 0)
    assert view.count([home]) == 0


def test_watchers_of_rows_as_they_are_are_told_as_well(words: CopiesDriver) -> None:
    view = words.views[COUNTS]
    told: list[str | None] = []
    view.watch(told.append)
    version = view.version
    words.publish(COUNTS, "z", count(9))
    words.publish(COUNTS, "z", count(9))
    words.publish(COUNTS, "z", count(3))
    words.publish(COUNTS, "z", None)
    assert told == ["z", "z"], "what changes nothing is not told"
    assert view.version == version + 2
    words.copy(COUNTS, view.partition_for("z")).begin("another topic", 0)
    assert told == ["z", "z", None]

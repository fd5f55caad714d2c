"""A filter of keys that were added: what is new by it is new."""

import pytest

from runtime.keys import Int64
from runtime.stores.added_keys import AddedKeys
from runtime.stores.protocol import Fill
from tests.drivers.tables import SENSORS, TableDriver, TableTopic


def keys(first: int, end: int) -> list[bytes]:
    return [Int64.encode(number) for number in range(first, end)]


def test_nearly_all_of_a_hundred_thousand_keys_are_new_the_first_time_and_none_the_second() -> None:
    added = AddedKeys()
    assert sum(map(added.add, keys(0, 100_000))) < 1_000
    assert all(map(added.add, keys(0, 100_000)))
    assert not added.is_full


def test_it_is_full_when_more_than_half_of_its_places_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.stores.added_keys._SLOTS", 16)
    added = AddedKeys()
    assert sum(map(added.add, keys(0, 1000))) >= 1000 - 16
    assert added.is_full
    assert all(map(added.add, keys(0, 1000)))


def test_keys_are_looked_up_from_when_a_table_is_filled_and_where_it_was_filled_before() -> None:
    topic = TableTopic(2)
    topic.write(0, 1, "somebody", 5)
    driver = TableDriver(topic)
    driver.read(0)
    assert driver.table.maybe_held(keys(1, 3)) == keys(1, 2), "partition 1 is still to be filled"
    driver.read(1)
    assert driver.table.maybe_held(keys(7, 9)) == keys(7, 9)
    assert driver.restarted().table.maybe_held(keys(7, 9)) == keys(7, 9)


def test_keys_are_looked_up_where_a_partition_that_comes_later_has_rows_already() -> None:
    topic = TableTopic(1)
    driver = TableDriver(topic)
    store = driver.stores.open(SENSORS.topic, 1)
    store.write(dict.fromkeys(keys(7, 8), b""), Fill("of before", 1, restored=False, current_at_ms=0, rows=1))
    assert driver.table.maybe_held(keys(7, 8)) == [], "nobody has told of it"
    driver.table.opened(store)
    assert driver.table.maybe_held(keys(7, 8)) == keys(7, 8)

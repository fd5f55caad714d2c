"""The newest row of a key counts, wherever it lies."""

import logging

import pytest

from runtime.keys import Int64
from runtime.stores.protocol import StateStore
from runtime.stores.table_rows import TableRow
from tests.drivers.tables import TableDriver, TableTopic

RETENTION_MS = 1000


def read(topic: TableTopic) -> TableDriver:
    """Return an instance that has read all of a topic."""
    driver = TableDriver(topic)
    driver.read_all()
    return driver


def keys(store: StateStore) -> list[int]:
    """Return what a store holds, deletes as well."""
    return [Int64.decode(key) for key, _ in store.scan()]


@pytest.mark.parametrize(
    ("records", "name"),
    [
        ([(0, "old", 5), (2, "new", 6)], "new"),
        ([(2, "old", 5), (0, "new", 6)], "new"),
        ([(0, "old", 5), (2, None, 6)], None),
        ([(2, None, 5), (0, "back again", 6)], "back again"),
        ([(0, "late", 5), (2, "new", 7), (0, "later, and older", 6)], "new"),
        # Compaction keeps the last of a partition, whatever its time: that is the one which counts there.
        ([(0, "first", 9), (0, "last", 5), (2, "elsewhere", 7)], "elsewhere"),
        ([(0, "first", 9), (0, "last", 5)], "last"),
        ([(0, "a", 5), (2, "b", 5), (1, "c", 5)], "b"),
        ([(0, "a", -1), (2, None, -1)], None),
        ([(0, "a", 1_700_000_000_000), (2, "in nanoseconds", 1_700_000_000_000_000_000)], "in nanoseconds"),
    ],
)
def test_the_newest_row_of_a_key_counts(records: list[tuple[int, str | None, int]], name: str | None) -> None:
    topic = TableTopic(3)
    for partition, each, time_ms in records:
        topic.write(partition, 7, each, time_ms)
    driver = read(topic)
    expected = {} if name is None else {7: name}
    assert driver.names(range(10)) == expected
    assert driver.restarted().names(range(10)) == expected
    for partition in range(3):
        topic.compact(partition)
    assert read(topic).names(range(10)) == expected


def test_a_row_that_lies_once_is_found_by_one_look() -> None:
    topic = TableTopic(3)
    for partition in range(3):
        topic.write(partition, partition, "somebody", 5)
    values = [read(topic).copies[partition].store.get(Int64.encode(partition)) or b"" for partition in range(3)]
    assert [value[0] for value in values] == [0, 0, 0]


@pytest.mark.parametrize(("name", "lines"), [("a", 0), ("b", 1)])
def test_what_cannot_be_told_apart_is_said_once(name: str, lines: int, caplog: pytest.LogCaptureFixture) -> None:
    topic = TableTopic(3)
    for row_id in (7, 8):
        topic.write(1, row_id, name, 5)
        topic.write(2, row_id, "a", 5)
    read(topic)
    said = [record for record in caplog.records if "the same time" in record.message]
    assert [record.levelno for record in said] == [logging.WARNING] * lines
    if said:
        assert "topic sensors: two last records of key 7, in partitions 1 and 2, have the same time, 5" in caplog.text


def test_a_delete_that_kafka_forgets_before_the_row_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    topic = TableTopic(3)
    for row_id in (7, 8):
        topic.write(1, row_id, "a", 5)
        topic.write(2, row_id, None, 6)
    read(topic)
    said = [record.message for record in caplog.records if "shows it again" in record.message]
    assert len(said) == 1
    assert "key 7 is deleted in partition 2, and partition 1 has an older row of it" in said[0]
    assert "Delete key 7 in partition 1 as well" in said[0]


def test_deletes_are_forgotten_when_they_hide_nothing_any_more() -> None:
    topic = TableTopic(3)
    topic.write(0, 7, "hidden", 5)
    for partition, row_id in ((1, 7), (1, 8), (2, 9)):
        topic.write(partition, row_id, None, 6)
    driver = read(topic)
    driver.now_ms = 6 + RETENTION_MS
    driver.copies[0].settle(keep_alive_ms=1)
    driver.copies[1].settle(keep_alive_ms=1)
    driver.copies[1].tidy(RETENTION_MS)
    assert set(keys(driver.copies[1].store)) == {7, 8}, "partition 2 may have an older row yet"
    driver = driver.restarted()
    driver.now_ms = 6 + RETENTION_MS
    driver.read_all()
    for copy in driver.copies:
        copy.settle(keep_alive_ms=1)
    for copy in driver.copies:
        copy.tidy(RETENTION_MS)
    assert [keys(copy.store) for copy in driver.copies] == [[7], [7], []]
    fills = [copy.fill for copy in driver.copies]
    assert [fill.uncertain for fill in fills if fill] == [1, 1, 0]
    assert driver.names(range(10)) == {}


def test_a_row_whose_mark_was_lost_with_the_power_is_marked_again() -> None:
    topic = TableTopic(3)
    topic.write(0, 7, "old", 5)
    driver = TableDriver(topic)
    driver.read(0)
    unmarked = driver.copies[0].store.get(Int64.encode(7))
    topic.write(2, 7, "new", 6)
    driver.read_all()
    store = driver.copies[0].store
    assert store.fill is not None
    store.write({Int64.encode(7): unmarked}, store.fill._replace(uncertain=0))
    driver.copies[2].tidy(RETENTION_MS)
    assert driver.names(range(10)) == {7: "new"}
    assert TableRow.decode(store.get(Int64.encode(7)) or b"").is_elsewhere

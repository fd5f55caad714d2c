"""What is served of a global table: its rows, how many there are, and why it cannot answer yet."""

from __future__ import annotations

import json

from runtime.copies.copies import Copies, names_of
from runtime.serving.views import tables_of
from runtime.stores.memory import MemoryStores
from tests.drivers.readings import SENSORS
from tests.drivers.stores import StoresDriver


async def test_rows_are_objects_with_their_key_and_deleted_ones_are_not_counted() -> None:
    driver = StoresDriver()
    view = tables_of(driver.copies)[SENSORS]
    driver.name(SENSORS, {1: "Elbe", 2: "Iller"})
    assert (view.reason(), view.lag(), await view.count()) == ("", 0, 2)
    row = view.get(2)
    assert row is not None
    assert json.loads(row.body) == {view.table.key.name: 2, "name": "Iller"}
    # Deletes are remembered for a while, and have the rows gone through.
    for deleted, count in ((1, 1), (3, 1), (2, 0)):
        driver.name(SENSORS, {deleted: None})
        assert [await view.count() for _ in range(2)] == [count, count]
    assert view.get(2) is None


def test_a_table_that_was_not_read_yet_says_so() -> None:
    topology = StoresDriver().topology
    copies = Copies(topology, MemoryStores(names_of(topology)))
    view = tables_of(copies)[SENSORS]
    assert view.reason() == f"restoring table {SENSORS}, 0 records to go"
    copies.trouble = "Kafka cannot be reached"
    assert view.reason() == "Kafka cannot be reached"

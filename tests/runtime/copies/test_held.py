"""What an instance holds of a topology: several stores, one assignment, and what each copy can answer."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from unittest.mock import Mock

import pytest

from runtime import Count, Decimal, Key, Store, Table, Text, Topology
from runtime.copies.copies import Copies, form_of_table, names_of
from runtime.copies.local_tables import LocalTables
from runtime.errors import StateUnusable
from runtime.kafka.ids import TopicDescription
from runtime.kafka.partitioner import partition_for
from runtime.keys import Int64
from runtime.results import Made, Result
from runtime.serving.in_memory import TOPIC_ID, finished
from runtime.serving.view import EVERYTHING
from runtime.stores.global_table import TableChanges
from runtime.stores.memory import MemoryStores
from tests.drivers.readings import PEAKS, PEAKS_TOPIC, SENSORS, STATIONS, readings, result
from tests.drivers.stores import CopiesDriver, StoresDriver
from topology.word_count import WORD_COUNT

COUNTS, LETTERS = "counts-store", "letters-store"
TWO_STORES = replace(
    WORD_COUNT,
    stores=[
        *WORD_COUNT.stores,
        Store(LETTERS, "letters", Key("letter", Text), {"count": Count()}, rows=lambda lines: lines),
    ],
)


def count(number: int) -> Result:
    return Result(Made(1, offsets={"lines": {"0": number}}), {"count": number})


def described(topology: Topology, partitions: int) -> dict[str, TopicDescription]:
    """Return the result topics as if each had so many partitions."""
    return {store.topic: TopicDescription(TOPIC_ID, partitions) for store in topology.stores}


def test_stores_of_a_topology_are_filled_apart_and_served_apart() -> None:
    driver = CopiesDriver(TWO_STORES)
    assert driver.copies.topic_names == ["counts", "letters"]
    told: list[str | None] = []
    driver.views[LETTERS].watch(told.append)
    driver.publish(COUNTS, "a", count(1))
    driver.publish(LETTERS, "a", count(7))
    driver.publish(LETTERS, "b", count(8))
    assert told == ["a", "b"]
    assert [view.count(driver.all_partitions) for view in driver.views.values()] == [1, 2]
    assert driver.views[COUNTS].rows(driver.all_partitions, EVERYTHING) == [("a", b'{"word":"a","count":1}')]
    rows = [(each.store, each.rows) for each in driver.copies.measure()]
    assert {name: sum(count for store, count in rows if store == name) for name in (COUNTS, LETTERS)} == {
        COUNTS: 1,
        LETTERS: 2,
    }


def test_a_task_is_a_partition_of_all_stores() -> None:
    driver = CopiesDriver(TWO_STORES)
    driver.copy(LETTERS, 2).end = 5
    assert driver.copies.partition_count == 4
    assert driver.copies.status(COUNTS, 2).caught_up
    assert driver.copies.status(LETTERS, 2).lag == 5
    task = driver.copies.task_status(2)
    assert (task.can_answer, task.caught_up, task.lag, task.reason) == (
        True,
        False,
        5,
        "partition 2 is 5 records behind",
    )
    assert driver.copies.held == {each: driver.copies.task_status(each) for each in driver.all_partitions}
    driver.copy(LETTERS, 3).begin("another topic", 0)
    assert driver.views[COUNTS].status(3).can_answer
    assert not driver.views[LETTERS].status(3).can_answer
    assert not driver.copies.held[3].can_answer
    driver.copies.drop(3)
    assert list(driver.copies.held) == [0, 1, 2]
    assert [driver.stores.kept(name) for name in (COUNTS, LETTERS)] == [[0, 1, 2]] * 2


def test_a_topology_without_tables_waits_for_none() -> None:
    driver = CopiesDriver(WORD_COUNT)
    assert driver.copies.tables_caught_up
    assert all(status.caught_up for status in driver.copies.held.values())


def test_a_store_whose_partitions_are_not_known_answers_nothing() -> None:
    stores = MemoryStores(names_of(WORD_COUNT))
    CopiesDriver(WORD_COUNT, stores=stores).publish(COUNTS, "a", count(1))
    again = Copies(WORD_COUNT, stores)
    again.open_kept()
    assert again.partition_count == 4
    assert again.status(COUNTS, 0).can_answer
    stores.save_note("topics", "{broken")
    unsure = Copies(WORD_COUNT, stores)
    unsure.open_kept()
    assert unsure.partition_count == 0
    assert not unsure.status(COUNTS, 0).can_answer, "nobody knows where a key belongs"


@pytest.mark.parametrize("note", ["[]", '{"counts": 5}', "\xff", '{"counts": [1]}'])
def test_a_note_that_cannot_be_read_is_said(note: str, caplog: pytest.LogCaptureFixture) -> None:
    stores = MemoryStores(names_of(WORD_COUNT))
    stores.save_note("topics", note)
    Copies(WORD_COUNT, stores).open_kept()
    assert "the note topics cannot be read" in caplog.text


def test_with_other_values_the_topic_is_read_again_and_the_store_goes_on_answering() -> None:
    stores = MemoryStores(names_of(readings()))
    StoresDriver(kept=2, stores=stores).station(1, result((3, 40), (1, 10)))
    home = partition_for(1, 4)
    for kept, is_read_again in ((2, False), (20, True)):
        copies = Copies(readings(kept), stores, now_ms=lambda: 0)
        copies.open_kept()
        copy = copies.results[PEAKS].copies[home]
        assert copy.restored
        assert copy.measure().rows == 1
        assert (copy.why_begin_again(TOPIC_ID, 0, 9, 1000) is not None) is is_read_again
    # What is noted now is what they are now.
    assert '"Highest(kept=20)"' in (stores.load_note("values") or "")


def test_values_of_another_form_are_dropped_and_filled_from_their_topic() -> None:
    stores = MemoryStores(names_of(WORD_COUNT))
    CopiesDriver(WORD_COUNT, stores=stores).publish(COUNTS, "a", count(1))
    Copies(WORD_COUNT, stores).open_kept()
    [store] = WORD_COUNT.stores
    renamed = replace(WORD_COUNT, stores=[replace(store, values={"number": Count("times")})])
    copies = Copies(renamed, stores)
    copies.open_kept()
    assert copies.held == {}
    copies_to_fill = finished(copies.topics_described(described(renamed, 4)))
    assert [(copy.partition, copy.fill) for copy in copies_to_fill] == [(each, None) for each in range(4)]


def test_what_belongs_elsewhere_is_dropped_when_a_topic_has_other_partitions() -> None:
    driver = CopiesDriver(TWO_STORES)
    words = [f"word {number}" for number in range(20)]
    for word in words:
        driver.publish(COUNTS, word, count(1))
    topics = described(TWO_STORES, 4) | {"counts": TopicDescription(TOPIC_ID, 2)}
    finished(driver.copies.topics_described(topics))
    view = driver.views[COUNTS]
    assert (view.partition_count, driver.copies.partition_count) == (2, 2)
    assert sorted(driver.copies.results[COUNTS].copies) == [0, 1]
    assert sorted(driver.copies.results[LETTERS].copies) == [0, 1, 2, 3]
    stay = [word for word in words if partition_for(word, 4) == partition_for(word, 2)]
    assert [key for key, _ in view.rows(range(2), EVERYTHING)] == sorted(stay)
    assert driver.stores.kept(COUNTS) == [0, 1]


def test_a_table_that_was_created_anew_holds_answers_back_until_it_is_read() -> None:
    driver = StoresDriver()
    driver.station(1, result((3, 1)))
    assert driver.copies.held[0].can_answer
    topics = described(driver.topology, 4) | {
        SENSORS: TopicDescription("another", 1),
        STATIONS: TopicDescription(TOPIC_ID, 1),
    }
    finished(driver.copies.topics_described(topics))
    driver.copies.progressed()
    assert driver.copies.status(PEAKS, 0).reason.startswith(f"restoring table {SENSORS}")
    table = driver.table(SENSORS)
    table.begin("another", 0)
    table.resume(0)
    driver.copies.progressed()
    assert driver.copies.status(PEAKS, 0).caught_up


def test_topics_that_are_missing_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    copies = Copies(readings(), MemoryStores(names_of(readings())))
    copies.assign(range(4))
    for _ in range(2):
        finished(copies.topics_described({PEAKS_TOPIC: TopicDescription(TOPIC_ID, 4)}))
    assert copies.status(PEAKS, 0).reason == f"missing topics: {SENSORS}, {STATIONS}"
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == [f"waiting for topics: {SENSORS}, {STATIONS}"]


def test_the_stream_is_given_the_rows_and_the_keys_of_tables() -> None:
    driver = StoresDriver()
    tables = LocalTables(driver.copies)
    assert tables.caught_up()
    driver.name(SENSORS, {1: "Elbe", 2: "Main"})
    driver.name(SENSORS, {2: None, 3: "Isar"})
    driver.name(STATIONS, {1: "Ulm"})
    assert dict(tables.rows(SENSORS)) == {1: {"name": "Elbe"}, 3: {"name": "Isar"}}
    assert list(tables.keys(STATIONS)) == [1]
    assert tables.changes() == TableChanges(added=4, deleted=1)
    assert [(judged.topic, judged.end) for judged in tables.judged()] == [(SENSORS, 4), (STATIONS, 1)]
    assert driver.table(SENSORS).store.get(Int64.encode(2)) is not None, "a delete that is remembered is no row"


SPARE = Table("spare-parts", Key("id", Int64), {"name": Text})


@pytest.mark.parametrize(
    ("later", "answers"),
    [
        (SPARE, True),
        (replace(SPARE, fields={"name": Text, "price": Decimal(2)}), False),
        (replace(SPARE, fields={"name": Int64}), False),
        (replace(SPARE, key=Key("id", Text)), False),
    ],
    ids=["as it was", "with another field", "with another type", "with other keys"],
)
def test_a_table_of_another_form_is_filled_anew(later: Table, answers: bool) -> None:
    topology = replace(WORD_COUNT, tables=[SPARE])
    stores = MemoryStores(names_of(topology))
    Copies(topology, stores).open_kept()
    CopiesDriver(topology, stores=stores).name(SPARE.topic, {1: "wheel"})
    again = Copies(replace(topology, tables=[later]), stores)
    again.open_kept()
    assert again.status(COUNTS, 0).can_answer is answers
    assert again.tables[SPARE.topic].is_complete is answers
    # Once: what is read from then on stays.
    assert stores.load_note("tables") == json.dumps({SPARE.topic: form_of_table(later)})


def test_a_store_with_keys_of_another_type_is_filled_anew() -> None:
    stores = MemoryStores(names_of(WORD_COUNT))
    Copies(WORD_COUNT, stores).open_kept()
    CopiesDriver(WORD_COUNT, stores=stores).publish(COUNTS, "7", count(1))
    (store,) = WORD_COUNT.stores
    copies = Copies(replace(WORD_COUNT, stores=[replace(store, key=Key("word", Int64))]), stores)
    copies.open_kept()
    assert not copies.status(COUNTS, 0).can_answer
    assert all(not list(each.store.scan()) for each in copies.results[COUNTS].copies.values())


def test_results_that_could_not_be_placed_are_placed_another_time(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = CopiesDriver(WORD_COUNT, partitions=2)
    for number in range(20):
        driver.publish(COUNTS, f"w{number}", count(1))
    held = driver.copies.results[COUNTS]
    last = held.copies[1]
    with monkeypatch.context() as patch:
        patch.setattr(last, "place", Mock(side_effect=StateUnusable("no room")))
        with pytest.raises(StateUnusable):
            held.place(8)
    assert held.partition_count == 2, "it is asked for again"
    held.place(8)
    assert held.partition_count == 8
    assert all(not copy.misplaced(8) for copy in held.copies.values())

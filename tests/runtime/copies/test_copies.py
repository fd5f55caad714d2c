"""What records do to a store: results merge, the last row counts, what cannot be used is counted."""

import itertools
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from runtime.copies import store_copy
from runtime.copies.store_copy import NO_TOPIC, why_begin_again
from runtime.errors import StateUnusable
from runtime.kafka.partitioner import partition_for
from runtime.records import MISPLACED, NO_KEY, NO_VALUE, NOT_AN_ID, NOT_JSON_OBJECT, NOT_UTF8
from runtime.results import BELOW_VERSION, NOT_A_RESULT, Made, Result, delete_headers
from runtime.serving.in_memory import TOPIC_ID, GivenRecord
from runtime.stores.protocol import Fill
from tests.drivers.readings import NOT_PEAKS, PEAKS, PEAKS_TOPIC, SENSORS, STATIONS, peaks, result
from tests.drivers.stores import (
    CopiesDriver,
    StoresDriver,
    feed,
    stations_to_publish,
    value_of,
)
from topology.word_count import WORD_COUNT

SLICE_S = store_copy.SLICE_S


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a slice take all that it is given, also on a machine that does something else meanwhile."""
    monkeypatch.setattr(store_copy, "SLICE_S", 60.0)


def fed(offset: int, key: bytes, of: Result | None) -> GivenRecord:
    """Return a record of a result, or a delete."""
    return GivenRecord(offset, key, None if of is None else value_of(of), headers=of.made.to_headers() if of else ())


def test_results_of_one_generation_merge() -> None:
    driver = StoresDriver()
    driver.station(1, result((3, 40), (1, 10)))
    driver.station(1, result((2, 20)))
    merged = driver.stored(1)
    assert merged is not None
    assert [reading.sensor_id for reading in merged.values] == [3, 2, 1]


def test_a_higher_generation_replaces_and_a_lower_one_is_ignored() -> None:
    driver = StoresDriver()
    driver.station(1, result((3, 40), generation=1))
    newer = result((1, 5), generation=2)
    driver.station(1, newer)
    driver.station(1, result((3, 90), generation=1))
    assert driver.stored(1) == newer


def test_what_is_merged_is_cut_as_the_values_say() -> None:
    driver = StoresDriver(kept=2)
    driver.station(1, result((3, 40), (1, 10)))
    driver.station(1, Result(Made(1), peaks((2, 50), first_offset=5)))
    merged = driver.stored(1)
    assert merged is not None
    assert [reading.level for reading in merged.values] == [50, 40]


def test_records_of_one_slice_are_taken_in_order() -> None:
    driver = StoresDriver(partitions=1)
    copy = driver.copy(PEAKS)
    of = [result((3, 1)), None, result((2, 7)), result((1, 9), generation=2)]
    assert copy.apply([fed(index, b"1", each) for index, each in enumerate(of)], 0) == 4
    assert driver.stored(1) == of[-1]
    assert copy.position == 4
    assert copy.measure().rows == 1


def test_a_record_that_is_the_whole_result_is_stored_as_it_came() -> None:
    driver = StoresDriver(partitions=1)
    for number, whole in enumerate([result((3, 40)), result((3, 40), (1, 10))]):
        as_it_came = value_of(whole).replace(b",", b" ,")
        driver.copy(PEAKS).apply([GivenRecord(number, b"1", as_it_came, headers=whole.made.to_headers())], 0)
        published = driver.copy(PEAKS).record(1, 0)
        assert published is not None
        assert published.value == as_it_came
        assert driver.stored(1) == whole


def test_a_record_read_again_is_not_used_again() -> None:
    driver = StoresDriver(partitions=1)
    driver.station(1, result((3, 1)))
    driver.station(1, None)
    driver.copy(PEAKS).apply([fed(0, b"1", result((3, 1)))], 0)
    assert driver.stored(1) is None


def test_whoever_follows_is_told_of_results_that_say_something_else_than_before() -> None:
    driver = StoresDriver(partitions=1)
    told: list[list[int]] = []
    listener = Mock()
    listener.rows_changed = lambda _, changes, __: told.append(list(changes))
    driver.copies.results[PEAKS].followers.listeners.append(listener)
    first, better = result((3, 40), newest_ms=1), result((3, 40), (1, 50), newest_ms=3)
    driver.station(1, first)
    driver.station(2, first)
    later = result((3, 40), newest_ms=2)
    driver.station(1, later)
    assert told == [[1], [2]]
    assert driver.stored(1) == later, "of what it is made is kept"
    slice_of = [
        fed(3, b"2", later),
        fed(4, b"1", better),
        fed(5, b"1", result((1, 50), newest_ms=4)),
        fed(6, b"2", None),
    ]
    driver.copy(PEAKS).apply(slice_of, 0)
    assert told[2:] == [[2, 1]]


def test_a_late_older_result_is_to_be_published_again() -> None:
    driver = StoresDriver(partitions=1)
    copy = driver.copy(PEAKS)
    newer = result((3, 40), (1, 10), newest_ms=5)
    older = Result(Made(1), newer.values[1:])
    driver.station(1, older)
    driver.station(1, newer)
    assert list(copy.lacking(0.0)) == []
    driver.station(1, older)
    driver.station(2, older)
    [record] = copy.lacking(0.0)
    assert (record.topic, record.partition, record.key) == (PEAKS_TOPIC, 0, b"1")
    assert record.value == value_of(newer)
    assert Made.of_headers(record.headers) == newer.made, "of what it is made is published again as well"
    assert list(copy.lacking(60.0)) == [], "it may still be followed by a whole one"
    # Until it is published, the store remembers to read the late record again.
    assert copy.fill is not None
    assert (copy.fill.position, copy.position) == (2, 4)
    driver.publish_again(record)
    assert list(copy.lacking(0.0)) == []
    assert copy.fill.position == copy.position == 5


def test_what_a_slice_lacked_that_was_not_written_moves_no_position(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = StoresDriver(partitions=1)
    copy = driver.copy(PEAKS)
    driver.station(1, result((3, 40), generation=2))
    slice_of = [fed(offset, b"%d" % (offset + 1), result((3, 7))) for offset in range(1, 6)]
    with monkeypatch.context() as patched:
        patched.setattr(copy.store, "write", Mock(side_effect=StateUnusable("the disk is full")))
        with pytest.raises(StateUnusable):
            copy.apply([*slice_of, fed(6, b"1", result((3, 90), generation=1))], 0)
    copy.rewind()
    assert copy.apply(slice_of[:2], 0) == 2
    assert copy.fill is not None
    assert (copy.fill.position, copy.position, list(copy.lacking(0.0))) == (3, 3, [])


def test_a_row_of_a_table_that_could_not_be_written_is_written_with_what_comes_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = StoresDriver()
    driver.name(SENSORS, {1: "before"})
    copy = driver.table(SENSORS)
    with monkeypatch.context() as patched:
        patched.setattr(copy.store, "write", Mock(side_effect=StateUnusable("the disk is full")))
        with pytest.raises(StateUnusable):
            driver.name(SENSORS, {2: "after"})
    copy.skip_to(copy.position + 1)
    table = driver.copies.tables[SENSORS].table
    assert [table.get(sensor) for sensor in (1, 2)] == [{"name": "before"}, {"name": "after"}]


def test_a_lower_generation_behind_a_higher_one_is_to_be_published_over() -> None:
    driver = StoresDriver(partitions=1)
    driver.station(1, result((3, 40), generation=2))
    driver.station(1, result((3, 90), generation=1))
    assert stations_to_publish(driver.copy(PEAKS)) == [1]


def test_a_record_that_stands_for_what_is_merged_is_not_lacking() -> None:
    driver = StoresDriver(partitions=1, kept=2)
    copy = driver.copy(PEAKS)
    first, second, third = peaks((3, 30), (2, 20), (1, 10))
    driver.station(1, Result(Made(1), (second,)))
    driver.station(1, Result(Made(1), (first, second, third)))
    held = driver.stored(1)
    assert held is not None
    assert held.values == (first, second), "so it is not equal to the record"
    assert list(copy.lacking(0.0)) == []
    assert copy.fill is not None
    assert copy.fill.position == copy.position == 2
    driver.station(1, Result(Made(1), (second, third)))
    assert stations_to_publish(copy) == [1], "others would restore the result without the first"


@pytest.mark.parametrize(
    "late",
    [
        Result(Made(1), peaks((3, 40))),
        Result(Made(0), peaks((3, 40), (1, 10))),
        Result(Made(1, version=1), peaks((3, 40), (1, 10))),
    ],
    ids=["values", "generation", "version"],
)
def test_whatever_a_late_record_lacks_is_to_be_published_again(late: Result) -> None:
    driver = StoresDriver(partitions=1)
    whole = Result(Made(1, version=2), peaks((3, 40), (1, 10)))
    driver.station(1, whole)
    driver.station(1, late)
    [record] = driver.copy(PEAKS).lacking(0.0)
    assert record.value == value_of(whole)
    assert driver.stored(1) == whole


@pytest.mark.parametrize(
    ("headers", "stays"),
    [([], False), (delete_headers(3), False), (delete_headers(2), True), ([(BELOW_VERSION, b"x")], False)],
    ids=["of any version", "of versions before a later one", "of versions before its own", "of none that is one"],
)
def test_a_delete_of_earlier_versions_leaves_those_of_this_one(headers: list[tuple[str, bytes]], stays: bool) -> None:
    driver = StoresDriver(partitions=1)
    whole = Result(Made(1, version=2), peaks((3, 40), (1, 10)))
    driver.station(1, whole)
    feed(driver.copy(PEAKS), b"1", None, headers)
    copy = driver.copy(PEAKS)
    assert driver.stored(1) == (whole if stays else None)
    assert stations_to_publish(copy) == ([1] if stays else []), "compaction keeps the delete in place of it"
    driver.station(1, whole)
    assert stations_to_publish(copy) == []
    assert driver.stored(1) == whole


def count(number: int, **offsets: int) -> Result:
    """Return a count of events up to these offsets of partitions."""
    of_partitions = {partition.removeprefix("p"): offset for partition, offset in offsets.items()}
    return Result(Made(1, offsets={"lines": of_partitions}), {"count": number})


def test_a_count_replaces_what_it_covers_and_never_goes_back() -> None:
    driver = CopiesDriver(WORD_COUNT, partitions=1)
    copy = driver.copy("counts-store")

    def held() -> bytes:
        record = copy.record("hello", 0)
        assert record is not None
        assert record.value is not None
        return record.value

    driver.publish("counts-store", "hello", count(5, p0=4, p1=7))
    driver.publish("counts-store", "hello", count(4, p0=3, p1=7))
    assert held() == b'{"count":5}'
    assert [record.key for record in copy.lacking(0.0)] == [b"hello"], "compaction would keep the lower one"
    driver.publish("counts-store", "hello", count(6, p0=3, p1=9))
    assert held() == b'{"count":5}', "neither counts all that the other does"
    driver.publish("counts-store", "hello", count(7, p0=4, p1=9))
    assert held() == b'{"count":7}'
    assert list(copy.lacking(0.0)) == []
    driver.publish("counts-store", "hello", count(7, p0=4, p1=9))
    assert copy.fill is not None
    assert (copy.fill.position, copy.fill.rows) == (5, 1)


BEYOND_A_DOUBLE = b'{"readings":[[1e999,0,1e999]]}'


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, b"{}", NOT_AN_ID),
        (b"01", b"{}", NOT_AN_ID),
        (b"1.0", b"{}", NOT_AN_ID),
        (b"\xff", b"{}", NOT_AN_ID),
        (b"9223372036854775808", b"{}", NOT_AN_ID),
        (b"1", b"", NO_VALUE),
        (b"1", b"[]", NOT_JSON_OBJECT),
        (b"1", b"null", NOT_JSON_OBJECT),
        (b"1", b"{", NOT_JSON_OBJECT),
        (b"1", b"[" * 100_000, NOT_JSON_OBJECT),
        (b"1", BEYOND_A_DOUBLE, NOT_PEAKS),
        (b"1", b'{"readings":[[NaN,0,1]]}', NOT_JSON_OBJECT),
        (b"1", b'{"readings":[[1,0]]}', NOT_PEAKS),
        (b"1", b'{"readings":[[1,0,1]]}', NOT_A_RESULT),
    ],
)
def test_a_record_that_cannot_be_used_is_counted_and_passed(key: bytes | None, value: bytes, reason: str) -> None:
    driver = StoresDriver(partitions=1)
    driver.feed(key, value)
    assert driver.unusable == {(PEAKS_TOPIC, reason): 1}
    assert driver.copy(PEAKS).position == 1


@pytest.mark.parametrize(
    ("name", "header", "reason"),
    [
        ("generation", b"{", NOT_A_RESULT),
        ("generation", b"null", NOT_A_RESULT),
        ("version", b"\xff", NOT_A_RESULT),
        ("offsets", b"[1]", NOT_A_RESULT),
    ],
)
def test_a_record_whose_headers_cannot_be_is_counted_and_passed(name: str, header: bytes, reason: str) -> None:
    driver = StoresDriver(partitions=1)
    headers = {"generation": b"1", name: header}
    feed(driver.copy(PEAKS), b"1", value_of(result((3, 1))), headers.items())
    assert driver.unusable == {(PEAKS_TOPIC, reason): 1}


@pytest.mark.parametrize(("key", "reason"), [(None, NO_KEY), (b"", NO_KEY), (b"\xff", NOT_UTF8), (b"a\xff", NOT_UTF8)])
def test_a_text_that_is_no_key_is_counted_and_passed(key: bytes | None, reason: str) -> None:
    driver = CopiesDriver(WORD_COUNT, partitions=1)
    feed(driver.copy("counts-store"), key, b'{"count":1}', count(1, p0=0).made.to_headers())
    assert driver.unusable == {("counts", reason): 1}
    assert driver.copy("counts-store").measure().rows == 0


def test_a_result_whose_key_got_a_record_that_cannot_be_used_is_to_be_published_over_it() -> None:
    driver = StoresDriver(partitions=1)
    copy = driver.copy(PEAKS)
    whole = result((3, 40))
    driver.station(1, whole)
    for key in (b"1", b"2", b"01"):
        driver.feed(key, b'{"level": 9}')
    assert driver.stored(1) == whole
    assert stations_to_publish(copy) == [1], "compaction keeps the last record of a key"
    assert copy.fill is not None
    assert (copy.fill.position, copy.position) == (1, 4)
    driver.station(1, whole)
    assert list(copy.lacking(0.0)) == []


def test_a_result_in_the_wrong_partition_is_not_used() -> None:
    driver = StoresDriver(partitions=4)
    driver.publish(PEAKS, 1, result((3, 1)), (partition_for(1, 4) + 1) % 4)
    assert driver.unusable == {(PEAKS_TOPIC, MISPLACED): 1}
    assert driver.get(1) is None


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, b'{"id":1,"name":"x"}', NO_KEY),
        (b"1", b'{"id":2,"name":"x"}', "id is missing or not the key"),
        (b"1", b'{"name":"x"}', "id is missing or not the key"),
        (b"1", b'{"id":1,"name":"\\ud800"}', "name is missing or no text"),
        (b"1", b"5", NOT_JSON_OBJECT),
        (b"1", b'{"id":1}', "name is missing or no text"),
    ],
)
def test_a_table_record_that_cannot_be_used_is_counted_and_passed(key: bytes | None, value: bytes, reason: str) -> None:
    driver = StoresDriver()
    feed(driver.table(SENSORS), key, value)
    assert driver.unusable == {(SENSORS, reason): 1}
    assert list(driver.table(SENSORS).store.scan()) == []


def test_changes_of_a_table_are_counted() -> None:
    driver = StoresDriver()
    sensors = driver.table(SENSORS)
    driver.name(SENSORS, {1: "Elbe", 2: "Main"})
    driver.name(SENSORS, {1: "Eger", 2: None, 3: None})
    assert (sensors.added, sensors.deleted) == (2, 1)


def test_heavy_records_are_taken_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    # A clock of its own, by which a record takes half a millisecond, on whatever machine.
    clock = SimpleNamespace(monotonic=itertools.count(0, 0.0005).__next__)
    monkeypatch.setattr(store_copy, "time", clock)
    monkeypatch.setattr(store_copy, "SLICE_S", SLICE_S)
    driver = StoresDriver(partitions=1)
    of = result(*((sensor, 1000 - sensor) for sensor in range(20)))
    done = driver.copy(PEAKS).apply([fed(offset, str(offset).encode(), of) for offset in range(500)], 0)
    assert 0 < done < 500
    assert driver.copy(PEAKS).fill == Fill(TOPIC_ID, done, restored=True, current_at_ms=0, rows=done)
    assert driver.stored(done - 1) == of
    assert driver.stored(done) is None


DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("fill", "now_ms", "begins_again"),
    [
        (None, 0, True),
        (Fill("a", 5, True, 0), 0, False),
        (Fill("b", 5, True, 0), 0, True),
        (Fill("a", 3, True, 0), 0, False),
        (Fill("a", 2, True, 0), 0, True),
        (Fill("a", 9, True, 0), 0, False),
        (Fill("a", 10, True, 0), 0, True),
        (Fill("a", 5, True, 0), DAY_MS, False),
        (Fill("a", 5, True, 0), DAY_MS + 1, True),
        (Fill("a", 9, True, 0), DAY_MS + 1, False),
    ],
)
def test_a_store_goes_on_where_it_can(fill: Fill | None, now_ms: int, begins_again: bool) -> None:
    again = why_begin_again(fill, "a", begin=3, end=9, now_ms=now_ms, delete_retention_ms=DAY_MS)
    assert (again is not None) is begins_again


@pytest.mark.parametrize(
    ("fill", "lost"),
    [
        (None, False),
        (Fill("b", 5, True, 0), True),
        (Fill("b", 5, False, 0), False),
        (Fill("a", 10, True, 0), True),
        (Fill("a", 5, True, -2 * DAY_MS), False),
        (Fill(NO_TOPIC, 5, True, 0), True),
        (Fill(NO_TOPIC, 5, False, 0), False),
        # What was deleted meanwhile must not come back from it.
        (Fill(NO_TOPIC, 5, True, -2 * DAY_MS), False),
    ],
)
def test_a_topic_that_lost_records_is_told_from_a_store_that_did(fill: Fill | None, *, lost: bool) -> None:
    again = why_begin_again(fill, "a", begin=3, end=9, now_ms=0, delete_retention_ms=DAY_MS)
    assert again is not None
    assert again.topic_lost_records is lost


def test_results_that_their_topic_has_lost_are_kept_and_published_again() -> None:
    driver = StoresDriver(partitions=2)
    stations = [station for station in range(20) if partition_for(station, 2) == 0]
    for station in stations:
        driver.station(station, result((1, station)))
    copy = driver.copy(PEAKS)
    elsewhere = copy.misplaced(4)
    copy.place(4)
    copy.begin_after_loss("another", 0)
    copy.resume(0)
    assert elsewhere
    assert set(elsewhere) == {station for station in stations if partition_for(station, 4) != 0}
    here = [station for station in stations if partition_for(station, 4) == 0]
    assert stations_to_publish(copy) == here
    assert [key for key in range(20) if driver.held(copy, key) is not None] == here
    # Before the topic's first record, until all of them are back.
    assert copy.fill == Fill("another", -1, restored=True, current_at_ms=0, rows=len(here))
    for record in list(copy.lacking(0.0)):
        driver.publish_again(record)
    assert list(copy.lacking(0.0)) == []
    assert copy.fill is not None
    assert copy.fill.position == len(here)


def test_results_to_publish_again_are_not_forgotten_when_the_filling_is_interrupted() -> None:
    driver = StoresDriver(partitions=1)
    for station in (1, 2, 3):
        driver.station(station, result((1, station)))
    copy = driver.copy(PEAKS)
    copy.begin_after_loss("another", 0)
    copy.rewind()
    copy.resume(0)
    assert stations_to_publish(copy) == [1, 2, 3]
    copy.begin("a third", 0)
    assert list(copy.lacking(0.0)) == []


def test_results_to_publish_again_are_not_forgotten_when_the_process_ends() -> None:
    driver = StoresDriver(partitions=1)
    for station in (1, 2):
        driver.station(station, result((1, station)))
    copy = driver.copy(PEAKS)

    def begins_again() -> bool:
        """Whether another process, which has nothing but the store, publishes all of its results again."""
        again = why_begin_again(copy.fill, "another", begin=0, end=9, now_ms=0, delete_retention_ms=DAY_MS)
        return again is not None and again.topic_lost_records

    copy.begin_after_loss("another", 0)
    copy.resume(0)
    first, second = copy.lacking(0.0)
    assert begins_again()
    driver.publish_again(first)
    assert begins_again()
    driver.publish_again(second)
    assert not begins_again()


def test_a_kept_result_gives_way_to_one_of_a_later_generation() -> None:
    driver = StoresDriver(partitions=1)
    driver.name(SENSORS, {1: "Elbe"})
    driver.name(STATIONS, {7: "Dresden"})
    driver.station(7, result((1, 90)))
    driver.copy(PEAKS).begin_after_loss("another", 0)
    assert driver.get(7) == [("Elbe", 90.0)]
    driver.station(7, result((1, 95), generation=2))
    assert driver.get(7) == [("Elbe", 95.0)]
    assert list(driver.copy(PEAKS).lacking(0.0)) == []


def test_a_result_that_is_to_be_published_again_and_belongs_elsewhere_holds_nothing_back() -> None:
    driver = StoresDriver(partitions=1)
    copy = driver.copy(PEAKS)
    moves = next(station for station in range(20) if partition_for(station, 4) != 0)
    whole = result((3, 40), (1, 10))
    driver.station(moves, whole)
    driver.station(moves, Result(Made(1), whole.values[1:]))
    assert copy.fill is not None
    assert copy.fill.position < copy.position
    copy.place(4)
    assert driver.stored(moves) is None
    assert list(copy.lacking(0.0)) == []
    assert copy.fill.position == copy.position
    assert copy.fill.rows == 0


@pytest.mark.parametrize(
    ("copy_ms", "tables_ms", "is_current"), [(0, 0, True), (900, 900, True), (1100, 0, False), (0, 1100, False)]
)
def test_a_copy_is_current_when_it_and_all_tables_have_what_there_was_a_second_ago(
    copy_ms: int, tables_ms: int, *, is_current: bool
) -> None:
    driver = StoresDriver(partitions=1)
    driver.now_ms = 1_000_000
    driver.copy(PEAKS).current_at_ms = driver.now_ms - copy_ms
    for topic in driver.copies.tables:
        driver.table(topic).current_at_ms = driver.now_ms - tables_ms
    driver.copies.progressed()
    assert driver.copies.status(PEAKS, 0).is_current == is_current


def test_a_copy_that_begins_again_is_not_current() -> None:
    driver = StoresDriver(partitions=1)
    copy = driver.copy(PEAKS)
    copy.current_at_ms = 1_000_000
    copy.rewind()
    assert copy.current_at_ms == 0

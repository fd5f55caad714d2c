"""Orders that are made while rows and tables change, those that are refused until then, and what takes how much."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from runtime.errors import StateUnusable
from runtime.keys import KeyPair
from runtime.ordered_bytes import falling_double, rising_integer
from runtime.serving.orders import Making, sort_key
from runtime.serving.view import NotMade
from runtime.stores.memory import MemoryStore
from tests.drivers.laps import CIRCUITS, DRIVERS, READ_BACK, Laps

CIRCUIT = 1
SEED = 20261127
MANY = 8

Change = Callable[[Laps], None]


def go_and_come(laps: Laps, driver: int) -> None:
    for name in (None, "again"):
        laps.name(DRIVERS, driver, name)


CHANGES: dict[str, Change] = {
    "a lap is faster": lambda laps: laps.drive(CIRCUIT, 6, 0),
    "a lap is taken away": lambda laps: laps.drive(CIRCUIT, 3, None),
    "a driver has a first lap": lambda laps: laps.drive(CIRCUIT, 20, 3),
    "a driver is gone": lambda laps: laps.name(DRIVERS, 2, None),
    "a driver is there": lambda laps: laps.name(DRIVERS, 30, "late"),
    "a driver is renamed": lambda laps: laps.name(DRIVERS, 4, "renamed"),
    "a driver is gone and there again": lambda laps: go_and_come(laps, 5),
    "a circuit before it has laps": lambda laps: laps.drive(0, 1, 1),
    "a circuit behind it has laps": lambda laps: laps.drive(2, 1, 1),
}


def many_laps(at_a_time: int = 1) -> Laps:
    """Return a circuit with many laps, whose order is in the background's care; so many are read together."""
    laps = Laps(partitions=1, at_a_time=at_a_time)
    for circuit in range(3):
        laps.name(CIRCUITS, circuit, f"circuit {circuit}")
    for driver in (*range(MANY), 20):
        laps.name(DRIVERS, driver, f"driver {driver}")
    for driver in (*range(MANY), 30):
        laps.drive(CIRCUIT, driver, driver // 2 + 1)
    return laps


@pytest.fixture
def laps() -> Laps:
    """See `many_laps`."""
    return many_laps()


def steps_of(laps: Laps) -> Iterator[None]:
    """Make the orders; yield whenever others would have their turn."""
    return turns_of(laps.ranked.warm_up())


def turns_of(work: Coroutine[Any, Any, None]) -> Iterator[None]:
    """Yield after each step of some work."""
    while True:
        try:
            work.send(None)
        except StopIteration:
            return
        yield


def shown(laps: Laps, circuit: int) -> list[dict[str, Any]]:
    page = laps.ranked.page(circuit, 100)
    return [] if page is None else json.loads(page.rows)


@pytest.mark.parametrize("at_a_time", [1, 3])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changes_while_an_order_is_made_is_in_it_whenever_it_comes(change: Change, at_a_time: int) -> None:
    many = sum(1 for _ in steps_of(many_laps(at_a_time)))
    assert many > MANY / at_a_time
    for before in range(many):
        laps = many_laps(at_a_time)
        for step, _ in enumerate(steps_of(laps)):
            if step == before:
                change(laps)
        for circuit in range(3):
            assert shown(laps, circuit) == laps.expected(circuit), f"changed after step {before}"


def come_anew(laps: Laps) -> None:
    laps.ranked.partition_reset(0)
    laps.ranked.partition_ready(0)


STRUCK_TIME = 3
STRUCK_DRIVER = 5
STRUCK = (f"time/{STRUCK_TIME}", f"driver/{STRUCK_DRIVER}")

CHANGES_OF_WHAT_COUNTS: dict[str, Change] = {
    "a lap takes as long as those that are struck": lambda laps: laps.drive(CIRCUIT, 0, STRUCK_TIME, generation=2),
    "a lap takes as long no more": lambda laps: laps.drive(CIRCUIT, 4, 1),
    "a driver who is struck has a first lap": lambda laps: laps.drive(0, STRUCK_DRIVER, 2),
    "a lap is taken away": lambda laps: laps.drive(CIRCUIT, 4, None),
    "others are struck": lambda laps: laps.strike("time/2"),
    "another driver is struck": lambda laps: laps.strike("driver/7"),
    "what is struck counts again": lambda laps: laps.strike(f"time/{STRUCK_TIME}", struck=False),
    "a driver is there": lambda laps: laps.name(DRIVERS, 30, "late"),
    "the partition comes anew": come_anew,
}


@pytest.mark.parametrize("change", CHANGES_OF_WHAT_COUNTS.values(), ids=CHANGES_OF_WHAT_COUNTS)
def test_what_changes_while_laps_are_looked_for_that_are_struck_stands_by_what_counts_whenever_it_comes(
    change: Change,
) -> None:
    many = sum(1 for _ in searching(struck_laps()))
    assert many > MANY
    for before in range(many):
        laps = struck_laps()
        for step, _ in enumerate(searching(laps)):
            if step == before:
                change(laps)
            # All stand by what counted before until all have been found: no rank is told of a part.
            assert laps.ranked.counting in (frozenset(), frozenset(STRUCK), laps.struck)
        for _ in steps_of(laps):
            pass
        for circuit in range(3):
            assert shown(laps, circuit) == laps.expected(circuit), f"changed after step {before}"


def struck_laps() -> Laps:
    """Return laps in their order, some of which have just been struck."""
    laps = many_laps()
    for _ in steps_of(laps):
        pass
    before = shown(laps, CIRCUIT)
    for what in STRUCK:
        laps.strike(what)
    assert shown(laps, CIRCUIT) == before == laps.expected(CIRCUIT, frozenset())
    return laps


def searching(laps: Laps) -> Iterator[None]:
    """Look for laps that are struck; yield whenever others would have their turn."""
    return turns_of(laps.ranked.search())


def test_laps_are_looked_for_again_where_their_store_could_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    laps = struck_laps()

    def fail(*_: Any, **__: Any) -> Iterator[tuple[bytes, bytes]]:
        raise StateUnusable("the disk is gone")

    with monkeypatch.context() as broken:
        broken.setattr(MemoryStore, "scan", fail)
        with pytest.raises(StateUnusable):
            list(searching(laps))
    assert shown(laps, CIRCUIT) == laps.expected(CIRCUIT, frozenset())
    list(searching(laps))
    assert shown(laps, CIRCUIT) == laps.expected(CIRCUIT)


def test_laps_are_looked_for_again_where_their_store_could_not_be_read_once_all_were_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads = 0

    def failing_at(last: int) -> Callable[..., bytes | None]:
        get = MemoryStore.get

        def fail(*arguments: Any) -> bytes | None:
            nonlocal reads
            reads += 1
            if reads == last:
                raise StateUnusable("the disk is gone")
            return get(*arguments)

        return fail

    for last in range(1, 1_000):
        laps, reads = struck_laps(), 0
        with monkeypatch.context() as broken:
            broken.setattr(MemoryStore, "get", failing_at(last))
            with suppress(StateUnusable):
                list(searching(laps))
        list(searching(laps))
        assert shown(laps, CIRCUIT) == laps.expected(CIRCUIT)
        if reads < last:
            return
    raise AssertionError("there is no end of reads")


def test_a_long_order_is_refused_until_it_is_made_and_a_short_one_is_made_by_who_reads_it(laps: Laps) -> None:
    laps.drive(0, 1, 5)
    assert "is yet to be made" in laps.ranked.why_not_made(CIRCUIT)
    with pytest.raises(NotMade):
        laps.ranked.get(KeyPair(CIRCUIT, 1))
    assert shown(laps, 0) == laps.expected(0)
    for _ in steps_of(laps):
        assert shown(laps, 0) == laps.expected(0)
    assert not laps.ranked.why_not_made(CIRCUIT)
    assert shown(laps, CIRCUIT) == laps.expected(CIRCUIT)


def test_a_long_order_is_read_once_to_know_that_it_is_one(laps: Laps, monkeypatch: pytest.MonkeyPatch) -> None:
    scans = 0
    scan = MemoryStore.scan

    def counted(*arguments: Any, **others: Any) -> Iterator[tuple[bytes, bytes]]:
        nonlocal scans
        scans += 1
        return scan(*arguments, **others)

    monkeypatch.setattr(MemoryStore, "scan", counted)
    for _ in range(3):
        assert "is yet to be made" in laps.ranked.why_not_made(CIRCUIT)
    assert scans == 1
    for _ in steps_of(laps):
        pass
    assert shown(laps, CIRCUIT) == laps.expected(CIRCUIT)


def test_what_is_not_there_yet_is_refused() -> None:
    laps = Laps(partitions=1)
    laps.name(CIRCUITS, CIRCUIT, "there")
    laps.ranked.partition_reset(0)
    with pytest.raises(NotMade):
        laps.ranked.page(CIRCUIT, 1)


def test_nobody_is_seen_twice_while_laps_change_under_a_page(laps: Laps) -> None:
    for _ in steps_of(laps):
        pass
    page = laps.ranked.page(CIRCUIT, 3)
    assert page is not None
    assert page.last is not None
    seen = [lap["driver"] for lap in json.loads(page.rows)]
    # The last one of the page is gone, one of the page falls behind it, one of those to come passes it.
    laps.name(DRIVERS, seen[-1], None)
    laps.drive(CIRCUIT, seen[0], None)
    laps.drive(CIRCUIT, 7, 0)
    rest = laps.ranked.page(CIRCUIT, 100, page.last)
    assert rest is not None
    # Whoever did not move is there once.
    assert [lap["driver"] for lap in json.loads(rest.rows)] == list(range(3, 7))


def test_laps_are_read_back_from_their_places_and_those_from_the_store_whose_rests_are_too_many_to_be_counted() -> None:
    laps = Laps(partitions=1, at_a_time=7, read_back=READ_BACK)
    laps.name(CIRCUITS, CIRCUIT, "there")
    many = 300
    for driver in range(many):
        laps.name(DRIVERS, driver, f"driver {driver}")
        laps.drive(CIRCUIT, driver, 2 * many - driver)
    for _ in steps_of(laps):
        pass
    for driver in range(0, many, 3):
        laps.drive(CIRCUIT, driver, driver + 1)
    page = laps.ranked.page(CIRCUIT, many)
    assert page is not None
    assert json.loads(page.rows) == laps.expected(CIRCUIT)
    for lap in laps.expected(CIRCUIT):
        found = laps.ranked.get(KeyPair(CIRCUIT, lap["driver"]))
        assert found is not None
        assert json.loads(found.body) == lap


def test_a_page_goes_on_at_an_instance_that_counts_the_rests_of_rows_in_another_order() -> None:
    each = []
    for times in ((1, 2, 3, 4), (4, 3, 2, 1)):
        laps = Laps(partitions=1, read_back=READ_BACK)
        laps.name(CIRCUITS, CIRCUIT, "there")
        for ms in times:
            laps.name(DRIVERS, ms, f"driver {ms}")
            laps.drive(CIRCUIT, ms, ms)
        for _ in steps_of(laps):
            pass
        each.append(laps.ranked)
    for here, there in (each, reversed(each)):
        for size in range(1, 4):
            page = here.page(CIRCUIT, size)
            assert page is not None
            rest = there.page(CIRCUIT, 100, page.last)
            assert rest is not None
            assert [lap["driver"] for lap in json.loads(page.rows) + json.loads(rest.rows)] == [1, 2, 3, 4]


def test_watchers_are_told_of_a_row_that_may_read_differently(laps: Laps) -> None:
    told: list[Any] = []
    laps.ranked.watch(told.append)
    laps.drive(CIRCUIT, 3, 0)
    laps.name(DRIVERS, 4, "renamed")
    laps.name(CIRCUITS, 0, None)
    assert told == [KeyPair(CIRCUIT, 3), KeyPair(CIRCUIT, 4), KeyPair(0, 0)]
    assert {laps.ranked.group_of(key) for key in told} == {CIRCUIT, 0}


def test_rows_in_the_order_of_their_keys_say_where_they_stand(laps: Laps) -> None:
    from runtime.serving.view import EVERYTHING, Range

    for _ in steps_of(laps):
        pass
    every = {KeyPair(CIRCUIT, lap["driver"]): lap for lap in laps.expected(CIRCUIT)}
    found = {key: json.loads(row) for key, row in laps.ranked.rows([0], EVERYTHING)}
    assert list(found.items()) == sorted(every.items())
    few = laps.ranked.rows([0], Range(KeyPair(CIRCUIT, 2), None, 2, descending=True))
    assert [key.second for key, _ in few] == [7, 6]
    assert laps.ranked.count([0]) == laps.ranked.shown()[0] == len(every)


def test_an_order_of_many_runs_is_in_the_order_of_its_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_RUN", "_MARKED", "_APART"):
        monkeypatch.setattr(f"runtime.serving.orders.{name}", {"_RUN": 50, "_MARKED": 4, "_APART": 3}[name])
    seeded = Random(SEED)
    for many in (0, 1, 49, 50, 51, 1000):
        # Some stand where they came, as those of a topic do whose scores rise.
        keys = [sort_key(falling_double(seeded.choice([-at, seeded.randrange(many)])), at) for at in range(many)]
        *_, order = Making(1).made(keys[at : at + 7] for at in range(0, many, 7))
        assert order is not None
        assert list(order) == sorted(keys)


def test_a_key_takes_no_more_than_eighty_bytes_in_its_order() -> None:
    many = 100_000

    def keys() -> Iterator[bytes]:
        for number in range(many):
            at_ms = rising_integer(1_795_622_400_000 + number)
            place = falling_double(number * 7919 % many) + at_ms + rising_integer(3) + rising_integer(40_000_000)
            yield sort_key(place, number)

    gc.collect()
    tracemalloc.start()
    *_, order = Making(1).made([[*keys()]])
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert order is not None
    assert len(order) == many
    assert taken / many <= 80


def test_a_circuit_of_unknown_drivers_is_there_with_the_first_that_comes(laps: Laps) -> None:
    laps.drive(2, 40, 1)
    for _ in steps_of(laps):
        pass
    assert shown(laps, 2) == []
    laps.name(DRIVERS, 40, "known by now")
    assert shown(laps, 2) == laps.expected(2)
    assert laps.ranked.count_of(2) == 1

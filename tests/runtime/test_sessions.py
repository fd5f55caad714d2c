"""Sessions on plain frames: as those of all events in plain Python, in whatever steps the events come."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from runtime import Count, Key, Latest, PlainText, Session, Store, Stream, Text, Topology
from runtime.declaration import DeclarationError
from runtime.results import Made, Result, merge, stands_for
from runtime.serving.in_memory import GivenRecord, InMemory
from runtime.spark.results import written
from runtime.spark.session import Spark
from runtime.testing import TopologyDriver
from runtime.testing.frames import EPOCH, EPOCH_MS, Record, StoreOnFrames
from runtime.windows import WindowKey, ms_of, time_text
from tests.drivers.paced_topologies import GAP_MS, SESSION, Event, ended, sessions, sessions_of

TOPOLOGY = sessions("tried")
STORE = TOPOLOGY.stores[0]
LINES = TOPOLOGY.events.topic


def records(events: Iterable[Event]) -> list[Record]:
    """Return events as records of one partition."""
    return [Record(each.key.encode(), 0, offset, each.at_ms) for offset, each in enumerate(events)]


def shown(found: Mapping[WindowKey, tuple[int, int]]) -> list[dict[str, Any]]:
    """Return sessions as they are served."""
    return [
        {"text": key, "windowStart": _time(start), "windowEnd": _time(end), "count": count}
        for (key, start), (end, count) in sorted(found.items())
    ]


def _time(at_ms: int) -> str:
    return time_text(EPOCH_MS + at_ms)


def some_events(chance: random.Random, count: int) -> list[Event]:
    """Return events whose distances are about the gap, some of them exactly that."""
    at_ms, events = 0, []
    for _ in range(count):
        at_ms += chance.choice([0, 1, 5_000, GAP_MS - 1, GAP_MS, GAP_MS + 1, 2 * GAP_MS])
        events.append(Event(chance.choice("ab"), at_ms))
    return events


@pytest.mark.parametrize("seed", range(3))
def test_all_sessions_are_found_whatever_the_order_of_the_events(spark: Spark, seed: int) -> None:
    chance = random.Random(seed)
    events = some_events(chance, 60)
    shuffled = chance.sample(events, len(events))
    found = StoreOnFrames(spark.session, TOPOLOGY).results(records(shuffled))
    assert {
        WindowKey(key.key, key.start_ms - EPOCH_MS): (ms_of(each.values["windowEnd"]) - EPOCH_MS, each.values["count"])
        for key, each in found.items()
    } == sessions_of(events)


@pytest.mark.parametrize(("apart_ms", "count"), [(GAP_MS - 1, 1), (GAP_MS, 1), (GAP_MS + 1, 2)])
def test_events_as_far_apart_as_the_gap_are_in_one_session(spark: Spark, apart_ms: int, count: int) -> None:
    found = StoreOnFrames(spark.session, TOPOLOGY).results(records([Event("a", 0), Event("a", apart_ms)]))
    assert len(found) == count


def test_a_session_is_written_when_stream_time_has_passed_its_end_and_grace(spark: Spark) -> None:
    end_ms = GAP_MS + SESSION.grace_ms
    for newest_ms, is_there in ((end_ms, False), (end_ms + 1, True)):
        made = StoreOnFrames(spark.session, TOPOLOGY).records(records([Event("a", 0), Event("b", newest_ms)]))
        keys = [key.decode() for key, _, _ in written(STORE, made)[0]]
        assert keys == ([f"a@{EPOCH_MS}"] if is_there else [])


@pytest.mark.parametrize("seed", range(3))
def test_the_driver_says_the_same_at_once_and_step_by_step(spark: Spark, seed: int) -> None:
    chance = random.Random(seed)
    events = some_events(chance, 24)
    # Late, and not too late.
    for place in range(1, len(events)):
        if events[place].at_ms - events[place - 1].at_ms <= SESSION.grace_ms:
            events[place - 1], events[place] = events[place], events[place - 1]
    at_once, by_step = (TopologyDriver(TOPOLOGY, spark.session) for _ in range(2))
    for number, (key, at_ms) in enumerate(events):
        for driver in (at_once, by_step):
            driver.now = EPOCH + timedelta(milliseconds=at_ms)
            driver.send(LINES, key, partition=number % 2)
        if number % 6 == 0:
            assert by_step.rows() == shown(ended(events[: number + 1]))
    assert by_step.rows() == at_once.rows() == shown(ended(events))


def test_an_event_that_comes_too_late_is_left_out(spark: Spark) -> None:
    driver = TopologyDriver(TOPOLOGY, spark.session)
    events = [Event("a", 1_000_000), Event("b", 2_000_000)]
    _send(driver, *events)
    assert driver.rows() == shown(ended(events))
    _send(driver, Event("a", 1_000_010), Event("a", 500_000))
    _send(driver, Event("b", 3_000_000))
    assert driver.rows() == shown(ended([*events, Event("b", 3_000_000)]))


def test_a_session_goes_when_stream_time_has_passed_its_end_by_what_it_is_kept_and_stays_gone(spark: Spark) -> None:
    window = Session("30 seconds", keep="1 minute")
    driver = TopologyDriver(sessions("short", window), spark.session)
    first, last = Event("a", 0), Event("b", GAP_MS + 60_000)
    _send(driver, first, last._replace(at_ms=last.at_ms - 1), topic="short-lines")
    assert [row["text"] for row in driver.rows()] == ["a"]
    _send(driver, last, topic="short-lines")
    assert driver.rows() == []
    _send(driver, Event("c", 200_000), Event("c", 250_000), topic="short-lines")
    assert [row["text"] for row in driver.rows()] == ["c"]


def _send(driver: TopologyDriver, *events: Event, topic: str = LINES) -> None:
    for key, at_ms in events:
        driver.now = EPOCH + timedelta(milliseconds=at_ms)
        driver.send(topic, key)
    driver.rows()


def test_a_new_generation_passes_over_what_is_published_and_what_had_come_too_late(spark: Spark) -> None:
    events = [Event("a", 0), Event("a", GAP_MS), Event("b", 0), Event("b", 200_000), Event("a", 190_000)]
    first = StoreOnFrames(spark.session, TOPOLOGY)
    made = list(written(STORE, first.records(records(events)))[0])
    assert [key.decode() for key, _, _ in made] == [f"a@{EPOCH_MS}", f"b@{EPOCH_MS}"]
    again = StoreOnFrames(spark.session, TOPOLOGY, generation=2, stream_ms=EPOCH_MS + 200_000)
    again.seed = again.seed_of(made)
    too_late = [Event("a", GAP_MS + 5), Event("c", 0)]
    more = [Event("a", 215_000), Event("b", 300_000)]
    found = again.results(records([*events, *too_late, *more]))
    wanted = sessions_of([*events, *more])
    assert {WindowKey(key.key, key.start_ms - EPOCH_MS) for key in found} == {
        key for key, (end, _) in wanted.items() if end > 100_000
    }
    assert found[WindowKey("a", EPOCH_MS + 190_000)].values["count"] == 2, "an open session has all of its events"


def test_a_new_generation_has_what_began_another_session_in_the_gap_of_one_that_is_published(spark: Spark) -> None:
    published = [Event("a", 95_000), Event("b", 136_000)]
    first = StoreOnFrames(spark.session, TOPOLOGY)
    made = list(written(STORE, first.records(records([*published, Event("b", 200_000)])))[0])
    made = [each for each in made if each[0].startswith(b"a@")]
    again = StoreOnFrames(spark.session, TOPOLOGY, generation=2, stream_ms=EPOCH_MS + 136_000)
    again.seed = again.seed_of(made)
    # It came in time, behind the last event of the session and before its end, when that was published.
    since = [Event("a", 120_000), Event("a", 145_000)]
    found = again.results(records([*published, *since, Event("b", 300_000)]))
    of_a = {key.start_ms - EPOCH_MS: each.values["count"] for key, each in found.items() if key.key == "a"}
    assert of_a == {120_000: 2}


def result(count: int, generation: int, end: str = "2026-11-25T09:00:00.000Z", version: int = 1) -> Result:
    return Result(Made(generation, version), {"windowEnd": end, "count": count})


def test_of_two_results_that_say_all_the_first_generations_stays_whatever_the_order() -> None:
    one, other = result(3, 1), result(4, 2)
    record = STORE.record
    for held, new in ((one, other), (other, one)):
        assert merge(record, held, new) == one
    assert stands_for(record, result(3, 2), one)
    assert not stands_for(record, other, one)
    higher = result(1, 1, version=2)
    assert merge(record, one, higher) == merge(record, higher, one) == higher


def test_a_copy_keeps_the_calendar_of_sessions_by_their_ends() -> None:
    held = InMemory(TOPOLOGY)

    def read(key: str, count: int, end_ms: int, generation: int = 1) -> None:
        values = STORE.record.to_json({"windowEnd": time_text(end_ms), "count": count})
        headers = Made(generation).to_headers()
        held.read_results(STORE.name, [GivenRecord(0, key.encode(), values, headers=headers)])

    read("a@0", 5, 100_000)
    read("b@0", 1, 30_000)
    read("b@0", 2, 31_000, generation=2)
    day_ms = 86_400_000
    assert held.let_go(STORE.name, day_ms + 29_999) == []
    assert held.let_go(STORE.name, day_ms + 30_000) == [b"b@0"]
    assert held.let_go(STORE.name, day_ms + 99_999) == []
    assert held.let_go(STORE.name, day_ms + 100_000) == [b"a@0"]
    assert held.rows(STORE.name) == []


SOURCE = Stream("some", PlainText())


def declared(pace: str = "1 second", **attributes: Any) -> Topology:
    made = {"values": {"count": Count()}, "window": SESSION, **attributes}
    return Topology("t", SOURCE, [Store("s", "s", Key("text", Text), **made)], pace=pace)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: declared(pace="real time"), r'store s has sessions.*real time: give the topology pace="1 second"'),
        (lambda: Session("soon"), r"has gap 'soon': give a length of time"),
        (lambda: Session("1 second", keep="1 second", grace="1 minute"), r"grace of 1 minute, and keeps windows for"),
        (lambda: declared(values={"windowEnd": Latest("text")}), r"has a column windowEnd, as its windows"),
        (lambda: declared(values=STORE.record), r"has sessions and .*: give its values names"),
    ],
)
def test_what_cannot_run_is_refused_when_it_is_declared(make: Any, said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        make()

"""The worked example of `docs/write-your-own-topology.md`, on plain DataFrames."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest

from runtime.errors import InvalidRecord
from runtime.spark.session import Spark
from tests.drivers.own_topology import example, match_event
from tests.drivers.topology import EPOCH_MS, records_frame

Events = Sequence[tuple[int, bytes]]
"""Milliseconds from `EPOCH`, which are the offsets as well, and values."""


@pytest.fixture(scope="module")
def page() -> ModuleType:
    return example()


def histories(spark: Spark, page: ModuleType, events: Events) -> dict[int, Any]:
    """Return the histories that the example makes of events."""
    frame = records_frame(spark.session, [(value, 0, at_ms, at_ms) for at_ms, value in events])
    made = page.last_matches(frame, generation=1).collect()
    return {int(row.key): page.History.from_json(row.value.encode()) for row in made}


def test_the_latest_matches_of_a_player_come_first(spark: Spark, page: ModuleType) -> None:
    events = [(at_ms, match_event(3, f"Game {at_ms}", won=at_ms % 2 == 0)) for at_ms in range(page.KEPT + 2)]
    history = histories(spark, page, events)[3]
    assert len(history.matches) == page.KEPT
    assert history.matches[0] == page.Match(EPOCH_MS + 11, 0, 11, "Game 11", won=False)
    assert [match.offset for match in history.matches] == list(range(11, 1, -1))


def test_what_cannot_be_used_is_no_match(spark: Spark, page: ModuleType) -> None:
    unusable = [b"", b"{", b'{"player_id": 1, "game": "Go"}', b'{"player_id": "x", "game": "Go", "won": true}']
    events = [*enumerate(unusable), (9, match_event(1, "Go", won=True))]
    assert [match.offset for match in histories(spark, page, events)[1].matches] == [9]


def test_halves_merge_to_the_whole_in_any_order_and_with_repeats(spark: Spark, page: ModuleType) -> None:
    events = [(at_ms, match_event(at_ms % 3, "Go", won=True)) for at_ms in range(40)]
    first, second = events[::2], events[1::2]
    page.check_halves(lambda some: histories(spark, page, some), first, second)


def test_a_history_is_written_as_spark_writes_it(spark: Spark, page: ModuleType) -> None:
    frame = records_frame(spark.session, [(match_event(1, 'Pok\u00e9mon "Red"/Blue', won=True), 0, 7, 7)])
    value = page.last_matches(frame, generation=2).collect()[0].value.encode()
    assert page.History.from_json(value).to_json() == value


@pytest.mark.parametrize(
    "value",
    [
        b"", b"{", b"[]", b"7", b"null", b'"text"', b"\xff", b"[" * 100_000, b"{}", b'{"generation": 1}',
        b'{"generation": 1, "matches": 7}', b'{"generation": 1, "matches": [7]}', b'{"generation": 1, "matches": [{}]}',
        b'{"generation": null, "matches": []}', b'{"generation": 1e999, "matches": []}',
        b'{"generation": 1, "matches": [{"timestamp": "x", "partition": 0, "offset": 0, "game": "Go", "won": true}]}',
        b'{"generation": 1, "matches": [{"timestamp": 1, "partition": 0, "offset": 0, "game": "\\ud800", "won": 1}]}',
    ],
)  # fmt: skip
def test_a_record_of_somebody_else_is_refused_as_such(page: ModuleType, value: bytes) -> None:
    with pytest.raises(InvalidRecord):
        page.History.from_json(value)


def test_a_record_stands_for_what_it_lacks_nothing_of(page: ModuleType) -> None:
    first, second = (page.History(1, (page.Match(at, 0, at, "Go", won=True),)) for at in (1, 2))
    both = page.merge(first, second)
    assert page.stands_for(both, page.merge(first, both))
    assert not page.stands_for(first, both)


def test_a_later_generation_replaces_and_an_earlier_one_is_ignored(page: ModuleType) -> None:
    old = page.History(1, (page.Match(1, 0, 1, "Go", won=True),))
    new = page.History(2, ())
    assert page.merge(old, new) == page.merge(new, old) == new


def test_a_history_is_served_under_the_name_of_now(page: ModuleType) -> None:
    history = page.History(1, tuple(page.Match(at, 0, at, "Go", won=True) for at in (3, 2, 1)))
    assert page.visible(history, "Isabelle", 1) == [{"playerName": "Isabelle", "game": "Go", "won": True}]
    assert page.visible(history, None, 3) == []

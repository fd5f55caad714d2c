"""Floors out of some events: a bound for every board, whatever the other events are."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runtime.kafka.offsets import TopicOffsets
from tests.drivers.periods import ms
from tests.drivers.topology import Score, TopologyDriver, numbered
from topology.leaderboard.events import plain_events
from topology.leaderboard.first_look import SeenEvents, Which
from topology.leaderboard.periods import NAMES, by_period

Event = tuple[int, int, float]
"""Product, player, score."""

SEED = 20261124
PLAYERS, PRODUCTS = (1, 2), (1, 2)
TYPES = (pa.int64(), pa.int64(), pa.float64())


def plain(values: Sequence[bytes | None], at_ms: Sequence[int] = ()) -> pa.Table:
    times = at_ms or [0] * len(values)
    return plain_events(pa.array(values, pa.binary()), pa.array(times, pa.int64()))


def floors(events: Sequence[Event], places: int = 2) -> dict[int, float]:
    names = ("product_id", "player_id", "score")
    table = pa.table(
        [pa.array(column, of) for column, of in zip(zip(*events, strict=True), TYPES, strict=True)], names=names
    )
    found = SeenEvents(table, {}).floors(["product_id"], pa.array(PLAYERS), pa.array(PRODUCTS), places).to_pylist()
    assert len({row["product_id"] for row in found}) == len(found)
    return {row["product_id"]: row["floor"] for row in found}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([(1, 1, 5.0)], {}, id="a board that they do not fill has none"),
        pytest.param([(1, 1, 5.0), (1, 2, 7.0)], {1: 5.0}, id="the last place of one that they just fill"),
        pytest.param([(1, 1, 5.0), (1, 1, 7.0), (1, 2, 6.0)], {1: 6.0}, id="a player may hold several places"),
        pytest.param([(1, 1, 5.0), (1, 2, 5.0), (1, 1, 5.0)], {1: 5.0}, id="equal scores take a place each"),
        pytest.param([(1, 1, 5.0), (1, 3, 7.0), (1, 2, 3.0)], {1: 3.0}, id="an unknown player has no place"),
        pytest.param([(3, 1, 5.0), (3, 2, 7.0)], {}, id="an unknown product has no board"),
        pytest.param(
            [(2, 1, -2.0), (1, 1, 1.0), (2, 2, -1.0), (1, 2, 0.0), (2, 1, -3.0)], {1: 0.0, 2: -2.0}, id="one a board"
        ),
    ],
)
def test_a_floor_is_the_last_place_of_a_board_that_the_known_events_fill(
    events: list[Event], expected: dict[int, float]
) -> None:
    assert floors(events) == expected


@given(
    partitions=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 999)), min_size=1, max_size=6),
    most=st.integers(1, 5_000),
    pieces=st.integers(1, 40),
)
@example(partitions=[(0, 150), (0, 170)], most=320, pieces=32)
def test_whatever_the_partitions_hold_no_event_is_looked_at_twice(
    partitions: list[tuple[int, int]], most: int, pieces: int
) -> None:
    begin, end = ({number: sum(of[:count]) for number, of in enumerate(partitions)} for count in (1, 2))
    looked_at = [*Which(most, pieces).ranges(TopicOffsets(begin, end))]
    assert len(looked_at) == pieces
    for partition, (first, records) in enumerate(partitions):
        offsets = [offset for piece in looked_at if partition in piece for offset in range(*piece[partition])]
        assert len(offsets) == len(set(offsets)) <= -(-most // (len(partitions) * pieces)) * pieces
        assert set(offsets) <= set(range(first, first + records))
        assert bool(offsets) == bool(records)


def test_no_events_have_no_floors() -> None:
    nothing = SeenEvents(plain([]), {})
    assert nothing.floors(["product_id"], pa.array(PLAYERS), pa.array(PRODUCTS), 2).num_rows == 0
    of_periods = SeenEvents(by_period(plain([]), {"day": ""}), {})
    assert of_periods.floors(["product_id", "period"], pa.array(PLAYERS), pa.array(PRODUCTS), 2).num_rows == 0


def test_each_period_has_floors_of_its_own() -> None:
    at = {
        "2026-11-22T23:59:59": 1.0,
        "2026-11-23T00:00:00": 2.0,
        "2026-11-23T23:59:59": 3.0,
        "2026-11-24T00:00:00": 4.0,
    }
    values = [b'{"score":%r,"product_id":1,"player_id":1}' % score for score in at.values()]
    seen = SeenEvents(by_period(plain(values, [ms(each) for each in at]), {"day": "", "week": "week/2026-11-23"}), {})
    found = seen.floors(["product_id", "period"], pa.array(PLAYERS), pa.array(PRODUCTS), 2)
    assert found.to_pylist() == [
        {"product_id": 1, "period": "day/2026-11-23", "floor": 2.0},
        {"product_id": 1, "period": "week/2026-11-23", "floor": 3.0},
    ]


def test_floors_of_very_many_boards_are_those_of_each() -> None:
    seeded = random.Random(SEED)
    day = ms("2026-11-01T00:00:00")
    values = [
        b'{"score":%d,"product_id":%d,"player_id":1}' % (number, seeded.randrange(900)) for number in range(60_000)
    ]
    times = [day + seeded.randrange(30 * 86_400_000) for _ in values]
    events = by_period(plain(values, times), dict.fromkeys(NAMES, ""))
    found = SeenEvents(events, {}).floors(["product_id", "period"], pa.array([1]), pa.array(range(900)), 3).to_pylist()
    of_each: dict[tuple[int, str], list[float]] = {}
    for row in events.to_pylist():
        of_each.setdefault((row["product_id"], row["period"]), []).append(row["score"])
    expected = {key: sorted(scores)[-3] for key, scores in of_each.items() if len(scores) >= 3}
    assert len(found) == len(expected)
    assert {(row["product_id"], row["period"]): row["floor"] for row in found} == expected


@pytest.mark.parametrize("newest", [5, 20, 200])
def test_floors_of_some_events_change_nothing_on_the_boards_of_all(
    driver: Callable[..., TopologyDriver], newest: int
) -> None:
    seeded = random.Random(SEED + newest)
    scores = numbered(
        Score(seeded.randrange(30), seeded.randrange(1, 5), seeded.choice((1, 1, 1, 2, 3))) for _ in range(200)
    )
    events = SeenEvents(plain([score.value for score in scores[-newest:]]), {})
    found = events.floors(["product_id"], pa.array(PLAYERS), pa.array(PRODUCTS), 4).to_pylist()
    assert found or newest == 5, "some boards have one"
    without = driver(players=PLAYERS, products=PRODUCTS).boards(scores)
    with_floors = driver(
        players=PLAYERS, products=PRODUCTS, floors={row["product_id"]: row["floor"] for row in found}
    ).boards(scores)
    assert {product: board.known for product, board in with_floors.items()} == {
        product: board.known for product, board in without.items()
    }


@pytest.mark.parametrize(
    ("begin", "expected"),
    [({0: 0, 1: 0}, True), ({0: 10, 1: 20}, True), ({0: 11, 1: 0}, False), ({0: 0, 1: 21}, False)],
)
def test_events_are_gone_when_a_partition_begins_after_the_first_of_them(begin: dict[int, int], expected: bool) -> None:
    assert SeenEvents(plain([]), {0: 10, 1: 20}).still_there(begin) is expected

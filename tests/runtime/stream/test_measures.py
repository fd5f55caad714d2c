"""Histograms, how fresh boards are, and how large stores are."""

from __future__ import annotations

from pathlib import Path

import pytest
from topology.leaderboard.records import Board, Entry

from runtime.histogram import Histogram
from runtime.stores.directory import StateDirectory
from runtime.stores.memory import MemoryStores
from runtime.stores.protocol import Fill
from runtime.stream.freshness import Freshness
from tests.drivers.stores import StoresDriver
from tests.drivers.stores import board as board_of

FILL = Fill("topic", 1, restored=True, current_at_ms=0)


def board(*timestamps_ms: int, pending: tuple[int, ...] = (), generation: int = 1) -> Board:
    """Return a board of entries with these timestamps."""
    return Board(
        generation,
        tuple(Entry(1.0, each, 0, each, 1) for each in timestamps_ms),
        tuple(Entry(1.0, each, 0, each, 2) for each in pending),
    )


@pytest.mark.parametrize(
    ("value", "counts"),
    [(-1.0, [1, 0, 0]), (1.0, [1, 0, 0]), (1.1, [0, 1, 0]), (2.0, [0, 1, 0]), (2.1, [0, 0, 1]), (1e9, [0, 0, 1])],
)
def test_a_bound_belongs_to_its_bucket(value: float, counts: list[int]) -> None:
    histogram = Histogram((1.0, 2.0))
    histogram.observe(value)
    assert (histogram.counts, histogram.total) == (counts, value)


def test_a_grown_copy_leaves_the_histogram_as_it_was() -> None:
    before = Histogram((1.0,)).plus(0.5)
    after = before.plus(3.0)
    assert (before.counts, before.total) == ([1, 0], 0.5)
    assert (after.counts, after.total) == ([1, 1], 3.5)


@pytest.mark.parametrize(
    ("old", "new", "delay_s"),
    [
        (None, board(1_000), 0.25),
        (board(400), board(400, 1_000), 0.25),
        (board(400), board(400, pending=(1_200,)), 0.05),
        (board(), board(1_000), 0.25),
        (board(1_000), board(2_000), 0.0),  # a producer's clock ahead of this one
        (board(1_000), board(500, 1_000), None),
        (board(1_000, 500), board(1_000), None),
        (board(1_000), board(1_000, generation=2), None),
        (None, board(), None),
    ],
)
def test_only_a_newer_score_event_tells_how_fresh_a_board_is(
    old: Board | None, new: Board, delay_s: float | None
) -> None:
    freshness = Freshness()
    freshness.note(old, new, now_ms=1_250)
    assert sum(freshness.delays_s.counts) == (delay_s is not None)
    assert freshness.delays_s.total == pytest.approx(delay_s or 0.0)
    assert (freshness.newest_ms is None) == (delay_s is None)


def test_the_newest_event_never_goes_back() -> None:
    freshness = Freshness()
    freshness.note(None, board(1_000), now_ms=1_000)
    freshness.note(None, board(500), now_ms=1_000)
    assert freshness.newest_ms == 1_000


def test_boards_that_bring_nothing_new_are_counted() -> None:
    freshness = Freshness()
    freshness.note(None, board(1_000), now_ms=1_000)
    freshness.note(board(1_000), board(1_000), now_ms=1_000)
    freshness.note(board(1_000), board(1_000, 2_000), now_ms=2_000)
    assert (freshness.read, freshness.unchanged) == (3, 1)


def test_a_store_on_disk_tells_its_size(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "application")
    store = directory.open("players", 0)
    empty = store.disk_bytes()
    assert empty > 0
    store.write(dict.fromkeys(range(1_000), b"x" * 100), FILL)
    assert store.disk_bytes() > empty + 10_000
    files = [path for path in (tmp_path / "application/players/0").iterdir() if path.is_file()]
    assert store.disk_bytes() == sum(path.stat().st_size for path in files)
    directory.close()


def test_a_table_counts_its_rows_through_renames_deletes_and_a_restart() -> None:
    stores = MemoryStores()
    driver = StoresDriver(stores=stores)
    changes: list[tuple[int, str | None]] = [
        (1, "a"),
        (2, "b"),
        (3, "c"),
        (1, "renamed"),
        (2, None),
        (9, None),
        (3, None),
    ]
    for player, name in [*changes, (2, "again")]:
        driver.name("players", {player: name})
    assert driver.tables["players"].measure().rows == 2
    again = StoresDriver(stores=stores)
    assert again.tables["players"].measure().rows == 2
    again.tables["players"].begin("another topic", 0)
    assert again.tables["players"].measure().rows == 0


def test_boards_are_counted_by_partition_without_those_that_are_hidden() -> None:
    driver = StoresDriver()
    driver.name("products", {1: "a game"})
    driver.name("players", {1: "a player"})
    driver.board(1, board_of((1, 5.0)))
    driver.board(2, board_of((1, 5.0)))
    partition = driver.queries.partition_for(1)
    assert driver.view.shown() == {each: int(each == partition) for each in range(4)}

"""Boards merge as sets of entries: their order, repeats and old boards do not matter; nor does who merges them."""

from __future__ import annotations

import random
from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime import results
from runtime.errors import InvalidRecord
from runtime.results import Made, Result
from runtime.spark.session import Spark
from runtime.testing.frames import TOPIC_ID
from tests.drivers.topology import BOARD_KEY, Score, TopologyDriver
from topology.leaderboard import boards as published_boards
from topology.leaderboard.places import LISTS, Board, Entry, Places, rank

KEPT = 3
PLACES = Places(KEPT)
SEED = 20261203

entries = st.builds(
    Entry,
    score=st.integers(0, 5).map(float),
    timestamp_ms=st.integers(0, 2),
    partition=st.integers(0, 1),
    offset=st.integers(0, 3),
    player_id=st.integers(1, 3),
    topic=st.sampled_from([None, "a-topic", "a-topic-2", "another"]),
)
lists = st.sets(entries, max_size=6).map(lambda chosen: tuple(sorted(chosen, key=rank)[:KEPT]))
boards = st.builds(
    Board,
    generation=st.integers(1, 2),
    known=lists,
    pending=lists,
    pending_lost=st.integers(0, 3),
    hidden=lists,
    hidden_lost=st.integers(0, 3),
    # Those of a generation are of one topic; that of the last may be of before entries had one.
    topic=st.none(),
).map(lambda board: board._replace(topic=TOPIC_ID if board.generation == 2 else None))


def result(board: Board) -> Result:
    """Return the result that a record of the last version is."""
    return results.parse(PLACES, board.to_json(), [])


def merge(old: Board | None, new: Board) -> Board:
    """Return what a store keeps of what it has and a record."""
    merged: Board = results.merge(PLACES, None if old is None else result(old), result(new)).values
    return merged


def stands_for(record: Board, merged: Board) -> bool:
    return results.stands_for(PLACES, result(record), result(merged))


def merged(sequence: list[Board]) -> Board:
    return reduce(merge, sequence[1:], merge(None, sequence[0]))


@given(st.lists(boards, min_size=1, max_size=6).flatmap(lambda all_: st.tuples(st.just(all_), st.permutations(all_))))
def test_the_order_of_boards_does_not_matter(orders: tuple[list[Board], list[Board]]) -> None:
    given_order, another_order = orders
    assert merged(given_order) == merged(another_order)


@given(st.lists(boards, min_size=1, max_size=5), st.data())
def test_repeats_do_not_matter(sequence: list[Board], data: st.DataObject) -> None:
    repeats = data.draw(st.lists(st.sampled_from(sequence), max_size=5))
    assert merged([*sequence, *repeats]) == merged(sequence)


@given(boards, boards, boards)
def test_merging_is_associative(one: Board, two: Board, three: Board) -> None:
    assert merge(merge(one, two), three) == merge(one, merge(two, three))


@given(boards, boards)
def test_a_higher_generation_replaces_and_a_lower_one_is_ignored(one: Board, two: Board) -> None:
    both = merge(one, two)
    if one.generation != two.generation:
        assert both == max(one, two, key=lambda board: board.generation)


@given(st.lists(lists, min_size=1, max_size=5))
def test_a_merged_list_is_the_best_of_all_entries(known: list[tuple[Entry, ...]]) -> None:
    board = merged([Board(1, entries_, ()) for entries_ in known])
    assert board.known == tuple(sorted({entry for entries_ in known for entry in entries_}, key=rank)[:KEPT])


@given(st.none() | boards, boards)
def test_a_record_stands_for_a_board_only_when_a_store_that_has_it_alone_answers_the_same(
    old: Board | None, record: Board
) -> None:
    whole = merge(old, record)
    if stands_for(record, whole):
        assert (record.generation, record.ranked()) == (whole.generation, whole.ranked())
    assert stands_for(whole, whole)


@given(boards)
def test_a_board_survives_its_json(board: Board) -> None:
    assert Board.from_json(board.to_json()) == board
    assert PLACES.parse(PLACES.to_json(board)) == board


@given(boards)
def test_a_board_survives_its_store(board: Board) -> None:
    kept = Result(Made(board.generation, newest_ms=5, events=3), board)
    assert results.from_stored(PLACES, results.to_stored(PLACES, kept)) == kept


# What Spark makes of boards, and of their entries, is what Python makes of them


# Many at once: a query takes longer than what it looks at.
@settings(max_examples=6)
@given(st.lists(st.lists(boards, min_size=1, max_size=4), min_size=1, max_size=30))
def test_spark_merges_published_boards_as_a_store_does(spark: Spark, of_products: list[list[Board]]) -> None:
    driver = TopologyDriver(spark.session)
    values = [(str(product), board) for product, all_ in enumerate(of_products) for board in all_]
    frame = driver.published_values([(key.encode(), board.to_json()) for key, board in values])
    all_merged = published_boards.merged(frame, BOARD_KEY)
    found = {}
    for generation in (1, 2):
        for row in published_boards.of_generation(all_merged, generation, KEPT).collect():
            known, pending, hidden = (tuple(_entry(each) for each in row[name]) for name in LISTS)
            found[row.product_id] = Board(
                generation, known, pending, row.pending_lost, hidden, row.hidden_lost, row.topic
            )
    assert found == {product: merged(all_) for product, all_ in enumerate(of_products)}


def _entry(row: tuple[float, int, int, int, int, str | None]) -> Entry:
    score, neg_timestamp, neg_partition, neg_offset, player, topic = row
    return Entry(score, -neg_timestamp, -neg_partition, -neg_offset, player, topic)


@settings(max_examples=4)
@given(st.lists(boards.map(lambda board: board._replace(generation=1, topic="older")), min_size=1, max_size=30))
def test_what_a_generation_begins_with_is_published_as_it_was(spark: Spark, all_: list[Board]) -> None:
    # As a store of another topology has it: all that is published is its seed, whatever the tables have.
    store = TopologyDriver(spark.session, depth=KEPT).store
    made = Made(1, events=4, newest_ms=7)
    records = [(str(at).encode(), board.to_json(), _headers(made)) for at, board in enumerate(all_)]
    store.seed = store.seed_of(records)
    store.generation = 2
    found = store.results([])
    # Of what was lost none counts as one that could be lost again: its event may come again.
    expected = {at: _read_from(TOPIC_ID, board)._replace(generation=2) for at, board in enumerate(all_)}
    assert {key: each.values for key, each in found.items()} == expected
    assert all(each.made == Made(2, events=4, newest_ms=7) for each in found.values())


def _read_from(topic: str, board: Board) -> Board:
    """Return the board of a generation that reads another topic and begins with this one."""
    known, pending, hidden = (
        tuple(sorted({_of_topic(topic, board, entry) for entry in each}, key=rank))
        for each in (board.known, board.pending, board.hidden)
    )
    return Board(board.generation, known, pending, hidden=hidden, topic=topic)


def _of_topic(topic: str, board: Board, entry: Entry) -> Entry:
    own = entry.topic or board.topic
    return entry._replace(topic=None if own == topic else own)


def _headers(made: Made) -> list[tuple[str, bytes | None]]:
    return [(name, value) for name, value in made.to_headers()]


@pytest.mark.parametrize("halves", [2, 5])
def test_boards_of_some_events_merge_to_the_board_of_all(spark: Spark, halves: int) -> None:
    seeded = random.Random(SEED + halves)
    scores = [
        Score(seeded.randrange(9), seeded.randrange(1, 6), at_ms=seeded.randrange(5), partition=at % 2, offset=at)
        for at in range(60)
    ]
    driver = TopologyDriver(spark.session)
    whole = driver.boards(scores)[1]
    some = [driver.boards(scores[at::halves])[1] for at in range(halves)]
    together = reduce(Places(driver.kept).merge, some)
    assert (together.known, together.pending) == (whole.known, whole.pending)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{}",
        b'{"generation": 1e999, "known": [], "pending": [], "pending_lost": 0}',
        b'{"generation": 1, "known": [{}], "pending": [], "pending_lost": 0}',
        Board(1, (Entry(float("nan"), 1, 0, 1, 1),), ()).to_json(),
        Board(1, (Entry(float("inf"), 1, 0, 1, 1),), ()).to_json(),
    ],
)
def test_bytes_that_are_no_board_are_refused(value: bytes) -> None:
    with pytest.raises(InvalidRecord):
        Board.from_json(value)


def test_an_entry_that_stands_in_both_lists_ranks_once() -> None:
    entry, other = Entry(5.0, 1, 0, 1, 1), Entry(6.0, 2, 0, 2, 2)
    assert Board(1, (entry,), (entry, other)).ranked() == [other, entry]

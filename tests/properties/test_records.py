"""Boards merge as sets of entries: their order, repeats and old boards do not matter."""

from __future__ import annotations

from functools import reduce

from hypothesis import given
from hypothesis import strategies as st
from topology.leaderboard.records import Board, Entry, merge, rank, stands_for

PLACES = 3

entries = st.builds(
    Entry,
    score=st.integers(0, 5).map(float),
    timestamp_ms=st.integers(0, 2),
    partition=st.integers(0, 1),
    offset=st.integers(0, 3),
    player_id=st.integers(1, 3),
)
lists = st.sets(entries, max_size=6).map(lambda chosen: tuple(sorted(chosen, key=rank)[:PLACES]))
boards = st.builds(Board, generation=st.integers(1, 2), known=lists, pending=lists, pending_lost=st.integers(0, 3))


def merged(sequence: list[Board]) -> Board:
    board = reduce(lambda old, new: merge(old, new, PLACES), sequence[1:], merge(None, sequence[0], PLACES))
    assert board is not None
    return board


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
    left = merge(merge(one, two, PLACES), three, PLACES)
    assert left == merge(one, merge(two, three, PLACES), PLACES)


@given(boards, boards)
def test_a_higher_generation_replaces_and_a_lower_one_is_ignored(one: Board, two: Board) -> None:
    both = merge(one, two, PLACES)
    if one.generation != two.generation:
        assert both == max(one, two, key=lambda board: board.generation)


@given(st.lists(lists, min_size=1, max_size=5))
def test_a_merged_list_is_the_best_of_all_entries(known: list[tuple[Entry, ...]]) -> None:
    board = merged([Board(1, entries_, ()) for entries_ in known])
    assert board.known == tuple(sorted({entry for entries_ in known for entry in entries_}, key=rank)[:PLACES])


@given(st.none() | boards, boards)
def test_a_record_stands_for_a_board_only_when_a_store_that_has_it_alone_answers_the_same(
    old: Board | None, record: Board
) -> None:
    whole = merge(old, record, PLACES)
    if stands_for(record, whole):
        assert (record.generation, record.ranked()) == (whole.generation, whole.ranked())
    assert stands_for(whole, whole)


@given(boards)
def test_a_board_survives_its_json(board: Board) -> None:
    assert Board.from_json(board.to_json()) == board

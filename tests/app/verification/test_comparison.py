"""What is served beside what has to be: tables of boards, what is found in them, and how it is told."""

from __future__ import annotations

import json

import pytest

from app.verification.boards.comparison import Board, Boards, Comparison, Difference, Names, Place, Served, compare
from app.verification.boards.hidden import HiddenNow
from app.verification.boards.report import SHOWN, Result

A, B, C, D = (Place(float(score), player, f"P{player}", "Game") for score, player in ((9, 1), (7, 2), (7, 3), (5, 4)))
FORGED = Place(10.0, 77, "Nobody", "Game")
NAMES = Names({place.player_id: place.player_name for place in (A, B, C, D)}, {6: "Game"})
DEPTH = 3
SHOULD_NOT = "is served, and should not be"


def served(boards: Boards, url: str = "http://one", count: int | None = None, body: bytes = b"{}") -> Served:
    return Served(url, body, boards, len(boards) if count is None else count)


def found(expected: Boards, is_served: Boards, names: Names | None = None) -> Comparison:
    return compare(expected, [served(is_served)], DEPTH, names)


def what(comparison: Comparison) -> list[tuple[int | None, str]]:
    return [(difference.product_id, difference.what) for difference in comparison.differences.values()]


@pytest.mark.parametrize(
    ("expected", "is_served", "differences"),
    [
        ({}, {}, []),
        ({6: (A, B)}, {6: (A, B)}, []),
        ({1: (A,), 6: (A, B)}, {6: (A, B), 1: (A,)}, []),
        ({6: (A, B)}, {6: (A,)}, [(6, "differs")]),
        ({6: (A, B)}, {6: (B, A)}, [(6, "differs")]),
        ({6: (B, C)}, {6: (C, B)}, [(6, "differs")]),
        ({6: (A, A)}, {6: (A,)}, [(6, "differs")]),
        ({6: (A,)}, {6: (FORGED, A)}, [(6, "differs")]),
        ({6: (A,)}, {6: (A._replace(player_name="old"),)}, [(6, "differs")]),
        ({6: (A,)}, {6: (A._replace(game_name="old"),)}, [(6, "differs")]),
        ({6: (A,)}, {}, [(6, "is not served")]),
        ({}, {6: (A,)}, [(6, SHOULD_NOT)]),
        ({1: (A,), 6: (A,)}, {1: (B,), 7: (A,)}, [(1, "differs"), (6, "is not served"), (7, SHOULD_NOT)]),
    ],
)
def test_boards_have_to_be_the_same(
    expected: Boards, is_served: Boards, differences: list[tuple[int | None, str]]
) -> None:
    comparison = found(expected, is_served)
    assert what(comparison) == differences
    assert comparison.entries == sum(map(len, expected.values()))
    assert comparison.gone == 0


@pytest.mark.parametrize(
    ("expected", "is_served", "gone"),
    [
        ((A, B), (A, B), 0),
        ((B, D), (A, B, D), 1),
        ((B,), (A, B, C), 2),
        ((C,), (B, C), 1),
        ((), (A, B), 2),
        ((B, C, D), (A, B, C), 1),
        ((B, C, D), (A, B, D), None),
        ((A, B, C), (A, A, A), 2),
        ((C, D), (A, B), None),
        ((A, D), (B, C, D), None),
        ((D,), (C, B, A), None),
        ((A, B), (B, A), None),
        ((A, B), (A,), None),
        ((A,), (), None),
        ((A,), (FORGED, A), None),
        ((B,), (A._replace(player_name="old"), B), None),
        ((B,), (A._replace(game_name="old"), B), None),
    ],
)
def test_where_events_are_gone_a_board_may_hold_more_in_the_right_order(
    expected: Board, is_served: Board, gone: int | None
) -> None:
    comparison = found({6: expected} if expected else {}, {6: is_served} if is_served else {}, NAMES)
    assert len(comparison.differences) == (gone is None)
    assert comparison.gone == (gone or 0)
    if is_served != expected:
        assert found({6: expected} if expected else {}, {6: is_served} if is_served else {}).differences


def test_a_count_that_is_not_the_number_of_boards_is_a_difference() -> None:
    comparison = compare({6: (A,)}, [served({6: (A,)}, count=2)], DEPTH, None)
    assert what(comparison) == [(None, "the count is 2, and 1 boards are served")]


def test_instances_have_to_answer_with_the_same_bytes() -> None:
    boards = {6: (A,)}
    one, two = served(boards), served(boards, "http://two")
    assert not compare(boards, [one, two], DEPTH, None).differences
    comparison = compare(boards, [one, two._replace(body=b"{ }")], DEPTH, None)
    assert [difference.url for difference in comparison.differences.values()] == ["http://two"]
    assert what(comparison) == [(None, "the answer is not the bytes that http://one answers with")]


def test_a_board_is_compared_at_each_instance() -> None:
    comparison = compare({6: (A,)}, [served({6: (A,)}), served({6: (B,)}, "http://two")], DEPTH, None)
    assert list(comparison.differences.values()) == [Difference("http://two", 6, "differs", (A,), (B,))]


def test_what_was_equal_once_is_right() -> None:
    before = found({1: (A,), 2: (A,), 3: (A,)}, {1: (B,), 2: (B,), 3: (A,)})
    now = found({1: (A,), 2: (A,), 3: (A,)}, {1: (A,), 2: (C,), 3: (B,)})
    assert what(now.still(before)) == [(2, "differs")]


def test_the_text_shows_both_sides_and_what_was_compared() -> None:
    spiteful = FORGED._replace(player_name="No\nbody")
    comparison = found({6: (A, B)}, {6: (spiteful, A)})
    lines = Result(comparison, events=7, unusable=2, lost={}).text().splitlines()
    assert lines[0] == "http://one: board 6 differs"
    assert lines[2].split() == ["≠", "1", "9.0", "1", '"P1"', '"Game"', "10.0", "77", '"No\\nbody"', '"Game"']
    assert lines[3].split() == ["≠", "2", "7.0", "2", '"P2"', '"Game"', "9.0", "1", '"P1"', '"Game"']
    assert lines[-1] == "1 board, 2 entries compared with 7 score events (2 of them unusable): 1 difference"


def test_the_text_tells_where_events_are_gone() -> None:
    result = Result(found({6: (B,)}, {6: (A, B)}, NAMES), events=1, unusable=0, lost={3: 40, 0: 12})
    assert not result.differences
    assert result.text() == (
        "1 board, 1 entry compared with 1 score event (0 of them unusable): equal\n"
        "note: score-events has lost records (partition 0 begins at 12, partition 3 begins at 40);"
        " 1 served entry is not in the topic any more"
    )


def test_the_text_shows_the_first_differences_and_the_json_all() -> None:
    result = Result(found(dict.fromkeys(range(25), (A,)), {}), events=0, unusable=0, lost={1: 5})
    assert result.differences
    assert result.text().count("is not served") == SHOWN
    assert "… and 5 more differences" in result.text()
    fields = json.loads(result.json())
    assert [difference["product_id"] for difference in fields.pop("differences")] == list(range(25))
    assert fields == {
        "equal": False,
        "boards": 25,
        "entries": 25,
        "score_events": 0,
        "unusable": 0,
        "lost_before": {"1": 5},
        "entries_not_in_the_topic": 0,
    }


def test_what_differs_in_a_period_says_so_and_is_told_apart_from_the_boards_of_all_time() -> None:
    periods = {"day 2026-11-25": found({6: (A, B)}, {6: (A,)}), "week 2026-11-23": found({6: (A,)}, {6: (A,)})}
    comparison = found({6: (A, B)}, {6: (A,)}).with_periods(periods)
    assert what(comparison) == [(6, "differs"), (6, "of day 2026-11-25 differs")]
    assert comparison.periods == 2
    assert json.loads(Result(comparison, 9, 1, {}).json())["periods"] == 2


@pytest.mark.parametrize(
    ("hidden", "differs"),
    [
        (HiddenNow({2}, set(), set()), True),
        (HiddenNow(set(), {(2, 6)}, set()), True),
        (HiddenNow({1}, {(2, 7)}, set()), False),
    ],
)
def test_no_lost_event_explains_a_place_of_a_player_who_is_hidden(hidden: HiddenNow, differs: bool) -> None:
    comparison = found({6: (A,)}, {6: (A, B)}, NAMES._replace(hidden=hidden))
    assert (what(comparison), comparison.gone) == (([(6, "differs")], 0) if differs else ([], 1))

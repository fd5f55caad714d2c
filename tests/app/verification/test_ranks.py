"""Ranks that are served are compared with those that have to be, and what lost events may have made is allowed for."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest

from app.verification.boards.comparison import Comparison
from app.verification.boards.hidden import HiddenNow
from app.verification.boards.ranks import Rank, RanksCompared, ServedRanks, compare_ranks, ranked
from app.verification.boards.report import Result

URL = "http://instance:7000"
SCORES = [9.0, 7.0, 7.0, 3.0]


def players(scores: Sequence[float], first: int = 1) -> list[Rank]:
    """Return players of these scores, best first."""
    return ranked(Rank(at, f"P{at}", score, 0, 0, 0, 0.0, f"t/0/{at}") for at, score in enumerate(scores, first))


RIGHT = players(SCORES)


def compared(served: Sequence[Rank], *, events_lost: bool = False, counted: int | None = None) -> RanksCompared:
    """Compare what is served of product 6 with `RIGHT`."""
    counts = {6: len(served) if counted is None else counted}
    answer = ServedRanks(URL, {6: served}, counts)
    return compare_ranks({6: RIGHT}, [answer], events_lost=events_lost)


def test_ranks_are_made_by_counting() -> None:
    assert [(rank.rank, rank.shared_rank, rank.of, rank.percentile) for rank in RIGHT] == [
        (1, 1, 4, 100.0),
        (2, 2, 4, 75.0),
        (3, 2, 4, 75.0),
        (4, 4, 4, 25.0),
    ]


@pytest.mark.parametrize("events_lost", [True, False])
def test_what_is_right_is_equal(events_lost: bool) -> None:
    assert compared(RIGHT, events_lost=events_lost) == RanksCompared(4, {}, 0)


WRONG: dict[str, Callable[[list[Rank]], list[Rank]]] = {
    "one is missing": lambda ranks: ranks[:-1],
    "one is missing, and the others are right without": lambda ranks: ranked(ranks[1:]),
    "two are swapped": lambda ranks: [ranks[1], ranks[0], *ranks[2:]],
    "a rank is another": lambda ranks: [ranks[0], ranks[1]._replace(rank=3), *ranks[2:]],
    "a shared rank is another": lambda ranks: [*ranks[:2], ranks[2]._replace(shared_rank=3), ranks[3]],
    "of more": lambda ranks: [rank._replace(of=5) for rank in ranks],
    "a percentile is another": lambda ranks: [*ranks[:3], ranks[3]._replace(percentile=26.0)],
    "an old name": lambda ranks: [ranks[0]._replace(player_name="old"), *ranks[1:]],
    "a lower score": lambda ranks: [*ranks[:3], ranks[3]._replace(score=2.0)],
}


@pytest.mark.parametrize("events_lost", [True, False])
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_seen(wrong: Callable[[list[Rank]], list[Rank]], events_lost: bool) -> None:
    found = compared(wrong(list(RIGHT)), events_lost=events_lost)
    assert list(found.differences) == [(URL, "ranks 6")]
    assert found.differences[URL, "ranks 6"].what.startswith("ranks of product 6: ")


ONLY_IF_LOST: dict[str, list[Rank]] = {
    "a better score": ranked([RIGHT[0]._replace(score=10.0, entry="t/0/99"), *RIGHT[1:]]),
    "one more player": ranked([*RIGHT, *players([1.0], first=50)]),
    "another record of the score": [RIGHT[0]._replace(entry="t/0/98"), *RIGHT[1:]],
}


@pytest.mark.parametrize("served", ONLY_IF_LOST.values(), ids=ONLY_IF_LOST)
def test_what_events_that_are_gone_may_have_made_is_no_difference_where_some_are(served: list[Rank]) -> None:
    assert compared(served).differences
    assert compared(served, events_lost=True) == RanksCompared(4, {}, 1)


def test_the_count_has_to_agree() -> None:
    assert "5 are counted" in compared(RIGHT, counted=5).differences[URL, "ranks 6"].what


def test_a_product_that_should_have_no_ranks_is_seen() -> None:
    answer = ServedRanks(URL, {6: RIGHT, 7: RIGHT[:1]}, {6: 4, 7: 1})
    assert list(compare_ranks({6: RIGHT}, [answer], events_lost=False).differences) == [(URL, "ranks 7")]


def test_ranks_are_in_the_report_where_they_are_kept() -> None:
    wrong = compared(RIGHT[:-1])
    boards = Comparison(2, 3, {}, 0)
    result = Result(boards.with_ranks(*wrong), 9, 1, {})
    assert result.differences == 1
    assert "ranks of product 6: 4 are expected, and 3 are served" in result.text()
    assert "2 boards, 3 entries, 4 ranks compared with 9 score events" in result.text()
    assert json.loads(result.json())["ranks"] == 4
    assert "ranks" not in json.loads(Result(boards, 9, 1, {}).json())


@pytest.mark.parametrize(
    "hidden",
    [HiddenNow({5}, set(), set()), HiddenNow(set(), {(5, 6)}, set()), HiddenNow(set(), set(), {("t", 0, 5)})],
)
def test_no_lost_event_explains_a_rank_of_what_is_hidden(hidden: HiddenNow) -> None:
    answer = ServedRanks(URL, {6: players([*SCORES, 1.0])}, {6: 5})
    assert compare_ranks({6: RIGHT}, [answer], events_lost=True) == RanksCompared(4, {}, 1)
    (difference,) = compare_ranks({6: RIGHT}, [answer], events_lost=True, hidden=hidden).differences.values()
    assert difference.what.endswith("is served, and is hidden")

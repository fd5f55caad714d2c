"""The ranks as they have to be beside the ranks as they are served: pure functions, and what they find."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from app.verification.boards.comparison import Difference
from app.verification.boards.hidden import NOTHING_HIDDEN, HiddenNow

_NEAR: Final = 0.005
"""Percentiles are served with two digits behind the point."""


class Rank(NamedTuple):
    """The place of a player on a product.

    Attributes:
        player_id: whose.
        player_name: the name of now.
        score: the best of the player.
        rank: one for each.
        shared_rank: the same for equal scores.
        of: how many have a rank.
        percentile: how many in a hundred are not better.
        entry: which record the score is.
    """

    player_id: int
    player_name: str
    score: float
    rank: int
    shared_rank: int
    of: int
    percentile: float
    entry: str


Ranks = Mapping[int, Sequence[Rank]]
"""The ranking of each product, best first."""


class ServedRanks(NamedTuple):
    """What one instance serves.

    Attributes:
        url: whom it was asked of.
        ranks: of each product that was asked for.
        counted: how many there are of each, as the instance counts them.
    """

    url: str
    ranks: Ranks
    counted: Mapping[int, int]


class RanksCompared(NamedTuple):
    """What one look has found.

    Attributes:
        ranks: how many are expected.
        differences: what differs, by what it is about; the same thing has the same key in every look.
        gone: served ranks whose score no event of the topic explains, where events are gone.
    """

    ranks: int
    differences: dict[tuple[str, str], Difference]
    gone: int


def compare_ranks(
    expected: Ranks, answers: Sequence[ServedRanks], *, events_lost: bool, hidden: HiddenNow = NOTHING_HIDDEN
) -> RanksCompared:
    """Compare what is served with what has to be.

    Args:
        expected: the ranks of the events that the topic has.
        answers: of one or more instances.
        events_lost: whether players may have better scores than those that the topic has, and further players a rank.
        hidden: who and what has no rank, whatever is lost.
    """
    differences: dict[tuple[str, str], Difference] = {}
    gone = 0
    for served in answers:
        for product_id in sorted(expected.keys() | served.ranks.keys()):
            right, found = expected.get(product_id, ()), served.ranks.get(product_id, ())
            what, unexplained = _what(right, found, events_lost=events_lost)
            if events_lost and not what:
                what = _what_is_hidden(product_id, found, hidden)
            counted = served.counted.get(product_id, 0)
            if not what and counted != len(found):
                what = f"{counted} are counted, and {len(found)} are served"
            if what:
                said = f"ranks of product {product_id}: {what}"
                differences[served.url, f"ranks {product_id}"] = Difference(served.url, None, said)
            elif served is answers[0]:
                gone += unexplained
    return RanksCompared(sum(map(len, expected.values())), differences, gone)


def _what(expected: Sequence[Rank], served: Sequence[Rank], *, events_lost: bool) -> tuple[str, int]:
    """Return what is wrong, empty when nothing is, and how many ranks no event explains."""
    if not events_lost:
        for right, found in zip(expected, served, strict=False):
            if not _same(right, found):
                return f"{_shown(right)} is expected, and {_shown(found)} is served", 0
        if len(expected) != len(served):
            return f"{len(expected)} are expected, and {len(served)} are served", 0
        return "", 0
    least = {rank.player_id: rank for rank in expected}
    if wrong := _out_of_order(served):
        return wrong, 0
    for found in served:
        wanted = least.pop(found.player_id, None)
        if wanted is not None and (found.score < wanted.score or found.player_name != wanted.player_name):
            return f"at least {_shown(wanted)} is expected, and {_shown(found)} is served", 0
    if least:
        return f"{_shown(next(iter(least.values())))} is expected, and is not served", 0
    known = {(rank.player_id, rank.entry) for rank in expected}
    return "", sum((rank.player_id, rank.entry) not in known for rank in served)


def _what_is_hidden(product_id: int, served: Sequence[Rank], hidden: HiddenNow) -> str:
    """Return what is served and hidden; empty when nothing is."""
    for found in served:
        if hidden.hides_player(found.player_id, product_id) or hidden.hides_score(found.entry):
            return f"{_shown(found)} is served, and is hidden"
    return ""


def _out_of_order(served: Sequence[Rank]) -> str:
    """Return what cannot be whatever the scores are; empty when it may be."""
    for before, after in pairwise(served):
        if before.score < after.score:
            return f"{_shown(after)} stands behind {_shown(before)}"
    for found, right in zip(served, ranked(served), strict=True):
        if not _same(found, right):
            return f"{_shown(found)} is served, and is {_shown(right)}"
    return ""


def ranked(best_first: Iterable[Rank]) -> list[Rank]:
    """Return players with their ranks, by counting; those that they come with do not matter."""
    players = list(best_first)
    found: list[Rank] = []
    shared = 1
    for number, player in enumerate(players, 1):
        if not found or found[-1].score != player.score:
            shared = number
        not_better = len(players) - shared + 1
        percentile = 100 * not_better / len(players)
        found.append(player._replace(rank=number, shared_rank=shared, of=len(players), percentile=percentile))
    return found


def _same(right: Rank, found: Rank) -> bool:
    return right._replace(percentile=0) == found._replace(percentile=0) and (
        abs(right.percentile - found.percentile) <= _NEAR
    )


def _shown(rank: Rank) -> str:
    return f"rank {rank.rank} ({rank.shared_rank}) of {rank.of}: {rank.player_id} {rank.player_name!r} {rank.score}"

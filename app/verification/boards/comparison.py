"""The boards as they have to be beside the boards as they are served: pure functions, and what they find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from app.verification.boards.hidden import NOTHING_HIDDEN, HiddenNow


class Place(NamedTuple):
    """One place on a board."""

    score: float
    player_id: int
    player_name: str
    game_name: str


Board = tuple[Place, ...]
Boards = Mapping[int, Board]
"""Boards by product id, best place first; none is empty."""


class Served(NamedTuple):
    """What one instance serves.

    Attributes:
        url: whom it was asked of.
        body: of `GET /leaderboard`, as it came.
        boards: what the body says.
        counted: what `GET /leaderboard/count` says.
    """

    url: str
    body: bytes
    boards: Boards
    counted: int


class Names(NamedTuple):
    """Players and products that exist, as far as somebody has asked: name by id; and who of them is hidden."""

    players: Mapping[int, str]
    products: Mapping[int, str]
    hidden: HiddenNow = NOTHING_HIDDEN


class Difference(NamedTuple):
    """Something that is served and should not be, or the other way round.

    Attributes:
        url: who serves it.
        product_id: whose board it is about; None when it is about the whole answer.
        what: one line.
        expected: the board as it has to be.
        served: the board as it is.
    """

    url: str
    product_id: int | None
    what: str
    expected: Board = ()
    served: Board = ()


class Comparison(NamedTuple):
    """What one look has found.

    Attributes:
        boards: how many boards are expected or served.
        entries: how many places are expected.
        differences: what differs, by what it is about; the same thing has the same key in every look.
        gone: served places, and ranks, that no event of the topic explains, where events are gone.
        ranks: how many ranks of players are expected; None where none are kept.
        periods: of how many periods the boards were compared; None where none has boards.
    """

    boards: int
    entries: int
    differences: dict[tuple[str, str], Difference]
    gone: int
    ranks: int | None = None
    periods: int | None = None

    def with_periods(self, compared: Mapping[str, Comparison]) -> Comparison:
        """Return the comparison of boards with those of periods, by what each period is called."""
        differences = dict(self.differences)
        for period, found in compared.items():
            for (url, about), difference in found.differences.items():
                what = f"of {period} {difference.what}"
                differences[url, f"{period} {about}"] = difference._replace(what=what)
        gone = self.gone + sum(found.gone for found in compared.values())
        return self._replace(differences=differences, gone=gone, periods=len(compared))

    def with_ranks(self, ranks: int, differences: dict[tuple[str, str], Difference], gone: int) -> Comparison:
        """Return the comparison of boards with that of ranks: arguments as the attributes of both."""
        return self._replace(differences=self.differences | differences, gone=self.gone + gone, ranks=ranks)

    def still(self, before: Comparison) -> Comparison:
        """Return this look without the differences that the one before did not have: what agreed once is right."""
        kept = {key: found for key, found in self.differences.items() if key in before.differences}
        return self._replace(differences=kept)


def compare(expected: Boards, answers: Sequence[Served], depth: int, names: Names | None) -> Comparison:
    """Compare what is served with what has to be.

    Args:
        expected: the boards of the events that the topic has.
        answers: of one or more instances; all have to be the same bytes.
        depth: how many places of a board were asked for.
        names: None when the topic has every event that there ever was. Else what the players and products of the served
            boards are called, and a board may have more places than those expected, of players who are not hidden.
    """
    differences: dict[tuple[str, str], Difference] = {}
    gone = 0
    for served in answers:
        for product_id in sorted(expected.keys() | served.boards.keys()):
            board, wanted = served.boards.get(product_id, ()), expected.get(product_id, ())
            surplus = _surplus(product_id, wanted, board, depth, names)
            if surplus is None:
                difference = Difference(served.url, product_id, _what(wanted, board), wanted, board)
                differences[served.url, f"board {product_id}"] = difference
            elif served is answers[0]:
                gone += surplus
        differences |= _of_whole(served, answers[0])
    every = set(expected).union(*(served.boards for served in answers))
    return Comparison(len(every), sum(map(len, expected.values())), differences, gone)


def _what(expected: Board, served: Board) -> str:
    if not served:
        return "is not served"
    return "differs" if expected else "is served, and should not be"


def _of_whole(served: Served, first: Served) -> dict[tuple[str, str], Difference]:
    """Return what is wrong with an answer as a whole."""
    found: dict[tuple[str, str], Difference] = {}
    if served.counted != len(served.boards):
        what = f"the count is {served.counted}, and {len(served.boards)} boards are served"
        found[served.url, "count"] = Difference(served.url, None, what)
    if served.body != first.body:
        what = f"the answer is not the bytes that {first.url} answers with"
        found[served.url, "bytes"] = Difference(served.url, None, what)
    return found


def _surplus(product_id: int, expected: Board, served: Board, depth: int, names: Names | None) -> int | None:
    """Return how many places of a board no event explains, 0 when it is just right, None when it is wrong.

    Where events are gone, a board may hold places that they have made. Then it is right when every other place is an
    expected one, none of those is left out except below a full board's end, and the order and the names are right.
    """
    if served == expected:
        return 0
    if names is None:
        return None
    found, surplus = 0, []
    for place in served:
        if found < len(expected) and place == expected[found]:
            found += 1
        else:
            surplus.append(place)
    left_out = expected[found:]
    right = (
        all(left.score >= right.score for left, right in pairwise(served))
        and all(_may_be_shown(product_id, place, names) for place in surplus)
        and (not left_out or (len(served) == depth and left_out[0].score <= served[-1].score))
    )
    return len(surplus) if right else None


def _may_be_shown(product_id: int, place: Place, names: Names) -> bool:
    known_as = names.players.get(place.player_id), names.products.get(product_id)
    is_hidden = names.hidden.hides_player(place.player_id, product_id)
    return not is_hidden and known_as == (place.player_name, place.game_name)

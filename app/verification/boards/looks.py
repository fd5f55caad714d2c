"""One look after the other at the same topics and boards."""

from __future__ import annotations

import logging
import time

from app.verification.boards.comparison import Comparison, Names, Served, compare
from app.verification.boards.expected import Expectation
from app.verification.boards.ranks import RanksCompared, compare_ranks
from app.verification.boards.report import Result
from app.verification.boards.served import Instances

logger = logging.getLogger(__name__)


class BoardLooks:
    """Computes the boards, and compares them with those that are served.

    Args:
        expectation: the boards as they have to be.
        instances: who serves them.
        depth: how many places of a board are compared.
        events_lost: whether boards may hold entries that `score-events` does not have, even when no offset tells of it.
    """

    def __init__(self, expectation: Expectation, instances: Instances, depth: int, *, events_lost: bool) -> None:
        self._expectation = expectation
        self._instances = instances
        self._depth = depth
        self._events_lost = events_lost

    def look(self) -> Result:
        """Read what is new, compute the boards, ask for those that are served, and compare them."""
        began_s = time.monotonic()
        self._expectation.read()
        expected = self._expectation.boards()
        logger.info("boards of %d score events computed in %.1f s", expected.events, time.monotonic() - began_s)
        answers = self._instances.ask()
        comparison = compare(expected.boards, answers, self._depth, self._names(answers))
        if names := self._instances.have_periods():
            comparison = comparison.with_periods(self._periods(names))
        if self._instances.have_ranks():
            comparison = comparison.with_ranks(*self._ranks(answers))
        return Result(comparison, expected.events, expected.unusable, dict(self._expectation.lost))

    def _periods(self, names: list[str]) -> dict[str, Comparison]:
        """Return the comparison of each period that is kept and has scores, by what it is called."""
        compared: dict[str, Comparison] = {}
        passed: set[str] = set()
        # The newest first: what comes before one that is kept no longer is not kept either.
        for (name, begin), boards in sorted(self._expectation.periods().items(), reverse=True):
            if name not in names or name in passed:
                continue
            answers = self._instances.ask_for_period(name, begin)
            if answers is None:
                passed.add(name)
            else:
                compared[f"{name} {begin}"] = compare(boards, answers, self._depth, self._names(answers))
        logger.info("boards of %d periods compared", len(compared))
        return compared

    def _ranks(self, answers: list[Served]) -> RanksCompared:
        expected = self._expectation.ranks()
        # Also of products that only some instance has a board of.
        products = set(expected).union(*(served.boards for served in answers))
        events_lost = bool(self._expectation.lost) or self._events_lost
        answers_of_ranks = self._instances.ask_for_ranks(products)
        return compare_ranks(expected, answers_of_ranks, events_lost=events_lost, hidden=self._expectation.hidden)

    def _names(self, answers: list[Served]) -> Names | None:
        """Return the names on the served boards; they are needed only where the events do not explain every place."""
        if not self._expectation.lost and not self._events_lost:
            return None
        boards = [(of, board) for served in answers for of, board in served.boards.items()]
        players = {place.player_id for _, board in boards for place in board}
        return self._expectation.names(players, {of for of, _ in boards})

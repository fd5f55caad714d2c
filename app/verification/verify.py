"""An independent check: every board computed from the topics by a plain batch job, beside what the cluster serves.

It can run beside an instance: it has a JVM of its own, works in a temporary directory and writes to no topic.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from app.java.batch_spark import batch_spark
from app.settings import Settings
from app.verification.comparison import Names, Served, compare
from app.verification.expected import Expectation
from app.verification.report import Result
from app.verification.served import Instances
from runtime.errors import Retry

DIFFERENT: Final = 3
"""The exit status for boards that differ: 1 and 2 say that they could not be compared."""

_PAUSE_S: Final = 1.0

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Check(NamedTuple):
    """What to compare.

    Args:
        urls: of the instances to ask, `http://host:port`.
        within_s: how long boards may take to become equal, and how long to try when something does not answer.
        scores_lost: whether boards may hold entries that `score-events` does not have, even when no offset tells of it.
    """

    urls: tuple[str, ...]
    within_s: float
    scores_lost: bool = False


def verify(settings: Settings, check: Check) -> Result:
    """Compute every board and compare it with what is served; what differs is looked at again for a while.

    Raises:
        Retry: Kafka or an instance did not answer in time.
        SetupError: something must be put right before the boards can be compared.
    """
    token = next(iter(settings.tokens.api), "")
    deadline_s = time.monotonic() + check.within_s
    with Instances(check.urls, settings.depth, token) as instances:
        # Before Spark is started for nothing.
        _retried(instances.ask, deadline_s)
        with batch_spark(settings, "leaderboard-verify-") as (spark, directory):
            expectation = Expectation(spark, directory, settings.depth)
            looks = _Looks(expectation, instances, settings.depth, check.scores_lost)
            return _until_equal(looks, check.within_s)


class _Looks:
    """One look after the other at the same topics and instances."""

    def __init__(self, expectation: Expectation, instances: Instances, depth: int, scores_lost: bool) -> None:
        self._expectation = expectation
        self._instances = instances
        self._depth = depth
        self._scores_lost = scores_lost

    def look(self) -> Result:
        """Read what is new, compute the boards, ask for those that are served, and compare them."""
        began_s = time.monotonic()
        self._expectation.read()
        expected = self._expectation.boards()
        logger.info("boards of %d score events computed in %.1f s", expected.events, time.monotonic() - began_s)
        answers = self._instances.ask()
        comparison = compare(expected.boards, answers, self._depth, self._names(answers))
        return Result(comparison, expected.events, expected.unusable, dict(self._expectation.lost))

    def _names(self, answers: list[Served]) -> Names | None:
        """Return the names on the served boards; they are needed only where the events do not explain every place."""
        if not self._expectation.lost and not self._scores_lost:
            return None
        boards = [(of, board) for served in answers for of, board in served.boards.items()]
        players = {place.player_id for _, board in boards for place in board}
        return self._expectation.names(players, {of for of, _ in boards})


def _until_equal(looks: _Looks, within_s: float) -> Result:
    """Look until nothing is different, or until the time has passed; it begins again with the first comparison."""
    result = _retried(looks.look, time.monotonic() + within_s)
    deadline_s = time.monotonic() + within_s
    while not result.equal and time.monotonic() < deadline_s:
        logger.info("looking again, since this many differ: %d", len(result.comparison.differences))
        time.sleep(_PAUSE_S)
        found = _retried(looks.look, deadline_s)
        result = found._replace(comparison=found.comparison.still(result.comparison))
    return result


def _retried(attempt: Callable[[], T], deadline_s: float) -> T:
    """Return what an attempt returns, the first one or a later one before the deadline."""
    while True:
        try:
            return attempt()
        except Retry as error:
            if time.monotonic() >= deadline_s:
                raise
            logger.warning("trying again: %s", error)
        time.sleep(_PAUSE_S)

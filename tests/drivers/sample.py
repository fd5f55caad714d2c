"""Boards that stay as they are while a test runs, so that answers can be checked, and one that new scores reach."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Mapping

from tests.drivers.instance import Instance
from tests.drivers.producer import Inputs
from tests.drivers.reader import Expected
from tests.drivers.reference import Reference
from tests.drivers.replicas import Replicas, until

LIVE = 900
PRODUCTS = range(1, 13)
MISSING = (0, 13, 14, 15, 16, -1, 2**63 - 1)
PATHS = (
    *(f"/leaderboard/{product}" for product in (*PRODUCTS, *MISSING)),
    "/leaderboard/1?limit=10",
    "/leaderboard/1/12",
    "/leaderboard/count",
)
"""What is read; the answers do not depend on the board that is played on."""

_PLAYERS = range(1, 30)
_SCORES = 3_000
_SEED = 20261121


class Sample:
    """Fills the topics of a broker, and knows what has to be served.

    Args:
        bootstrap_servers: Kafka.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self.reference = Reference(
            {player: f"Player {player}" for player in _PLAYERS},
            {product: f"Game {product}" for product in (*PRODUCTS, LIVE)},
        )
        self._inputs = Inputs(bootstrap_servers)
        self._next_score = itertools.count(1)

    def load(self) -> None:
        """Create the topics and send everything."""
        source = random.Random(_SEED)
        self._inputs.create_topics()
        self._inputs.players(dict(self.reference.players))
        self._inputs.products(dict(self.reference.products))
        # Some players do not exist; no two scores are equal.
        numbers = range(_SCORES)
        self._send([(number + source.random(), source.randrange(1, 35), source.choice(PRODUCTS)) for number in numbers])
        self.play()

    def play(self) -> float:
        """Send a score that becomes the best of the live board; return it."""
        score = float(next(self._next_score))
        self._send([(score, 1, LIVE)])
        return score

    def shows(self, replicas: Replicas, instance: Instance, score: float) -> bool:
        """Return whether an instance shows a score, or a better one, on the live board."""
        answer = replicas.get(instance, f"/leaderboard/{LIVE}?limit=1")
        return answer.status_code == 200 and bool(answer.json()[0]["score"] >= score)

    def wait_until_shown(self, replicas: Replicas, score: float, deadline_s: float) -> float:
        """Wait until every member shows a score; return how long that took."""
        began_s = time.monotonic()
        for member in replicas.members:
            left_s = deadline_s - (time.monotonic() - began_s)
            until(lambda m=member: self.shows(replicas, m, score), left_s, lambda: f"score {score} is shown")  # type: ignore[misc]
        return time.monotonic() - began_s

    def wait_until_served(self, replicas: Replicas, deadline_s: float) -> None:
        """Wait until every member serves everything that has been sent."""
        for member in replicas.members:
            member.wait_for_boards(self.reference.boards(), deadline_s)

    def expected(self, replicas: Replicas) -> Mapping[str, Expected]:
        """Return what each of `PATHS` answers with from now on, as one member has it."""
        answers = {path: replicas.get(replicas.members[0], path) for path in PATHS}
        return {path: Expected(answer.status_code, answer.content) for path, answer in answers.items()}

    def _send(self, scores: list[tuple[float, int, int]]) -> None:
        self.reference.add(scores)
        self._inputs.scores(scores)

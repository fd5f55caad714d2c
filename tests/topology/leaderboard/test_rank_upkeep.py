"""Of ranks what is hidden stands apart: the next scores come up, also where all that a row kept are hidden."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from runtime.keys import KeyPair
from runtime.spark.results import latest
from runtime.spark.session import Spark
from runtime.testing.frames import TOPIC_ID, StoreOnFrames, published_frame
from tests.drivers.topology import Score, numbered
from topology.leaderboard.board import leaderboard
from topology.leaderboard.hiding import Hiding
from topology.leaderboard.moderation import Hidden, HiddenPlayer, ScoreName
from topology.leaderboard.rank_upkeep import hidden_apart, names_one, without_a_score
from topology.leaderboard.ranks import STORE, best_of, counts

SCORES = [Score(float(score), player) for player in (1, 2) for score in (70, 60, 50, 40, 30)]
"""At the offsets 0 to 4 those of player 1, and at 5 to 9 of player 2."""


class Ranks:
    """The store of personal bests over these scores, as generations make it that begin while some are hidden."""

    def __init__(self, spark: Spark) -> None:
        self.driver = StoreOnFrames(spark.session, leaderboard(10, ranks=True), name=STORE)
        self.records: list[Any] = [(s.value, s.partition, s.offset, s.at_ms) for s in numbered(SCORES)]
        self.names = [ScoreName(TOPIC_ID, partition, offset) for _, partition, offset, _ in self.records]
        self.session = spark.session

    def generation(self, hidden: Collection[ScoreName]) -> None:
        """Begin a generation with what the last one publishes, while scores are hidden."""
        apart = hidden_apart(self.driver.published(self.driver.records(self.records)), hidden)
        self.driver.seed = self.driver.made.seed(latest(self.driver.store, apart))
        self.driver.narrow = Hiding.of(self.session, Hidden(scores=frozenset(hidden)), TOPIC_ID).events_marked
        self.driver.generation += 1

    def row(self, player: int, *, read_again: bool = True) -> tuple[list[float], list[float] | None]:
        """Return the scores of a row: the best, and those apart."""
        values = self.driver.results(self.records if read_again else [])[KeyPair(1, player)].values
        apart = values["hidden"]
        return [best.score for best in values["best"]], apart and [best.score for best in apart]

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows as they are looked through."""
        published = self.driver.published(self.driver.records(self.records))
        rows = published.select("product_id", "player_id", "values.best", "values.hidden").collect()
        return [row.asDict(recursive=True) for row in rows]

    def without_a_score(self, hidden: Collection[ScoreName]) -> int:
        return without_a_score(self.rows(), Hidden(scores=frozenset(hidden)))


@pytest.fixture
def ranks(spark: Spark) -> Ranks:
    return Ranks(spark)


def test_the_next_ones_come_up_where_all_that_were_kept_are_hidden(ranks: Ranks) -> None:
    assert ranks.row(1) == ([70, 60, 50], None)
    hidden = ranks.names[:3]
    assert ranks.without_a_score(hidden[:2]) == 0
    assert ranks.without_a_score(hidden) == 1
    ranks.generation(hidden)
    assert ranks.row(1) == ([40, 30], [70, 60, 50])
    assert ranks.row(2) == ([70, 60, 50], None)
    # There is nothing behind them: to read all once more would bring up nobody.
    assert ranks.without_a_score(ranks.names[:5]) == 0


def test_what_is_hidden_is_kept_whatever_retention_has_taken(ranks: Ranks) -> None:
    ranks.generation(ranks.names[:3])
    ranks.generation(ranks.names[:3])
    assert ranks.row(1, read_again=False) == ([40, 30], [70, 60, 50])
    ranks.generation(ranks.names[1:2])
    assert ranks.row(1, read_again=False) == ([70, 50, 40], [60])
    ranks.generation(())
    assert ranks.row(1, read_again=False) == ([70, 60, 50], None)


def test_what_was_lifted_since_counts_at_once(ranks: Ranks) -> None:
    ranks.generation(ranks.names[:3])
    found = {}
    for lifted in (0, 1, 3):
        hidden = Hidden(scores=frozenset(ranks.names[lifted:3]))
        of_player = next(row for row in ranks.rows() if row["player_id"] == 1)
        best = best_of(counts(1, 1, of_player, hidden) if hidden else of_player)
        found[lifted] = best and best["score"]
    assert found == {0: 40.0, 1: 70.0, 3: 70.0}


def test_whoever_is_hidden_lacks_no_score(ranks: Ranks) -> None:
    scores = frozenset(ranks.names[:3])
    players = [HiddenPlayer(1), HiddenPlayer(1, 1), HiddenPlayer(1, 2), HiddenPlayer(2)]
    found = [without_a_score(ranks.rows(), Hidden(frozenset([player]), scores)) for player in players]
    assert found == [0, 0, 1, 1]


def test_a_score_of_another_topic_hides_nobody(ranks: Ranks) -> None:
    others = [name._replace(topic_id="another") for name in ranks.names[:3]]
    assert ranks.without_a_score(others) == 0
    ranks.generation(others)
    assert ranks.row(1) == ([70, 60, 50], None)


def test_rows_that_have_a_hidden_score_are_found_by_their_text(ranks: Ranks) -> None:
    ranks.generation(ranks.names[:3])
    records = [(key, value, headers) for key, value, headers in ranks.driver.records(ranks.records)]
    frame = published_frame(ranks.session, [*records, (b"1/3", None, [])])

    def found(*hidden: ScoreName) -> set[bytes]:
        return {bytes(row.key) for row in frame.where(names_one(hidden)).collect()}

    # Of player 1 one that stands apart and one that counts, of player 2 one that counts and one that fell out.
    assert found(ranks.names[0]) == found(ranks.names[3]) == {b"1/1"}
    assert found(ranks.names[7]) == {b"1/2"}
    assert found(ranks.names[8]) == found() == set()
    assert found(*ranks.names) == {b"1/1", b"1/2"}

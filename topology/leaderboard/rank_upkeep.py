"""What ranks need while their stream runs: a player of whom all scores that are kept are hidden gets the next ones.

A row keeps a few scores, so that one that is hidden leaves the next. Once all of these are, only the events know what
comes behind them: a generation reads them again, and keeps apart what was hidden when it began.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, ClassVar

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from runtime.stream.plan import Plan
from runtime.stream.upkeep import Care, Upkeep
from runtime.stream.work import Work
from topology.leaderboard.bests import KEPT
from topology.leaderboard.hiding import Hiding, hidden_now
from topology.leaderboard.moderation import NOTHING_HIDDEN, Hidden, ScoreName, place_in_json
from topology.leaderboard.ranks import best_of, counts
from topology.leaderboard.surveys import RankSurveys
from topology.leaderboard.topics import MODERATION, SCORE_EVENTS

_PLACE = r'"partition":[0-9]+,"offset":[0-9]+'
"""Every `place_in_json`."""


def hidden_apart(published: DataFrame, hidden: Collection[ScoreName]) -> DataFrame:
    """Return results that keep apart what is hidden now, and nothing else.

    Args:
        published: with `values`, as `runtime.spark.results.published` returns them.
        hidden: the scores.
    """
    is_hidden = _is_hidden(hidden)
    every = F.concat("values.best", F.coalesce("values.hidden", F.filter("values.best", lambda _: F.lit(False))))
    apart = F.filter(every, is_hidden)
    values = F.col("values").withField("best", F.filter(every, lambda score: ~is_hidden(score)))
    return published.withColumn("values", values.withField("hidden", F.when(F.size(apart) > 0, apart)))


def _is_hidden(hidden: Collection[ScoreName]) -> Callable[[Column], Column]:
    names = sorted("/".join(map(str, name)) for name in hidden)

    def is_hidden(score: Column) -> Column:
        return F.concat_ws("/", *(score[name].cast("string") for name in ("topic", "partition", "offset"))).isin(names)

    return is_hidden


def names_one(hidden: Collection[ScoreName]) -> Column:
    """Return whether a result record may have one of these scores, by its `value`: without reading its JSON."""
    places = sorted({place_in_json(score) for score in hidden})
    found = F.regexp_extract_all(F.col("value").cast("string"), F.lit(_PLACE), F.lit(0))
    return F.exists(found, lambda place: place.isin(places))


def without_a_score(rows: Iterable[Mapping[str, Any]], hidden: Hidden) -> int:
    """Return how many rows keep as many scores as they can, and have none left that counts for their player.

    A player who is hidden has none to be shown.

    Args:
        rows: the key and the values of each.
        hidden: what is hidden.
    """
    full = (row for row in rows if len(row["best"]) >= KEPT)
    shown = (row for row in full if not hidden.hides_player(row["player_id"], row["product_id"]))
    return sum(best_of(counts(row["product_id"], row["player_id"], row, hidden)) is None for row in shown)


class RankUpkeep(Upkeep):
    """Looks after players of whom all scores that are kept are hidden.

    Args:
        care: what it looks at.
    """

    looks_at: ClassVar[Collection[str]] = (MODERATION,)

    def __init__(self, care: Care) -> None:
        super().__init__(care)
        self._surveys = RankSurveys(care.refresh_s)
        self._revision: int | None = None
        self._hidden = NOTHING_HIDDEN
        # What the events of a backlog are marked by. In a generation that has published something marks would part the
        # state from what copies have merged, and in real time it costs more to look for each event among all scores
        # than hidden ones take places.
        self._marked: frozenset[ScoreName] = frozenset()
        self._hiding: Hiding | None = None

    def seed(self, work: Work, published: DataFrame, *, tables_are_new: bool, goes_on: bool) -> DataFrame:
        """Return the scores so far; where all events come again those apart that are hidden now."""
        self._marked = frozenset() if goes_on else self._hidden_now().scores
        apart = published if goes_on else hidden_apart(published, self._marked)
        return super().seed(work, apart, tables_are_new=tables_are_new, goes_on=goes_on)

    def begun(self, work: Work, *, anew: bool, goes_on: bool) -> None:  # noqa: ARG002
        """Note which generation is worked on."""
        self._surveys.begin()
        if not anew:
            self._marked = frozenset()

    def catching_up(self, work: Work, joined: Mapping[str, DataFrame]) -> None:  # noqa: ARG002
        """Have the events marked that are read again, as the seed was."""
        self._hiding = Hiding.of(work.spark.session, Hidden(scores=self._marked), work.topic_ids[SCORE_EVENTS])

    def narrow(self, events: DataFrame) -> DataFrame:
        """Mark the events of hidden scores."""
        return events if self._hiding is None else self._hiding.events_marked(events)

    def snapshot(self, work: Work, name: str, events: int, *, at_once: bool) -> None:
        """Have no event marked from now on."""
        super().snapshot(work, name, events, at_once=at_once)
        self._marked, self._hiding = frozenset(), None

    def generation_took(self, took_s: float) -> None:
        """Note how long a new generation took: reading everything again may take a tenth of the time, not all of it."""
        self._surveys.generation_took(took_s)

    def plan(self, work: Work, joined: Mapping[str, DataFrame], events: int) -> Plan | None:  # noqa: ARG002
        """Begin a generation where what was hidden has left players without a score."""
        hidden = self._hidden_now()
        if not self._surveys.is_due(hidden):
            return None
        rows = work.with_last(_rows, of_keys_with=names_one(hidden.scores))
        return self._surveys.plan(without_a_score((row.asDict(recursive=True) for row in rows), hidden))

    def _hidden_now(self) -> Hidden:
        # Before the rows are read: a change in between is then seen once more.
        revision = self.care.tables.revision(MODERATION)
        if revision != self._revision:
            self._hidden, self._revision = hidden_now(self.care.tables), revision
        return self._hidden


def _rows(results: DataFrame) -> list[Row]:
    return results.select("product_id", "player_id", "values.best", "values.hidden").collect()

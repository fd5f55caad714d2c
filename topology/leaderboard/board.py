"""The leaderboard: score events joined with players and products, the best scores of each product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from runtime import Beside, Int64, Key, Limits, Store, Stream, Table, Text, Topology
from topology.leaderboard.moderation import MODERATION_TABLE
from topology.leaderboard.periods import ALL, Periods
from topology.leaderboard.places import SPARE_FACTOR, Places
from topology.leaderboard.ranks import PERSONAL_BEST
from topology.leaderboard.shown import show
from topology.leaderboard.topics import HIGH_SCORES, PERIOD_BOARDS, PLAYERS, PRODUCTS, SCORE_EVENTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from runtime.declaration import Rows
    from runtime.stream.upkeep import Care, Upkeep

DEFAULT_LIMIT = 3
STORE = "leader-boards"
PERIOD_STORE = "period-boards"


class ScoreEvents:
    """How score events are read; the reader itself is loaded with Spark."""

    @property
    def columns(self) -> dict[str, str]:
        """The columns that rows are made of; the player of a plain event is still in its text."""
        return {"text": "string", "score": "double", "product_id": "bigint", "player_id": "bigint"}

    def judge(self, records: DataFrame, key: Key | None = None) -> DataFrame:  # noqa: ARG002  # its keys say nothing
        """Return what each record says; see `topology.leaderboard.events.judge`."""
        from topology.leaderboard.events import judge

        return judge(records)


def score_rows(events: DataFrame, players: DataFrame, products: DataFrame) -> DataFrame:
    """Return an entry of a board for each event; see `topology.leaderboard.query.score_rows`."""
    from topology.leaderboard.query import score_rows as rows

    return rows(events, players, products)


def upkeep(care: Care) -> Upkeep:
    """Return what looks after floors and tables while the stream of boards runs, or after hidden scores of ranks."""
    from topology.leaderboard.rank_upkeep import RankUpkeep
    from topology.leaderboard.upkeep import LeaderboardUpkeep

    return LeaderboardUpkeep(care) if care.store.name == STORE else RankUpkeep(care)


def upkeep_with(periods: Periods) -> Callable[[Care], Upkeep]:
    """Return what looks after the streams where there are boards of periods."""

    def of(care: Care) -> Upkeep:
        from topology.leaderboard.period_upkeep import PeriodUpkeep

        return PeriodUpkeep(care, periods) if care.store.name == PERIOD_STORE else upkeep(care)

    return of


def period_boards(of_all_time: Store, periods: Periods) -> Store:
    """Return the store of the boards of periods, whose query makes those of all time as well.

    Args:
        of_all_time: the store of those.
        periods: which ones.
    """

    def rows_of(names: Sequence[str]) -> Rows:
        def rows(events: DataFrame, players: DataFrame, products: DataFrame) -> DataFrame:
            from topology.leaderboard.period_query import period_rows

            return period_rows(events, players, products, names)

        return rows

    return replace(
        of_all_time,
        name=PERIOD_STORE,
        topic=PERIOD_BOARDS,
        rows=rows_of(periods.names),
        key=of_all_time.key / Key("period", Text),
        lapsing=periods.lapsing,
        settings=periods.settings,
        beside=Beside(of_all_time, ALL, rows_of((ALL, *periods.names))),
    )


def leaderboard(depth: int = 10, *, ranks: bool = False, periods: Periods | None = None) -> Topology:
    """Return the topology.

    Args:
        depth: the most entries that are served of a board; twice as many are kept.
        ranks: whether the best scores of each player are kept as well, and ranked.
        periods: the periods that have boards beside those of all time, if any have.
    """
    named = {"name": Text}
    boards = Store(
        STORE,
        topic=HIGH_SCORES,
        rows=score_rows,
        key=Key("product_id", Int64),
        values=Places(depth * SPARE_FACTOR),
        show=show(depth),
        limits=Limits(min(DEFAULT_LIMIT, depth), depth),
        keys_only=True,
    )
    return Topology(
        name="leaderboard",
        source=Stream(SCORE_EVENTS, ScoreEvents()),
        tables=[
            *(Table(topic, Key("id", Int64), named, key_field="id") for topic in (PLAYERS, PRODUCTS)),
            MODERATION_TABLE,
        ],
        stores=[
            boards,
            *([] if periods is None else [period_boards(boards, periods)]),
            *([PERSONAL_BEST] if ranks else []),
        ],
        upkeep=upkeep if periods is None else upkeep_with(periods),
        settings={"DEPTH": depth},
        about="The best scores of each product, with the names of now.",
    )


LEADERBOARD = leaderboard()

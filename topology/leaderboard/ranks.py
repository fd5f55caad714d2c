"""The ranks of players: where the best score of each stands among those of the product's players."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from runtime import Int64, Key, Ranking, ReadBack, Row, Standing, Store, Tables
from runtime.ordered_bytes import double_of, falling_double, integers_of, rising_integer
from topology.leaderboard.bests import Bests, HiddenScores
from topology.leaderboard.moderation import Hidden, ScoreName
from topology.leaderboard.topics import MODERATION, PERSONAL_BESTS, PLAYERS, PRODUCTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STORE: Final = "personal-bests"


def best_rows(events: DataFrame) -> DataFrame:
    """Return a score of a player for each event: `product_id, player_id, score double, hidden_score double, at`.

    Of the two scores one is null. Whether player and product exist is not asked here: who holds a rank is known when it
    is read.

    Args:
        events: usable events, as `topology.leaderboard.events` reads them, with `at`; with `hidden boolean` as well
            where a score is hidden, see `topology.leaderboard.hiding`.
    """
    from pyspark.sql import functions as F

    from topology.leaderboard.events import with_player

    hidden = F.col("hidden") if "hidden" in events.columns else F.lit(False)
    return with_player(events).select(
        "product_id",
        "player_id",
        F.when(~hidden, F.col("score")).alias("score"),
        F.when(hidden, F.col("score")).alias("hidden_score"),
        "at",
    )


def best_of(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the best score of a row: one that the query took for hidden counts once it is not any more."""
    best: Sequence[Mapping[str, Any]] = row["best"][:1]
    if lifted := row.get("hidden"):
        best = [min([*best, *lifted], key=_in_order)]
    return best[0] if best else None


def _in_order(score: Mapping[str, Any]) -> tuple[float, int, int, int]:
    return -score["score"], score["timestamp"], score["partition"], score["offset"]


def place(row: Mapping[str, Any]) -> bytes | None:
    """Return the bytes by which players are ranked: the higher best score first, then the earlier record."""
    if (best := best_of(row)) is None:
        return None
    return b"".join(
        (
            falling_double(best["score"]),
            rising_integer(best["timestamp"]),
            rising_integer(best["partition"]),
            rising_integer(best["offset"]),
        )
    )


def best_of_place(place: bytes, topic: str) -> Mapping[str, Any]:
    """Return the values of a row whose best score `place` made these bytes of, with that score alone.

    Args:
        place: the bytes.
        topic: the id of the topic that the score's record is in.
    """
    timestamp, partition, offset = integers_of(place[8:])
    score = double_of(place[:8])
    return {
        "best": [{"score": score, "timestamp": timestamp, "partition": partition, "offset": offset, "topic": topic}]
    }


def _topic_of(row: Mapping[str, Any]) -> str:
    best = best_of(row)
    assert best is not None, "it has a place"
    topic: str = best["topic"]
    return topic


def show_rank(row: Row, standing: Standing, tables: Tables) -> dict[str, Any]:
    """Return what is served of a player's rank."""
    best = best_of(row)
    assert best is not None, "it has a place"
    return {
        "playerId": row["player_id"],
        "playerName": tables[PLAYERS][row["player_id"]]["name"],
        "score": best["score"],
        "rank": standing.rank,
        "sharedRank": standing.shared_rank,
        "of": standing.of,
        "percentile": standing.percentile,
        "entry": f"{best['topic']}/{best['partition']}/{best['offset']}",
    }


def counts(product_id: int, player_id: int, values: Mapping[str, Any], hidden: Hidden) -> Mapping[str, Any]:
    """Return the scores of a player that are not hidden: none where the player is."""
    if hidden.hides_player(player_id, product_id):
        return {**values, "best": [], "hidden": None}
    if not hidden.scores:
        return values
    left = {
        name: [
            each
            for each in values.get(name) or ()
            if ScoreName(each["topic"], each["partition"], each["offset"]) not in hidden.scores
        ]
        for name in ("best", "hidden")
    }
    return {**values, **left}


PERSONAL_BEST: Final = Store(
    STORE,
    topic=PERSONAL_BESTS,
    rows=best_rows,
    key=Key("product_id", Int64) / Key("player_id", Int64),
    values={"best": Bests(), "hidden": HiddenScores()},
    ranking=Ranking(
        place,
        show_rank,
        first_in=PRODUCTS,
        second_in=PLAYERS,
        counted_in=MODERATION,
        counts=counts,
        read_back=ReadBack(_topic_of, best_of_place),
    ),
    # Lists of scores are sorted to be added up: of a million players at once they took all of the default heap.
    records_per_batch=200_000,
)

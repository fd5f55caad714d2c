"""The ranks of players: where the best score of each stands among those of the product's players."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from runtime import Int64, Key, Ranking, ReadBack, Row, Standing, Store, Tables
from runtime.ordered_bytes import double_of, falling_double, integers_of, rising_integer
from topology.leaderboard.bests import Bests
from topology.leaderboard.moderation import Hidden, ScoreName
from topology.leaderboard.topics import MODERATION, PERSONAL_BESTS, PLAYERS, PRODUCTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STORE: Final = "personal-bests"


def best_rows(events: DataFrame) -> DataFrame:
    """Return a score of a player for each event: `product_id bigint, player_id bigint, score double, at`.

    Whether player and product exist is not asked here: who holds a rank is known when it is read.

    Args:
        events: usable events, as `topology.leaderboard.events` reads them, with `at`.
    """
    from topology.leaderboard.events import with_player

    return with_player(events).select("product_id", "player_id", "score", "at")


def place(row: Mapping[str, Any]) -> bytes | None:
    """Return the bytes by which players are ranked: the higher best score first, then the earlier record."""
    if not row["best"]:
        return None
    best = row["best"][0]
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
    topic: str = row["best"][0]["topic"]
    return topic


def show_rank(row: Row, standing: Standing, tables: Tables) -> dict[str, Any]:
    """Return what is served of a player's rank."""
    best = row["best"][0]
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
        return {**values, "best": []}
    if not hidden.scores:
        return values
    best = [
        each
        for each in values["best"]
        if ScoreName(each["topic"], each["partition"], each["offset"]) not in hidden.scores
    ]
    return {**values, "best": best}


PERSONAL_BEST: Final = Store(
    STORE,
    topic=PERSONAL_BESTS,
    rows=best_rows,
    key=Key("product_id", Int64) / Key("player_id", Int64),
    values={"best": Bests()},
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

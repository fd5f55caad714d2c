"""Models of boards; they only describe, the bytes come ready from the view."""

from __future__ import annotations

from typing import Final

from pydantic import ConfigDict, RootModel
from pydantic.config import JsonDict

from api.http.schemas import Model

ISABELLE: Final[JsonDict] = {
    "playerId": 3,
    "productId": 1,
    "playerName": "Isabelle",
    "gameName": "Super Smash Bros",
    "score": 4000.0,
}
MITCH: Final[JsonDict] = ISABELLE | {"playerId": 2, "playerName": "Mitch", "score": 2000.0}
MARIO_KART: Final[JsonDict] = ISABELLE | {"productId": 6, "gameName": "Mario Kart", "score": 9000.0}

BOARD_EXAMPLE: Final = [ISABELLE, MITCH]
BOARDS_EXAMPLE: Final = {"1": [ISABELLE, MITCH], "6": [MARIO_KART]}


class Entry(Model):
    """One place on a board."""

    model_config = ConfigDict(json_schema_extra={"examples": [ISABELLE]})

    player_id: int
    product_id: int
    player_name: str
    game_name: str
    score: float


class Boards(RootModel[dict[str, list[Entry]]]):
    """Boards by product id."""


HIDDEN_EXAMPLE: Final[JsonDict] = {
    "key": "player/3/product/6",
    "playerId": 3,
    "productId": 6,
    "entry": None,
    "since": "2026-11-25T20:00:00.000Z",
    "reason": "a script",
}


class HiddenRow(Model):
    """Something that is hidden: a player, everywhere where there is no product, or a score by its entry."""

    model_config = ConfigDict(json_schema_extra={"examples": [HIDDEN_EXAMPLE]})

    key: str
    player_id: int | None
    product_id: int | None
    entry: str | None
    since: str
    reason: str


RANK_EXAMPLE: Final[JsonDict] = {
    "playerId": 3,
    "playerName": "Isabelle",
    "score": 4000.0,
    "rank": 1,
    "sharedRank": 1,
    "of": 2,
    "percentile": 100.0,
    "entry": "c5a1f0de-0000-4000-8000-000000000001/0/7",
}
RANKS_EXAMPLE: Final = [
    RANK_EXAMPLE,
    RANK_EXAMPLE
    | {
        "playerId": 2,
        "playerName": "Mitch",
        "score": 2000.0,
        "rank": 2,
        "sharedRank": 2,
        "percentile": 50.0,
        "entry": "c5a1f0de-0000-4000-8000-000000000001/1/4",
    },
]


class Rank(Model):
    """Where the best score of a player stands among those of all players of a product."""

    model_config = ConfigDict(json_schema_extra={"examples": [RANK_EXAMPLE]})

    player_id: int
    player_name: str
    score: float
    rank: int
    shared_rank: int
    of: int
    percentile: float
    entry: str

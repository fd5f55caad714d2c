"""Models of boards; they only describe, the bytes come ready from the view."""

from __future__ import annotations

from typing import Final

from pydantic import ConfigDict
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

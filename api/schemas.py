"""Models of what is answered; entries and boards are only described by them, their bytes come ready from the view."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict

from api.answers import BOARDS_PATH


class _Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


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


class Entry(_Model):
    """One place on a board."""

    model_config = ConfigDict(json_schema_extra={"examples": [ISABELLE]})

    player_id: int
    product_id: int
    player_name: str
    game_name: str
    score: float


class Address(_Model):
    """Where an instance is reached."""

    host: str = Field(examples=["leaderboard-1"])
    port: int = Field(examples=[7000])


class Host(Address):
    """One instance and its tasks."""

    active: list[int] = Field(description="partitions that it answers for", examples=[[0, 2]])
    standby: list[int] = Field(description="partitions of which it keeps a warm copy", examples=[[1, 3]])
    runs_stream: bool = Field(description="whether the topology runs in it")


class KeyHosts(_Model):
    """Who holds a product's partition."""

    partition: int = Field(examples=[2])
    active: Address | None = Field(description="null while nobody does")
    standbys: list[Address]


class Health(_Model):
    """That all is well; a problem says otherwise."""

    status: str = Field(examples=["ready"])


class Problem(BaseModel):
    """Why there is no answer, and what to do about it (RFC 9457)."""

    type: str = Field(examples=["urn:problem-type:leaderboard:no-such-board"])
    title: str = Field(examples=["No such board"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["Product 99 has no board: it is unknown, or has no score of a known player yet."])
    instance: str = Field(description="the path that was asked for", examples=[f"{BOARDS_PATH}/99"])
    partitions: list[int] | None = Field(default=None, description="those that nobody can answer for")

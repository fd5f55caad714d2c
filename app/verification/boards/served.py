"""What an instance serves of its boards, asked over HTTP as any reader would."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from app.errors import SetupError
from app.verification.asking import Asking
from app.verification.boards.comparison import Place, Served

_SHOWN: Final = 200


_Id = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    player_id: _Id = Field(alias="playerId")
    product_id: _Id = Field(alias="productId")
    player_name: str = Field(alias="playerName")
    game_name: str = Field(alias="gameName")
    score: float


_BOARDS: Final = TypeAdapter(dict[str, list[_Entry]])


class Instances(Asking):
    """Asks instances for their boards; a context manager.

    Args:
        urls: of the instances, `http://host:port`.
        depth: how many places of a board to ask for.
        token: what a reader has to show, when the routes want it.
    """

    def __init__(self, urls: tuple[str, ...], depth: int, token: str = "") -> None:
        super().__init__(token, {400: "give LEADERBOARD_DEPTH the value that the instances have"})
        self._urls = urls
        self._depth = depth

    def ask(self) -> list[Served]:
        """Return what each serves now.

        Raises:
            NotComparable: one does not answer, or says that it cannot answer now.
            SetupError: one refuses, or answers with something that is no leaderboard.
        """
        return [self._ask(url) for url in self._urls]

    def _ask(self, url: str) -> Served:
        body = self.get(url, f"/leaderboard?limit={self._depth}").content
        count = self.get(url, "/leaderboard/count").content
        try:
            fields = json.loads(body, object_pairs_hook=_each_once, parse_constant=_refuse)
            found = _BOARDS.validate_python(fields)
            boards = {_product_id(key, board): tuple(map(_place, board)) for key, board in found.items()}
            return Served(url, body, boards, int(count))
        except (ValueError, RecursionError) as error:
            why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
            raise SetupError(
                f"{url} answers with something that is no leaderboard ({why})", "see what it is"
            ) from error


def _place(entry: _Entry) -> Place:
    return Place(entry.score, entry.player_id, entry.player_name, entry.game_name)


def _product_id(key: str, board: list[_Entry]) -> int:
    """Return the product id that a board is served under, which each of its entries has to carry."""
    if not board:
        raise ValueError(f"board {key} is empty")
    if any(key != str(entry.product_id) for entry in board):
        raise ValueError(f"board {key} has an entry of another product")
    return board[0].product_id


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError(f"something stands in it twice: {', '.join(name for name, _ in pairs)[:_SHOWN]}")
    return fields


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")

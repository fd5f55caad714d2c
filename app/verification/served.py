"""What an instance serves of its boards, asked over HTTP as any reader would."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

import httpx
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from app.errors import NotComparable, SetupError
from app.verification.comparison import Place, Served

_TIMEOUT_S: Final = 30.0
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


class Instances:
    """Asks instances for their boards; a context manager.

    Args:
        urls: of the instances, `http://host:port`.
        depth: how many places of a board to ask for.
        token: what a reader has to show, when the routes want it.
    """

    def __init__(self, urls: tuple[str, ...], depth: int, token: str = "") -> None:
        self._urls = urls
        self._depth = depth
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        # A proxy of the environment's is for others: the instances are asked, and nobody between.
        self._client = httpx.Client(timeout=_TIMEOUT_S, trust_env=False, headers=headers)

    def __enter__(self) -> Instances:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(self) -> list[Served]:
        """Return what each serves now.

        Raises:
            NotComparable: one does not answer, or says that it cannot answer now.
            SetupError: one refuses, or answers with something that is no leaderboard.
        """
        return [self._ask(url) for url in self._urls]

    def _ask(self, url: str) -> Served:
        body = self._get(url, f"/leaderboard?limit={self._depth}")
        count = self._get(url, "/leaderboard/count")
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

    def _get(self, url: str, path: str) -> bytes:
        try:
            answer = self._client.get(f"{url}{path}")
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError) as error:
            raise SetupError(f"{url} is not a URL that can be asked", "give it as http://host:port") from error
        except httpx.HTTPError as error:
            raise NotComparable(f"{url} does not answer ({type(error).__name__} {error})") from error
        if answer.status_code == 200:
            return answer.content
        problem = f"{url}{path} answers {answer.status_code}: {_detail(answer)}"
        if answer.status_code in (401, 403):
            raise SetupError(problem, "give LEADERBOARD_API_TOKEN the value that the instances have")
        if answer.status_code == 400:
            raise SetupError(problem, "give LEADERBOARD_DEPTH the value that the instances have")
        if answer.status_code < 500:
            raise SetupError(problem, "see what it is")
        raise NotComparable(problem)


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


def _detail(answer: httpx.Response) -> str:
    """Return what a problem says of itself, or the beginning of an answer that is none."""
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:_SHOWN]

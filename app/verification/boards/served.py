"""What an instance serves of its boards, asked over HTTP as any reader would."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from app.errors import SetupError
from app.verification.asking import Asking
from app.verification.boards.comparison import Place, Served
from app.verification.boards.expected import PERIODS
from app.verification.boards.ranks import Rank, ServedRanks

_SHOWN: Final = 200


_Id = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    player_id: _Id = Field(alias="playerId")
    product_id: _Id = Field(alias="productId")
    player_name: str = Field(alias="playerName")
    game_name: str = Field(alias="gameName")
    score: float


class _Rank(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    player_id: _Id = Field(alias="playerId")
    player_name: str = Field(alias="playerName")
    score: float
    rank: int
    shared_rank: int = Field(alias="sharedRank")
    of: int
    percentile: float
    entry: str


_RANKS: Final = TypeAdapter(list[_Rank])
_PERIODS_STORE: Final = "period-boards"
_RANKS_STORE: Final = "personal-bests"
_PAGE_SIZE: Final = 1000
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

    def have_periods(self) -> list[str]:
        """Return of which periods they have boards; raises as `ask` does."""
        url = self._urls[0]
        if all(store["name"] != _PERIODS_STORE for store in self.get(url, "/stores").json()):
            return []
        return [name for name in PERIODS if self.get(url, f"/leaderboard/count?period={name}", none=404).is_success]

    def ask_for_period(self, name: str, begin: str) -> list[Served] | None:
        """Return the boards of a period that each serves now, None when one keeps them no longer; raises as `ask`.

        Args:
            name: day, week or month.
            begin: its first day, `YYYY-MM-DD`.
        """
        query = f"&period={name}&at={begin}"
        if any(self.get(url, f"/leaderboard/count?{query[1:]}", none=404).status_code == 404 for url in self._urls):
            return None
        return [self._ask(url, query) for url in self._urls]

    def have_ranks(self) -> bool:
        """Return whether they rank players; raises as `ask` does."""
        stores = self.get(self._urls[0], "/stores").json()
        return any(store["name"] == _RANKS_STORE for store in stores)

    def ask_for_ranks(self, products: Iterable[int]) -> list[ServedRanks]:
        """Return the ranks of products that each serves now; raises as `ask` does."""
        wanted = sorted(products)
        return [self._ask_for_ranks(url, wanted) for url in self._urls]

    def _ask_for_ranks(self, url: str, products: list[int]) -> ServedRanks:
        ranks, counted = {}, {}
        for product_id in products:
            if (found := self._ranking(url, product_id)) is not None:
                ranks[product_id] = found
                counted[product_id] = int(self.get(url, f"/leaderboard/{product_id}/players/count").content)
        return ServedRanks(url, ranks, counted)

    def _ranking(self, url: str, product_id: int) -> list[Rank] | None:
        """Return all pages of a ranking, None where the product is unknown."""
        found: list[Rank] = []
        path: str | None = f"/leaderboard/{product_id}/players?page_size={_PAGE_SIZE}"
        while path is not None:
            answer = self.get(url, path, none=404)
            if answer.status_code == 404:
                return None
            try:
                found += [Rank(**each.model_dump()) for each in _RANKS.validate_json(answer.content)]
            except ValidationError as error:
                raise SetupError(
                    f"{url}{path} answers with something that is no ranking ({error.errors()[0]['msg']})",
                    "see what it is",
                ) from error
            link = answer.links.get("next")
            path = None if link is None else link["url"]
        return found

    def _ask(self, url: str, of_period: str = "") -> Served:
        body = self.get(url, f"/leaderboard?limit={self._depth}{of_period}").content
        count = self.get(url, f"/leaderboard/count{of_period.replace('&', '?', 1)}").content
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

"""The routes of players' ranks: one player, those around, friends, the whole ranking page by page, live."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Depends, Path, Query, Request, Response
from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from api.http.answers import is_hop
from api.http.errors import InvalidRequest
from api.http.parameters import WHOLE_NUMBER, HowMany, page_size_of, page_within, parser_of
from api.http.routes import Routes
from api.leaderboard.parameters import ID_SCHEMA, ProductId
from api.leaderboard.problems import NoSuchRank, RanksAreOff
from api.leaderboard.schemas import RANK_EXAMPLE, RANKS_EXAMPLE, Rank
from api.live.event_stream import Words
from api.live.events import HOW_IT_GOES_ON, described_stream, stream_for
from api.live.feeds import Scope
from api.reads.demand import Demand, demanded
from api.reads.ranks import Asked, Counted, One, Paged, RankPaths, Several
from api.reads.stores import ETAG_HEADER, KEEP_HEADER, ROW_HEADERS, UNAVAILABLE, described
from api.serving import Serving
from runtime.keys import Int64, KeyPair
from topology.leaderboard.periods import ALL
from topology.leaderboard.ranks import STORE

AROUND_MAX: Final = 50
IDS_MAX: Final = 1000
PAGE_SIZE: Final = 100
_PATH: Final = "/leaderboard/{productId}/players"

_INVALID: Final = {"description": "An id, a number or a cursor that cannot be"}
_NOT_FOUND: Final = {"description": "The player has no rank, the product is unknown, or ranks are off"}
_READ: Final[dict[int | str, dict[str, Any]]] = {
    304: {"description": "It is the one that `If-None-Match` names"},
    503: UNAVAILABLE,
}
_LINK: Final = {"Link": 'the next page, `</leaderboard/1/players?page_size=2&after=…>; rel="next"`, while there is one'}
_EVENTS_TEXT: Final = (
    "`rank`: where the player stands, exactly as the route without `/events` gives it, at once and when it has changed,"
    " at most once a second; `gone`: the player has no rank." + HOW_IT_GOES_ON
)


def _ids(text: Any) -> tuple[int, ...]:
    ids = tuple(map(_id, text.split(",")))
    if len(ids) > IDS_MAX:
        raise PydanticCustomError("ids", "{many} ids are more than {most}", {"many": len(ids), "most": IDS_MAX})
    return tuple(dict.fromkeys(ids))


def _all_time(text: Any) -> str:
    if text != ALL:
        raise PydanticCustomError("period", "ranks are of all time; leave it out")
    return ALL


_id: Final = parser_of(Int64)

PlayerId = Annotated[int, WHOLE_NUMBER, ID_SCHEMA, Path(alias="playerId", description="a player", examples=[3])]
Around = Annotated[
    HowMany,
    Query(
        description="a list with so many players before and so many behind",
        json_schema_extra={"minimum": 0, "maximum": AROUND_MAX},
    ),
]
# One text to FastAPI, which would take a tuple for a parameter that comes several times.
Ids = Annotated[
    Any,
    BeforeValidator(_ids),
    WithJsonSchema({"type": "string", "pattern": "^(0|-?[1-9][0-9]{0,18})(,(0|-?[1-9][0-9]{0,18}))*$"}),
    Query(description=f"only these players, at most {IDS_MAX} ids with commas between", examples=["3,1,2"]),
]
FromRank = Annotated[
    HowMany, Query(description="the rank that the first page begins with", json_schema_extra={"minimum": 1})
]
After = Annotated[str | None, Query(description="what `Link` says of the next page; it is opaque")]
AllTime = Annotated[
    str,
    BeforeValidator(_all_time),
    WithJsonSchema({"type": "string", "enum": [ALL]}),
    Query(description="ranks are of all time, unlike boards"),
]
_Demanded = Annotated[Demand, demanded(STORE)]


def rank_routes(serving: Serving) -> Routes:
    """Return the routes below `/leaderboard/{productId}/players`; where ranks are off, all say so.

    Args:
        serving: what the application answers from.
    """
    ranking = serving.rankings.get(STORE)
    if ranking is None:
        return _routes_that_are_off()
    router = Routes(
        prefix=_PATH,
        tags=["ranks"],
        responses={400: _INVALID, 404: _NOT_FOUND},
        dependencies=[Depends(_of_all_time)],
    )
    ranks = ranking.ranks(RankPaths(lambda product: _PATH.replace("{productId}", str(product)), NoSuchRank))
    feeds = ranking.feeds(Words(row="rank", key="playerId", value="rank"))

    async def answered(request: Request, product_id: int, asked: Asked, demand: Demand) -> Response:
        answer = await ranks.answer(product_id, asked, hop=is_hop(request.scope["headers"]), demand=demand)
        return await serving.sent(request, answer)

    @router.get(
        "",
        operation_id="listRanks",
        summary="The ranking of a product, page by page, or some players of it",
        response_model=list[Rank],
        responses=_READ
        | {200: described("Best first", ETAG_HEADER | ROW_HEADERS | _LINK | KEEP_HEADER, example=RANKS_EXAMPLE)},
    )
    async def players(
        request: Request,
        demand: _Demanded,
        product_id: ProductId,
        ids: Ids = None,
        page_size: Annotated[HowMany, page_size_of(f"at most so many players; {PAGE_SIZE} when left out")] = None,
        after: After = None,
        from_rank: FromRank = None,
    ) -> Response:
        if ids is not None:
            if others := [name for name in ("page_size", "after", "from_rank") if name in request.query_params]:
                raise InvalidRequest(f"ids: they name the players; leave out {', '.join(others)}")
            return await answered(request, product_id, Several(ids), demand)
        if from_rank is not None and from_rank < 1:
            raise InvalidRequest(f"from_rank: {from_rank} is below 1")
        if after is not None and from_rank is not None:
            raise InvalidRequest("from_rank: the page before says where this one begins; leave it out, or after")
        size = page_within(PAGE_SIZE if page_size is None else page_size, after, "players") or PAGE_SIZE
        behind = None if after is None else ranks.after(product_id, after)
        return await answered(request, product_id, Paged(size, behind, from_rank or 1, demand.query(STORE)), demand)

    @router.get(
        "/count",
        operation_id="countRanks",
        summary="How many players of a product have a rank",
        response_model=int,
        responses=_READ | {200: described("A bare JSON number", ETAG_HEADER | ROW_HEADERS | KEEP_HEADER, example=4)},
    )
    async def count(request: Request, demand: _Demanded, product_id: ProductId) -> Response:
        return await answered(request, product_id, Counted(), demand)

    @router.get(
        "/{playerId}",
        operation_id="getRank",
        summary="The rank of a player, and who is around",
        response_model=Rank | list[Rank],
        responses=_READ
        | {
            200: described(
                "The player's rank; with `around` a list, best first",
                ETAG_HEADER | ROW_HEADERS | KEEP_HEADER,
                example=RANK_EXAMPLE,
            ),
        },
    )
    async def one_player(
        request: Request, demand: _Demanded, product_id: ProductId, player_id: PlayerId, around: Around = None
    ) -> Response:
        if around is not None and not 0 <= around <= AROUND_MAX:
            raise InvalidRequest(f"around: {around} is not between 0 and {AROUND_MAX}")
        return await answered(request, product_id, One(player_id, around), demand)

    @router.get(
        "/{playerId}/events",
        operation_id="watchRank",
        summary="The rank of a player, live",
        tags=["live updates"],
        response_class=Response,
        responses={200: described_stream(_EVENTS_TEXT, _EVENTS_EXAMPLE)},
    )
    async def events_of(request: Request, product_id: ProductId, player_id: PlayerId) -> Response:
        return stream_for(request, feeds, serving.traffic, Scope(None, KeyPair(product_id, player_id)))

    return router


async def _of_all_time(period: AllTime = ALL) -> None:
    """Refuse a period: an answer of all time would be taken for the period's."""


_EVENTS_EXAMPLE: Final = (
    "retry: 500\n\n"
    "id: 1f0c6a52e1b8a3d09f4e7c2b\nevent: rank\n"
    'data: {"playerId":3,"playerName":"Isabelle","score":4000.0,"rank":1,"sharedRank":1,"of":2,"percentile":100.0,'
    '"entry":"c5a1f0de-0000-4000-8000-000000000001/0/7"}\n\n'
    "id: none\nevent: gone\ndata: null\n\n:\n\n"
)


def _routes_that_are_off() -> Routes:
    router = Routes(prefix=_PATH, include_in_schema=False)

    @router.get("")
    @router.get("/{rest:path}")
    async def off() -> Response:
        raise RanksAreOff

    return router

"""Live updates of boards: the board at once, then each change."""

# Annotations are read as they stand: the limit of a board is known when the routes are made.
from typing import Annotated, Any, Final

from fastapi import APIRouter, Request, Response

from api.http.answers import header
from api.http.parameters import HowMany, limit_of, limit_within
from api.http.traffic import Traffic
from api.leaderboard.parameters import ProductId
from api.leaderboard.routes import BOARDS_PATH
from api.live.event_stream import EVENT_TYPE, Words, usable_id
from api.live.events import EventStream
from api.live.feeds import Feeds, Scope
from runtime.declaration import Limits

WORDS: Final = Words(row="board", rows="boards", key="productId", value="entries")

_ONE_EXAMPLE: Final = (
    "retry: 500\n\n"
    "id: 1f0c6a52e1b8a3d09f4e7c2b\nevent: board\n"
    'data: [{"playerId":3,"productId":1,"playerName":"Isabelle","gameName":"Super Smash Bros","score":4000.0}]\n\n'
    "id: none\nevent: gone\ndata: null\n\n:\n\n"
)
_ALL_EXAMPLE: Final = (
    "retry: 500\n\n"
    "event: reset\ndata: {}\n\n"
    'id: 8b1f5c0a77d2-1\nevent: board\ndata: {"productId":1,"entries":[{"playerId":3,"productId":1,"playerName":'
    '"Isabelle","gameName":"Super Smash Bros","score":4000.0}]}\n\n'
    'id: 8b1f5c0a77d2-1\nevent: complete\ndata: {"boards":1}\n\n'
    'id: 8b1f5c0a77d2-2\nevent: gone\ndata: {"productId":1}\n\n:\n\n'
)
_COMMON: Final = (
    " Send the last `id` as `Last-Event-ID` to go on where a stream broke off. A comment comes every 15 s when nothing"
    " else does. While no copy of a partition can answer the stream stays open and waits. It ends when its instance"
    " stops; connect again after `retry` milliseconds, to any instance."
)
_ONE_TEXT: Final = (
    f"`board`: the entries, exactly as `GET {BOARDS_PATH}/{{productId}}` gives them, at once and at each change;"
    " `gone`: there is no board to show, which that route answers with 404. A slow client gets the newest board."
    + _COMMON
)
_ALL_TEXT: Final = (
    "`reset`: forget every board, all come again; `board`: a product's entries; `gone`: it has no board any more;"
    " `complete`: from here on the client has every board in the cluster." + _COMMON
)


def live_routes(feeds: Feeds, traffic: Traffic, limits: Limits) -> APIRouter:
    """Return the routes `/leaderboard/events` and `/leaderboard/{productId}/events`.

    Args:
        feeds: what live updates of boards come from.
        traffic: counts the clients.
        limits: of a board's entries.
    """
    router = APIRouter(
        prefix=BOARDS_PATH,
        tags=["live updates"],
        responses={400: {"description": "An id or a limit that cannot be"}},
    )

    limit_parameter = limit_of(limits, "a board")

    def stream(request: Request, limit: int | None, product_id: int | None = None) -> Response:
        scope = Scope(limit_within(limit, limits), product_id)
        last_event_id = usable_id(header(request.scope["headers"], b"last-event-id"))
        return EventStream(feeds, scope, last_event_id, traffic=traffic)

    @router.get(
        "/events",
        summary="Every board in the cluster, live",
        response_class=Response,
        responses={200: _described(_ALL_TEXT, _ALL_EXAMPLE)},
    )
    async def all_events(request: Request, limit: Annotated[HowMany, limit_parameter] = None) -> Response:
        return stream(request, limit)

    @router.get(
        "/{productId}/events",
        summary="One board, live",
        response_class=Response,
        responses={200: _described(_ONE_TEXT, _ONE_EXAMPLE)},
    )
    async def board_events(
        request: Request, product_id: ProductId, limit: Annotated[HowMany, limit_parameter] = None
    ) -> Response:
        return stream(request, limit, product_id)

    return router


def _described(description: str, example: str) -> dict[str, Any]:
    content = {EVENT_TYPE: {"schema": {"type": "string"}, "example": example}}
    return {"description": description, "content": content}

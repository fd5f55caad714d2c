"""Live updates of boards: the board at once, then each change."""

# Annotations are read as they stand: the limit of a board is known when the routes are made.
from typing import Annotated, Final

from fastapi import Request, Response

from api.http.parameters import HowMany, limit_of, limit_within
from api.http.routes import Routes
from api.http.traffic import Traffic
from api.leaderboard.parameters import ProductId
from api.leaderboard.period_boards import BOARDS_PATH, NO_PERIOD, Asked, BoardAnswers
from api.live.event_stream import Words
from api.live.events import HOW_IT_GOES_ON, described_stream, stream_for
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
    "id:\nevent: reset\ndata: {}\n\n"
    'id: 8b1f5c0a77d2-1\nevent: board\ndata: {"productId":1,"entries":[{"playerId":3,"productId":1,"playerName":'
    '"Isabelle","gameName":"Super Smash Bros","score":4000.0}]}\n\n'
    'id: 8b1f5c0a77d2-1\nevent: complete\ndata: {"boards":1}\n\n'
    'id: 8b1f5c0a77d2-2\nevent: gone\ndata: {"productId":1}\n\n:\n\n'
)
_ONE_TEXT: Final = (
    f"`board`: the entries, exactly as `GET {BOARDS_PATH}/{{productId}}` gives them, at once and at each change;"
    " `gone`: there is no board to show, which that route answers with 404. A slow client gets the newest board."
    " With `period` and without `at` it follows the period that runs: when one ends, the next board comes by itself."
    + HOW_IT_GOES_ON
)
_ALL_TEXT: Final = (
    "`reset`: forget every board, all come again; `board`: a product's entries; `gone`: it has no board any more;"
    " `complete`: from here on the client has every board in the cluster." + HOW_IT_GOES_ON
)


def live_routes(boards: BoardAnswers, traffic: Traffic, limits: Limits) -> Routes:
    """Return the routes `/leaderboard/events` and `/leaderboard/{productId}/events`.

    Args:
        boards: what live updates come from, of whichever period.
        traffic: counts the clients.
        limits: of a board's entries.
    """
    router = Routes(
        prefix=BOARDS_PATH,
        tags=["live updates"],
        responses={400: {"description": "An id, a limit or a period that cannot be"}, 404: NO_PERIOD},
    )

    limit_parameter, default_limit = limit_of(limits, "a board"), limits.default
    AskedFor = Annotated[Asked, boards.named]  # noqa: N806  # a type, of these boards

    @router.get(
        "/events",
        operation_id="watchBoards",
        summary="Every board in the cluster, live",
        response_class=Response,
        responses={200: described_stream(_ALL_TEXT, _ALL_EXAMPLE)},
    )
    async def all_events(
        request: Request, asked: AskedFor, limit: Annotated[HowMany, limit_parameter] = default_limit
    ) -> Response:
        feeds, scope = boards.feeds(asked, limit_within(limit, limits))
        return stream_for(request, feeds, traffic, scope)

    @router.get(
        "/{productId}/events",
        operation_id="watchBoard",
        summary="One board, live",
        response_class=Response,
        responses={200: described_stream(_ONE_TEXT, _ONE_EXAMPLE)},
    )
    async def board_events(
        request: Request,
        asked: AskedFor,
        product_id: ProductId,
        limit: Annotated[HowMany, limit_parameter] = default_limit,
    ) -> Response:
        feeds, scope = boards.feeds_of_one(asked, product_id, limit_within(limit, limits))
        return stream_for(request, feeds, traffic, scope)

    return router

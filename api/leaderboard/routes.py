"""The board routes. Fixed paths come before ids, ids before ranges."""

# Annotations are read as they stand: the limit of a board is known when the routes are made.
from typing import Annotated, Any, Final

from fastapi import Request, Response

from api.http.answers import is_hop
from api.http.errors import InvalidRequest
from api.http.parameters import HowMany, Partial, limit_of, limit_within, page_within
from api.http.routes import Routes
from api.http.schemas import KeyHosts
from api.leaderboard.parameters import After, First, Last, PageSize, ProductId
from api.leaderboard.period_boards import BOARDS_PATH, NO_PERIOD, Asked, BoardAnswers
from api.leaderboard.schemas import BOARD_EXAMPLE, BOARDS_EXAMPLE, Boards, Entry
from api.reads.framing import Rows
from api.reads.stores import KEEP_HEADER, MISSING_HEADER, ROW_HEADERS, UNAVAILABLE, UNKNOWN_HOSTS, described, next_page
from api.serving import ServedStore, Serving
from runtime.declaration import Limits
from runtime.keys import Int64
from runtime.serving.view import inclusive

_ETAG: Final = {"ETag": "changes with the board; send it back as `If-None-Match`"}
_LINK_HEADER: Final = {"Link": f'the next page, `<{BOARDS_PATH}?page_size=2&after=6>; rel="next"`, while there is one'}
_PAGED_WITH: Final = ("period", "at", "limit", "page_size", "partial", "min_position", "require", "max_lag")

_NOT_FOUND: Final = {"description": "No such board, or no boards of such a period"}
_INVALID: Final = {"description": "An id, a limit, a range or a period that cannot be"}


def board_routes(serving: Serving, served: ServedStore, boards: BoardAnswers, limits: Limits) -> Routes:
    """Return the routes below `/leaderboard`, and `/hosts/{productId}`.

    Args:
        serving: what the application answers from.
        served: the store of the boards.
        boards: what answers for them, of whichever period.
        limits: of a board's entries.
    """
    router = Routes()
    router.add(_boards(serving, boards, limits))

    @router.get(
        "/hosts/{productId}",
        tags=["operations"],
        operation_id="getBoardHosts",
        summary="Who holds a product",
        responses={400: {"description": "An id that cannot be"}, 503: UNKNOWN_HOSTS},
    )
    async def hosts_of(product_id: ProductId) -> KeyHosts:
        return served.hosts_of(product_id)

    return router


def _boards(serving: Serving, boards: BoardAnswers, limits: Limits) -> Routes:
    router = Routes(prefix=BOARDS_PATH, tags=["leaderboard"], responses={400: _INVALID, 503: UNAVAILABLE})
    limit_parameter, default_limit = limit_of(limits, "a board"), limits.default
    AskedFor = Annotated[Asked, boards.demanded]  # noqa: N806  # a type, of these boards

    @router.get(
        "",
        operation_id="listBoards",
        summary="Every board in the cluster",
        response_model=Boards,
        responses={
            200: _example(
                "The boards, ascending by product id", BOARDS_EXAMPLE, MISSING_HEADER | _LINK_HEADER | KEEP_HEADER
            ),
            404: NO_PERIOD,
        },
    )
    async def all_boards(
        request: Request,
        asked: AskedFor,
        limit: Annotated[HowMany, limit_parameter] = default_limit,
        page_size: PageSize = None,
        after: After = None,
        partial: Partial = False,
    ) -> Response:
        entries, size = limit_within(limit, limits), page_within(page_size, after, "boards")
        hop, gather = is_hop(request.scope["headers"]), boards.gather(asked)
        if size is None:
            answer = await gather.rows(entries, hop=hop, partial=partial, demand=asked.demand)
            return await serving.sent(request, answer)
        answer, last = await gather.page(entries, after, size, hop=hop, partial=partial, demand=asked.demand)
        if last is not None:
            # All pages are of one period, also where another one begins between them.
            of_period = {"at": asked.day} if asked.period else {}
            link = next_page(BOARDS_PATH, {**request.query_params, **of_period}, _PAGED_WITH, str(last))
            answer = answer._replace(headers=[*answer.headers, link])
        return await serving.sent(request, answer)

    @router.get(
        "/count",
        operation_id="countBoards",
        summary="Number of boards in the cluster",
        response_model=int,
        responses={200: _example("A bare JSON number", 2, MISSING_HEADER), 404: NO_PERIOD},
    )
    async def count(request: Request, asked: AskedFor, partial: Partial = False) -> Response:
        hop = is_hop(request.scope["headers"])
        answer = await boards.gather(asked).count(hop=hop, partial=partial, demand=asked.demand)
        return await serving.sent(request, answer)

    @router.get(
        "/count/local",
        operation_id="countLocalBoards",
        summary="Number of boards that this instance is active for",
        response_model=int,
        responses={200: _example("A bare JSON number", 1, {}), 404: NO_PERIOD},
    )
    async def count_local(request: Request, asked: Annotated[Asked, boards.named]) -> Response:
        return await serving.sent(request, boards.gather(asked).count_local())

    @router.get(
        "/{productId}",
        operation_id="getBoard",
        summary="One board",
        response_model=list[Entry],
        responses={
            200: _example("The entries, best first", BOARD_EXAMPLE, _ETAG | ROW_HEADERS | KEEP_HEADER),
            304: {"description": "The board is the one that `If-None-Match` names"},
            404: _NOT_FOUND,
        },
    )
    async def one_board(
        request: Request,
        asked: AskedFor,
        product_id: ProductId,
        limit: Annotated[HowMany, limit_parameter] = default_limit,
    ) -> Response:
        entries, hop = limit_within(limit, limits), is_hop(request.scope["headers"])
        board, key = boards.one(asked, product_id)
        return await serving.sent(request, await board.answer(key, entries, hop=hop, demand=asked.demand))

    @router.get(
        "/{from}/{to}",
        operation_id="listBoardsInRange",
        summary="The boards of a range of product ids",
        response_model=Boards,
        responses={
            200: _example("The boards, ascending by product id", BOARDS_EXAMPLE, MISSING_HEADER | KEEP_HEADER),
            404: NO_PERIOD,
        },
    )
    async def range_of_boards(
        request: Request,
        asked: AskedFor,
        first: First,
        last: Last,
        limit: Annotated[HowMany, limit_parameter] = default_limit,
        partial: Partial = False,
    ) -> Response:
        if first > last:
            raise InvalidRequest(f"from: {first} is above to: {last}; the lower product id comes first")
        entries, hop = limit_within(limit, limits), is_hop(request.scope["headers"])
        within = inclusive(Int64, first, last)
        answer = await boards.gather(asked).rows(entries, within, hop=hop, partial=partial, demand=asked.demand)
        return await serving.sent(request, answer)

    return router


def composed(boards: Rows) -> bytes:
    """Return the JSON object that maps each product id to its board, in the given order."""
    return b"{%b}" % b",".join([b'"%d":%b' % board for board in boards])


def _example(description: str, example: Any, headers: dict[str, str]) -> dict[str, Any]:
    return described(description, headers) | {"content": {"application/json": {"example": example}}}

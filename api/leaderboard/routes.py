"""The board routes. Fixed paths come before ids, ids before ranges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from api.http.answers import BOARDS_PATH, HOP, Answer, header
from api.http.delivery import Delivery
from api.http.errors import InvalidRequest
from api.http.parameters import After, First, Last, Limit, PageSize, Partial, ProductId, limit_within, page_within
from api.leaderboard.schemas import BOARD_EXAMPLE, BOARDS_EXAMPLE, Entry
from api.reads.boards import Boards
from api.reads.gather import Gather

_BOARD_HEADERS: Final = {
    "ETag": "changes with the board; send it back as `If-None-Match`",
    "X-Served-By": "host:port of the instance whose store answered",
    "X-Store-Role": "`active` or `standby`",
    "X-Store-Lag": "records that the store is behind the end of its topic partition",
}
_MISSING_HEADER: Final = {"X-Missing-Partitions": "those that are not in the answer, when a part was asked for"}


def _described(description: str, example: Any, headers: dict[str, str]) -> dict[str, Any]:
    return {
        "description": description,
        "content": {"application/json": {"example": example}},
        "headers": {name: {"description": text, "schema": {"type": "string"}} for name, text in headers.items()},
    }


_KEEP_HEADER: Final = {"Cache-Control": "how long the answer may be kept; `no-store` when it is a part"}
_LINK_HEADER: Final = {"Link": f'the next page, `<{BOARDS_PATH}?page_size=2&after=6>; rel="next"`, while there is one'}
_PAGED_WITH: Final = ("limit", "page_size", "partial")

_NOT_FOUND: Final = {"description": "No such board"}
_INVALID: Final = {"description": "An id, a limit or a range that cannot be"}
_UNAVAILABLE: Final = {"description": "No copy can answer right now; try again after `Retry-After`"}


def board_routes(boards: Boards, gather: Gather, delivery: Delivery, depth: int) -> APIRouter:
    """Return the routes below `/leaderboard`.

    Args:
        boards: answers for one board.
        gather: answers for many.
        delivery: makes the answers ready to be sent.
        depth: the most entries served of a board.
    """
    router = APIRouter(prefix=BOARDS_PATH, tags=["leaderboard"], responses={400: _INVALID, 503: _UNAVAILABLE})

    async def sent(request: Request, answer: Answer) -> Response:
        return (await delivery.of(answer, request.scope["headers"])).to_response()

    @router.get(
        "",
        summary="Every board in the cluster",
        response_model=dict[str, list[Entry]],
        responses={
            200: _described(
                "The boards, ascending by product id", BOARDS_EXAMPLE, _MISSING_HEADER | _LINK_HEADER | _KEEP_HEADER
            )
        },
    )
    async def all_boards(
        request: Request,
        limit: Limit = None,
        page_size: PageSize = None,
        after: After = None,
        partial: Partial = False,
    ) -> Response:
        entries, size = limit_within(limit, depth), page_within(page_size, after)
        if size is None:
            return await sent(request, await gather.boards(entries, hop=is_hop(request), partial=partial))
        answer, last = await gather.page(entries, after, size, hop=is_hop(request), partial=partial)
        if last is not None:
            answer = answer._replace(headers=[*answer.headers, next_page(request.query_params, last)])
        return await sent(request, answer)

    @router.get(
        "/count",
        summary="Number of boards in the cluster",
        response_model=int,
        responses={200: _described("A bare JSON number", 2, _MISSING_HEADER)},
    )
    async def count(request: Request, partial: Partial = False) -> Response:
        return await sent(request, await gather.count(hop=is_hop(request), partial=partial))

    @router.get(
        "/count/local",
        summary="Number of boards that this instance is active for",
        response_model=int,
        responses={200: _described("A bare JSON number", 1, {})},
    )
    async def count_local(request: Request) -> Response:
        return await sent(request, gather.count_local())

    @router.get(
        "/{productId}",
        summary="One board",
        response_model=list[Entry],
        responses={
            200: _described("The entries, best first", BOARD_EXAMPLE, _BOARD_HEADERS | _KEEP_HEADER),
            304: {"description": "The board is the one that `If-None-Match` names"},
            404: _NOT_FOUND,
        },
    )
    async def one_board(request: Request, product_id: ProductId, limit: Limit = None) -> Response:
        answer = await boards.answer(product_id, limit_within(limit, depth), hop=is_hop(request))
        return await sent(request, answer)

    @router.get(
        "/{from}/{to}",
        summary="The boards of a range of product ids",
        response_model=dict[str, list[Entry]],
        responses={
            200: _described("The boards, ascending by product id", BOARDS_EXAMPLE, _MISSING_HEADER | _KEEP_HEADER)
        },
    )
    async def range_of_boards(
        request: Request, first: First, last: Last, limit: Limit = None, partial: Partial = False
    ) -> Response:
        if first > last:
            raise InvalidRequest(f"from: {first} is above to: {last}; the lower product id comes first")
        entries = limit_within(limit, depth)
        return await sent(request, await gather.boards(entries, first, last, hop=is_hop(request), partial=partial))

    return router


def is_hop(request: Request) -> bool:
    """Return whether another instance has forwarded the request here."""
    return header(request.scope["headers"], HOP) is not None


def next_page(query: Mapping[str, str], last: int) -> tuple[bytes, bytes]:
    """Return the header that leads to the page after the board `last` (RFC 8288).

    Args:
        query: what this page was asked for with.
        last: the last product id of this page.
    """
    kept = {name: query[name] for name in _PAGED_WITH if name in query}
    return b"link", f'<{BOARDS_PATH}?{urlencode(kept | {"after": last})}>; rel="next"'.encode()

"""What a client may ask with: ids in their shortest form, limits, flags. Anything else is refused, never guessed at."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Final

from fastapi import Path, Query, Request
from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from api.http.errors import InvalidRequest
from runtime.errors import InvalidRecord
from runtime.records import parse_id
from runtime.serving.rendered_view import DEFAULT_LIMIT

PAGE_SIZE_MAX: Final = 1000
_ID_SCHEMA: Final = {"type": "integer", "format": "int64"}


def _shortest_integer(text: Any) -> int:
    try:
        return parse_id(text)
    except InvalidRecord as error:
        raise PydanticCustomError("id", "{reason}", {"reason": str(error)}) from error


def _true_or_false(text: Any) -> bool:
    if text not in ("true", "false"):
        raise PydanticCustomError("flag", "it is either true or false")
    return bool(text == "true")


_Id = Annotated[int, BeforeValidator(_shortest_integer), WithJsonSchema(_ID_SCHEMA)]

ProductId = Annotated[_Id, Path(alias="productId", description="a product", examples=[1])]
First = Annotated[_Id, Path(alias="from", description="the lowest product id, inclusive", examples=[1])]
Last = Annotated[_Id, Path(alias="to", description="the highest product id, inclusive", examples=[6])]
Limit = Annotated[
    int | None,
    BeforeValidator(_shortest_integer),
    WithJsonSchema({"type": "integer", "minimum": 1}),
    Query(description="at most so many entries of a board"),
]
PageSize = Annotated[
    int | None,
    BeforeValidator(_shortest_integer),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": PAGE_SIZE_MAX}),
    Query(description="at most so many boards, in ascending order of their product ids; all when left out"),
]
After = Annotated[
    int | None,
    BeforeValidator(_shortest_integer),
    WithJsonSchema(_ID_SCHEMA),
    Query(description="only boards above this product id, the last one of the page before; goes with `page_size`"),
]
Partial = Annotated[
    bool,
    BeforeValidator(_true_or_false),
    WithJsonSchema({"type": "boolean"}),
    Query(description="whether a part will do while no copy of some partitions can answer"),
]


async def only_plain(request: Request) -> None:
    """Refuse what could be read in two ways.

    Raises:
        InvalidRequest: a parameter that the route knows stands in the query more than once, or the path holds an
            encoded slash.
    """
    if b"%2f" in request.scope["raw_path"].lower():
        raise InvalidRequest("an encoded slash stands in the path: write it as / or leave it out")
    if request.scope["query_string"]:
        given = Counter(name for name, _ in request.query_params.multi_items())
        known = (parameter.alias for parameter in request.scope["route"].dependant.query_params)
        if repeated := [name for name in known if given[name] > 1]:
            raise InvalidRequest(f"{repeated[0]}: it stands in the query more than once")


def default_limit(depth: int) -> int:
    """Return how many entries are served when a request does not say."""
    return min(DEFAULT_LIMIT, depth)


def limit_within(limit: int | None, depth: int) -> int:
    """Return how many entries to serve.

    Raises:
        InvalidRequest: the limit is not within 1 and `depth`.
    """
    if limit is None:
        return default_limit(depth)
    if not 1 <= limit <= depth:
        raise InvalidRequest(f"limit: {limit} is not between 1 and {depth}")
    return limit


def page_within(page_size: int | None, after: int | None) -> int | None:
    """Return how many boards to serve, or None for all.

    Raises:
        InvalidRequest: the size is not within 1 and 1000, or a page is asked for without one.
    """
    if page_size is None and after is not None:
        raise InvalidRequest("after: it stands without page_size; say how many boards a page has")
    if page_size is not None and not 1 <= page_size <= PAGE_SIZE_MAX:
        raise InvalidRequest(f"page_size: {page_size} is not between 1 and {PAGE_SIZE_MAX}")
    return page_size

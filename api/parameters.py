"""What a client may ask with: ids in their shortest form, limits, flags. Anything else is refused, never guessed at."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Path, Query
from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from api.errors import InvalidRequest
from topology.errors import InvalidRecord
from topology.records import parse_id
from topology.view import DEFAULT_LIMIT

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
Partial = Annotated[
    bool,
    BeforeValidator(_true_or_false),
    WithJsonSchema({"type": "boolean"}),
    Query(description="whether a part will do while no copy of some partitions can answer"),
]


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

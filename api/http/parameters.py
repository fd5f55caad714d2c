"""What a client may ask with: keys in their one form, limits, flags. Anything else is refused, never guessed at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import chain
from typing import Annotated, Any, Final, get_origin
from urllib.parse import unquote_to_bytes

from fastapi import Query, Request
from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from api.http.errors import InvalidRequest
from api.http.key_route import KeyRoute
from runtime.declaration import Limits
from runtime.errors import InvalidRecord
from runtime.keys import Int64, KeyType, KeyValue

PAGE_SIZE_MAX: Final = 1000


def parser_of(key_type: KeyType) -> Callable[[Any], KeyValue]:
    """Return what reads a key for pydantic, whose error it raises when a text is none."""

    def parse(text: Any) -> KeyValue:
        try:
            text.encode()
            return key_type.parse(text)
        except (InvalidRecord, UnicodeEncodeError) as error:
            reason = str(error) if isinstance(error, InvalidRecord) else "it is no UTF-8"
            raise PydanticCustomError("key", "{reason}", {"reason": reason}) from error

    return parse


def _true_or_false(text: Any) -> bool:
    if text not in ("true", "false"):
        raise PydanticCustomError("flag", "it is either true or false")
    return bool(text == "true")


def _asc_or_desc(text: Any) -> str:
    if text not in ("asc", "desc"):
        raise PydanticCustomError("order", "it is either asc or desc")
    return str(text)


WHOLE_NUMBER: Final = BeforeValidator(parser_of(Int64), json_schema_input_type=int)

HowMany = Annotated[int | None, WHOLE_NUMBER]
"""A number; of what, is said where it is asked for."""

Partial = Annotated[
    bool,
    BeforeValidator(_true_or_false),
    WithJsonSchema({"type": "boolean"}),
    Query(description="whether a part will do while no copy of some partitions can answer"),
]

Order = Annotated[
    str,
    BeforeValidator(_asc_or_desc),
    WithJsonSchema({"type": "string", "enum": ["asc", "desc"]}),
    Query(description="from the lowest key up, or from the highest down"),
]


def limit_of(limits: Limits | None, row: str) -> Any:
    """Return what a route says of its parameter `limit`, a `HowMany`.

    Args:
        limits: of the store; None where rows are no lists: then the parameter is not shown.
        row: what a row is called.
    """
    if limits is None:
        return Query(include_in_schema=False)
    bounds = {"minimum": 1, "maximum": limits.most}
    return Query(description=f"at most so many entries of {row}", json_schema_extra=bounds)


def page_size_of(text: str) -> Any:
    """Return what a route says of its parameter `page_size`, a `HowMany`."""
    return Query(description=text, json_schema_extra={"minimum": 1, "maximum": PAGE_SIZE_MAX})


async def only_plain(request: Request) -> None:
    """Refuse what could be read in two ways.

    Raises:
        InvalidRequest: a parameter that the route takes once stands in the query more than once, the query is no
            percent-encoded UTF-8, or the path holds an encoded slash where no key can be.
    """
    route = request.scope["route"]
    if b"%2f" in request.scope["raw_path"].lower() and not isinstance(route, KeyRoute):
        raise InvalidRequest("an encoded slash stands in the path: write it as / or leave it out")
    if query := request.scope["query_string"]:
        for piece in query.split(b"&"):
            if not _is_encoded(piece):
                raise InvalidRequest(f"{piece.partition(b'=')[0].decode('ascii', 'replace')}: it is no encoded UTF-8")
        given = Counter(name for name, _ in request.query_params.multi_items())
        parameters = chain.from_iterable(each.query_params for each in (route.dependant, *route.dependant.dependencies))
        known = (each.alias for each in parameters if get_origin(each.field_info.annotation) is not list)
        if repeated := [name for name in known if given[name] > 1]:
            raise InvalidRequest(f"{repeated[0]}: it stands in the query more than once")


def _is_encoded(text: bytes) -> bool:
    """Return whether a text is UTF-8, percent-encoded: another one could be read in several ways."""
    try:
        unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        return False
    return text.isascii()


def limit_within(limit: int | None, limits: Limits | None) -> int | None:
    """Return how many entries of a row to serve; None where rows are no lists.

    Raises:
        InvalidRequest: rows have no entries, or not so many.
    """
    if limits is None:
        if limit is not None:
            raise InvalidRequest("limit: rows of this store are no lists; leave it out")
        return None
    if limit is None:
        return limits.default
    if not 1 <= limit <= limits.most:
        raise InvalidRequest(f"limit: {limit} is not between 1 and {limits.most}")
    return limit


def page_within(page_size: int | None, after: KeyValue | None, rows: str) -> int | None:
    """Return how many rows to serve, or None for all.

    Args:
        page_size: how many were asked for, if a page was.
        after: the key that the page comes after, if any.
        rows: what rows are called.

    Raises:
        InvalidRequest: the size is not within 1 and 1000, or a page is asked for without one.
    """
    if page_size is None and after is not None:
        raise InvalidRequest(f"after: it stands without page_size; say how many {rows} a page has")
    if page_size is not None and not 1 <= page_size <= PAGE_SIZE_MAX:
        raise InvalidRequest(f"page_size: {page_size} is not between 1 and {PAGE_SIZE_MAX}")
    return page_size

"""How much of a row a client asks for, and how a peer is asked for the same."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from api.http.errors import InvalidRequest
from api.http.parameters import limit_within
from runtime.declaration import Store
from runtime.serving.view import Cut, Span
from runtime.types import FIRST_MS, LAST_MS, Timestamp, check_timestamp
from runtime.windows import ms_of

_PARTS: Final = ("since", "until")
_WANTED: Final = "ISO 8601 with a zone, or milliseconds from 1970"


def _instant(text: Any) -> int:
    try:
        number = int(text) if text.isascii() and text.lstrip("-").isdigit() else text
        return ms_of(check_timestamp(number))
    except (TypeError, ValueError) as error:
        raise PydanticCustomError(
            "time", "{reason}; a time is {wanted}", {"reason": str(error), "wanted": _WANTED}
        ) from error


_SCHEMA: Final = {"anyOf": [dict(Timestamp.json_schema), {"type": "integer", "minimum": FIRST_MS, "maximum": LAST_MS}]}

Instant = Annotated[int | None, BeforeValidator(_instant), WithJsonSchema(_SCHEMA)]
"""A time of day of a date, in milliseconds from 1970; of what, is said where it is asked for."""


def since_of(store: Store) -> Any:
    """Return what a route says of its parameter `since`, an `Instant`."""
    return _query_of(store, "only windows that begin at this time or later")


def until_of(store: Store) -> Any:
    """Return what a route says of its parameter `until`, an `Instant`."""
    return _query_of(store, "only windows that begin at this time or earlier")


def _query_of(store: Store, meaning: str) -> Any:
    return Query(description=f"{meaning}; {_WANTED}", include_in_schema=store.window is not None)


def cut_within(store: Store, limit: int | None, since_ms: int | None = None, until_ms: int | None = None) -> Cut:
    """Return how much of a row to serve.

    Args:
        store: whose row it is.
        limit: so many entries, if that was said.
        since_ms: windows that begin at this time or later, if that was said.
        until_ms: windows that begin at this time or earlier, if that was said.

    Raises:
        InvalidRequest: rows of the store have no such parts.
    """
    entries = limit_within(limit, store.limits)
    given = dict(zip(_PARTS, (since_ms, until_ms), strict=True))
    if since_ms is None and until_ms is None:
        return entries
    if store.window is None:
        name = next(name for name, ms in given.items() if ms is not None)
        raise InvalidRequest(f"{name}: rows of this store are of no windows; leave it out")
    if since_ms is not None and until_ms is not None and since_ms > until_ms:
        raise InvalidRequest("since: it is after until; the earlier time comes first")
    return Span(since_ms, until_ms)


def query_of(cut: Cut) -> str:
    """Return it as parameters of a request to a peer, an `&` in front of each; empty when there is nothing to say.

    >>> query_of(3), query_of(Span(0, None)), query_of(None)
    ('&limit=3', '&since=0', '')
    """
    if isinstance(cut, Span):
        return "".join(f"&{name}={ms}" for name, ms in zip(_PARTS, cut, strict=True) if ms is not None)
    return "" if cut is None else f"&limit={cut}"

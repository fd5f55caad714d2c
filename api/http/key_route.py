"""Routes with a key in their path: any text, percent-encoded, also one with a slash in it.

ASGI's path is decoded: a slash of the key could not be told from those between the parts. So these routes look at the
path as it came, with all decoded but slashes and the percent signs that could be mistaken for theirs.
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import quote, unquote

from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

_KEPT: Final = re.compile("%(2[fF]|25)")


class KeyRoute(APIRoute):
    """A route whose path parameters may hold slashes."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether the route answers, and what its parameters are, as Starlette has it."""
        if scope["type"] != "http":
            return Match.NONE, {}
        raw = scope["raw_path"].decode("ascii", "surrogateescape")
        match, found = super().matches({**scope, "path": decoded(_KEPT.sub(r"%25\1", raw))})
        if match is not Match.NONE:
            found["path_params"] = {name: _whole(value) for name, value in found["path_params"].items()}
        return match, found


def encoded(key: str) -> str:
    """Return the text of a key as one part of a path."""
    return quote(key, safe="")


def decoded(text: str) -> str:
    """Return a percent-encoded text decoded; what is no UTF-8 becomes what cannot be encoded again."""
    return unquote(text, errors="surrogateescape")


def _whole(value: Any) -> Any:
    return _KEPT.sub(lambda kept: unquote(kept[0]), value) if isinstance(value, str) else value

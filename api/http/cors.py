"""Pages of other origins that may read answers: none, unless they are named (the Fetch standard's CORS protocol)."""

from __future__ import annotations

from typing import Final

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

EXPOSED: Final = (
    "ETag", "Link", "Retry-After", "X-Missing-Partitions", "X-Request-ID", "X-Served-By", "X-Store-Lag",
    "X-Store-Position", "X-Store-Role",
)  # fmt: skip
"""What a page may see beside the body."""

_ALLOWED: Final = ("Authorization", "If-None-Match", "Last-Event-ID", "X-Request-ID")
_PREFLIGHT_FOR_S: Final = 3600


def shared_with(origins: tuple[str, ...], app: ASGIApp) -> ASGIApp:
    """Return the application with the headers that let pages read its answers.

    Args:
        origins: such as `https://shop.example`, or `*` for all; empty: the application as it is.
        app: what answers, refusals included: a page has to see why it is refused.
    """
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=("GET", "HEAD"),
        allow_headers=_ALLOWED,
        expose_headers=EXPOSED,
        max_age=_PREFLIGHT_FOR_S,
    )

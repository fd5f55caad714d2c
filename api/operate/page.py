"""The page at `/` for people, and `/docs`: files of this package that hold no data and load nothing from elsewhere.

Everything that the page shows it asks the other routes for, as any client could. Names on boards come from players, so
the policy below lets nothing run that is not a file of this package.
"""

from __future__ import annotations

import hashlib
from html import escape
from pathlib import Path
from string import Template
from typing import Final

from fastapi import APIRouter, Request, Response

from api.http.answers import Answer, Headers
from api.http.auth import PAGE_FILES
from api.http.delivery import Delivery
from api.http.errors import Unrouted
from runtime.diagram import svg
from topology.leaderboard.description import SUMMARY, describe

_DIRECTORY: Final = Path(__file__).parent / "static"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_IMAGE_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
"""An image that is opened by itself has its style inside."""


def page_routes(delivery: Delivery, depth: int) -> APIRouter:
    """Return the routes `/`, `/docs` and those of their files.

    Args:
        delivery: makes the answers ready to be sent.
        depth: the most entries served of a board.
    """
    router = APIRouter(include_in_schema=False)
    answers = {name: _answer(name, text) for name, text in _texts(depth).items()}

    async def sent(request: Request, name: str) -> Response:
        return (await delivery.of(answers[name], request.scope["headers"])).to_response()

    @router.get("/")
    async def page(request: Request) -> Response:
        return await sent(request, "index.html")

    @router.get("/docs")
    async def docs(request: Request) -> Response:
        return await sent(request, "docs.html")

    @router.get("/page/{name}")
    async def file(request: Request, name: str) -> Response:
        if f"/page/{name}" not in PAGE_FILES:
            raise Unrouted(404)
        return await sent(request, name)

    return router


def _texts(depth: int) -> dict[str, str]:
    """Return the text of each file by its name: those in the directory, and the pictures of the topology."""
    texts = {path.name: path.read_text("utf-8") for path in _DIRECTORY.iterdir() if path.suffix in _TYPES}
    texts["index.html"] = Template(texts["index.html"]).substitute(
        depth=depth, summary=escape(SUMMARY), topology=escape(describe())
    )
    return texts | {"topology.svg": svg(), "topology-down.svg": svg(across=False)}


def _answer(name: str, text: str) -> Answer:
    body = text.encode()
    etag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'.encode()
    suffix = Path(name).suffix
    headers: Headers = [
        (b"content-type", _TYPES[suffix].encode()),
        (b"etag", etag),
        (b"content-security-policy", (_IMAGE_POLICY if suffix == ".svg" else POLICY).encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
    ]
    return Answer(200, headers, body, etag)

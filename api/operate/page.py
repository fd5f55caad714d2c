"""The page at `/` for people, and `/docs`: files of the program that hold no data and load nothing from elsewhere.

Everything that the page shows it asks the other routes for, as any client could. What is shown may come from anybody,
so the policy below lets nothing run that is not a file of the program.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from string import Template
from typing import Final

from fastapi import HTTPException, Request, Response

from api.components import Components
from api.http.answers import Answer, Headers
from api.http.routes import Routes
from api.own import Page
from api.serving import Serving
from runtime import diagram

_OF_EVERY_TOPOLOGY: Final = Page(directory=Path(__file__).parents[1] / "static")
_WHOLE: Final = ("index.html", "docs.html")
"""Files with a path of their own."""
_PARTS: Final = {"head": "head.html", "nav": "nav.html", "views": "views.html"}
"""Files that `index.html` is filled with; a topology's page has them, the page of every topology has none."""
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


class Pages:
    """The files of the page.

    Args:
        components: what the instance answers with.
        own: the page of the topology, if it has one.

    Attributes:
        paths: of all files but whole pages.
    """

    def __init__(self, components: Components, own: Page | None) -> None:
        self._answers = {name: _answer(name, text) for name, text in _texts(components, own)}
        self.paths = frozenset(f"/page/{name}" for name in self._answers if name not in _WHOLE)

    def routes(self, serving: Serving) -> Routes:
        """Return the routes `/`, `/docs` and those of their files.

        Args:
            serving: what the application answers from.
        """
        router = Routes(include_in_schema=False)

        @router.get("/")
        async def page(request: Request) -> Response:
            return await serving.sent(request, self._answers["index.html"])

        @router.get("/docs")
        async def docs(request: Request) -> Response:
            return await serving.sent(request, self._answers["docs.html"])

        @router.get("/page/{name}")
        async def file(request: Request, name: str) -> Response:
            if f"/page/{name}" not in self.paths:
                raise HTTPException(404)
            return await serving.sent(request, self._answers[name])

        return router


def _texts(components: Components, own: Page | None) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each file: those of the directories, and the pictures of the topology."""
    page = own or _OF_EVERY_TOPOLOGY
    paths = {path.name: path for each in (_OF_EVERY_TOPOLOGY, page) for path in each.directory.iterdir()}
    texts = {name: path.read_text("utf-8") for name, path in paths.items() if path.suffix in _TYPES}
    texts["index.html"] = _filled(texts["index.html"], texts, components, page.values)
    yield from ((name, text) for name, text in texts.items() if name not in _PARTS.values())
    yield "topology.svg", diagram.svg(components.description)
    yield "topology-down.svg", diagram.svg(components.description, across=False)


def _filled(frame: str, texts: Mapping[str, str], components: Components, values: Mapping[str, str]) -> str:
    name = components.topology.name
    of_every_topology = {
        "title": name,
        "about": f"The stores of {name}, and the cluster that serves them",
        "things": "stores",
        "json": "stores",
        "rows": "Rows",
        "source": "its source",
        "summary": components.description.summary,
        "topology": diagram.text(components.description),
    }
    given = {name: escape(value) for name, value in {**of_every_topology, **values}.items()}
    parts = {part: Template(texts.get(file, "")).substitute(given).rstrip() for part, file in _PARTS.items()}
    return Template(frame).substitute(given, **parts)


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

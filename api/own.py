"""What a topology answers beside what every one does: routes of its own, and a page and names that say what rows are.

A module of one's own has a function that makes them (`--routes module:NAME`):

    def routes(serving: Serving) -> Own:
        hello = serving.stores["counts-store"].one_row("/words/{word}", lambda word: NoSuchKey("counts-store", word))
        router = APIRouter()

        @router.get("/words/{word}")
        async def one_word(request: Request, word: str) -> Response:
            answer = await hello.answer(word, None, hop=is_hop(request.scope["headers"]))
            return await serving.sent(request, answer)

        return Own(routers=[router], rows=[hello])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fastapi import APIRouter

from api.operate.metric_names import MetricNames
from api.reads.one_row import OneRow
from api.serving import Serving


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of one's own at `/`, in the frame of every page: its header, the stores, the cluster, the topology.

    Attributes:
        directory: `views.html`, what is shown first; `nav.html`, the links that lead there; `head.html`, what its head
            has besides; and files that these name, which come before those that every topology has.
        values: texts by name, for `string.Template` in these files, and what the frame says: `title`, `about`,
            `things` at the path `json`, `rows`, `source`.
    """

    directory: Path
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """What a topology answers beside what every one does.

    Attributes:
        routers: their routes come first.
        rows: what answers routes of one row that have to be fast: in front of FastAPI, with the same answers. No other
            path may begin as theirs do and end with a key.
        page: instead of the page of every topology.
        metrics: what metrics are called where their names say what rows are.
        hint: where to go, for who asks for a path that is none.
    """

    routers: Sequence[APIRouter] = ()
    rows: Sequence[OneRow] = ()
    page: Page | None = None
    metrics: MetricNames = field(default_factory=MetricNames)
    hint: str = "/docs lists the routes, and /stores the stores whose rows they answer."


OwnRoutes = Callable[[Serving], Own]


def no_own_routes(_: Serving) -> Own:
    """Return nothing of one's own: the topology is answered for as every one is."""
    return Own()

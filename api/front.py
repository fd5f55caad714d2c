"""The ASGI application in front of FastAPI's router: the one route that has to be fast, HEAD, and the last resort.

FastAPI's own route costs three times what the whole answer does. The front takes only requests in their plainest form;
everything else goes on to the router, whose route gives the same answers from the same `Boards`.
"""

from __future__ import annotations

import logging
import re
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.answers import HOP, Answer, conditional, header
from api.boards import Boards
from api.errors import problem
from api.parameters import default_limit
from topology.records import ID_MAX, ID_MIN

log = logging.getLogger(__name__)

_ONE_BOARD: Final = re.compile(r"/leaderboard/(0|-?[1-9][0-9]{0,18})")
_LIMIT: Final = re.compile(rb"limit=([1-9][0-9]{0,8})")


class Front:
    """The application that the server runs.

    Args:
        app: FastAPI's application.
        boards: answers for one board.
        depth: the most entries served of a board.
    """

    def __init__(self, app: ASGIApp, boards: Boards, depth: int) -> None:
        self.app = app
        self._boards = boards
        self._depth = depth
        self._default_limit = default_limit(depth)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI has it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = await self._fast(scope)
        if answer is not None:
            await answer.send(send)
        else:
            await self._routed(scope, receive, send)

    async def _fast(self, scope: Scope) -> Answer | None:
        """Return the answer when the request is for one board in the plainest form, else None."""
        if scope["method"] != "GET":
            return None
        match = _ONE_BOARD.fullmatch(scope["path"])
        limit = self._limit(scope["query_string"])
        if match is None or limit is None or not ID_MIN <= (product_id := int(match[1])) <= ID_MAX:
            return None
        headers = scope["headers"]
        try:
            answer = await self._boards.answer(product_id, limit, hop=header(headers, HOP) is not None)
        except Exception as error:
            log.exception("GET %r failed", scope["path"])
            return problem(error, scope["path"])
        return conditional(answer, header(headers, b"if-none-match"))

    def _limit(self, query: bytes) -> int | None:
        if not query:
            return self._default_limit
        match = _LIMIT.fullmatch(query)
        return int(match[1]) if match is not None and int(match[1]) <= self._depth else None

    async def _routed(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            if head and message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        head = scope["method"] == "HEAD"
        if head:
            scope = {**scope, "method": "GET"}
        try:
            await self.app(scope, receive, watched)
        except Exception as error:
            log.exception("%s %r failed", scope["method"], scope["path"])
            # FastAPI answers and raises again, for a server's log; that is done here.
            if not started:
                await problem(error, scope["path"]).send(watched)

"""The ASGI application in front of FastAPI's router: the one route that has to be fast, HEAD, and the last resort.

FastAPI's own route costs three times what the whole answer does. The front takes only requests in their plainest form;
everything else goes on to the router, whose route gives the same answers from the same `Boards`.
"""

from __future__ import annotations

import logging
import re
from typing import Final, NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.cluster.routing import Remote
from api.http.answers import BOARDS_PATH, HOP, Answer, header
from api.http.auth import Guard
from api.http.delivery import Delivery
from api.http.errors import problem
from api.http.parameters import default_limit
from api.live.events import HEAD
from api.reads.boards import Boards
from runtime.records import ID_MAX, ID_MIN

logger = logging.getLogger(__name__)

_ONE_BOARD: Final = re.compile(re.escape(BOARDS_PATH.encode()) + rb"/(0|-?[1-9][0-9]{0,18})")
_LIMIT: Final = re.compile(rb"limit=([1-9][0-9]{0,8})")


class _Asked(NamedTuple):
    """A request for one board."""

    product_id: int
    limit: int
    hop: bool


class Front:
    """The application that the server runs.

    Args:
        app: FastAPI's application.
        boards: answers for one board.
        delivery: makes its answers ready to be sent.
        depth: the most entries served of a board.
        guard: refuses requests without the token that they need; None while all may ask.
    """

    def __init__(
        self, app: ASGIApp, boards: Boards, delivery: Delivery, depth: int, guard: Guard | None = None
    ) -> None:
        self.app = app
        self._boards = boards
        self._delivery = delivery
        self._depth = depth
        self._guard = guard
        self._default_limit = default_limit(depth)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI has it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = self._refusal(scope)
        if answer is None and (asked := self._plain(scope)) is not None:
            answer = await self._waited_for(scope, asked)
        if answer is not None:
            await answer.send(send)
        else:
            await self._routed(scope, receive, send)

    def at_once(self, scope: Scope) -> Answer | None:
        """Return the answer to a request when nothing has to be waited for, else None: then call.

        Args:
            scope: of an HTTP request, as ASGI has it.
        """
        refusal = self._refusal(scope)
        if refusal is not None:
            return refusal
        asked = self._plain(scope)
        if asked is None:
            return None
        try:
            board = self._boards.at_once(asked.product_id, asked.limit, hop=asked.hop)
            return None if isinstance(board, Remote) else self._delivery.at_once(board, scope["headers"])
        except Exception as error:
            logger.exception("GET %r failed", scope["path"])
            return problem(error, scope["path"])

    async def _waited_for(self, scope: Scope, asked: _Asked) -> Answer:
        try:
            board = await self._boards.answer(asked.product_id, asked.limit, hop=asked.hop)
            return await self._delivery.of(board, scope["headers"])
        except Exception as error:
            logger.exception("GET %r failed", scope["path"])
            return problem(error, scope["path"])

    def _refusal(self, scope: Scope) -> Answer | None:
        return self._guard.refusal(scope) if self._guard is not None else None

    def _plain(self, scope: Scope) -> _Asked | None:
        """Return what is asked when the request is for one board in the plainest form, else None."""
        if scope["method"] != "GET":
            return None
        # As it came: what is encoded is not the plainest form.
        match = _ONE_BOARD.fullmatch(scope["raw_path"])
        limit = self._limit(scope["query_string"])
        if match is None or limit is None or not ID_MIN <= (product_id := int(match[1])) <= ID_MAX:
            return None
        return _Asked(product_id, limit, header(scope["headers"], HOP) is not None)

    def _limit(self, query: bytes) -> int | None:
        if not query:
            return self._default_limit
        match = _LIMIT.fullmatch(query)
        return int(match[1]) if match is not None and int(match[1]) <= self._depth else None

    async def _routed(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, asked = False, scope

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            # Who counts the answers sees the scope as it came, also that of a HEAD.
            asked["route"] = scope.get("route")
            if head and message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        head = scope["method"] == "HEAD"
        if head:
            scope = {**scope, "method": "GET", HEAD: True}
        try:
            await self.app(scope, receive, watched)
        except Exception as error:
            logger.exception("%s %r failed", scope["method"], scope["path"])
            # FastAPI answers and raises again, for a server's log; that is done here.
            if not started:
                await problem(error, scope["path"]).send(watched)

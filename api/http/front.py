"""The ASGI application in front of FastAPI's router: the routes that have to be fast, HEAD, and the last resort.

FastAPI's own route costs three times what the whole answer does. The front takes only requests for one row in their
plainest form; everything else goes on to the router, whose routes give the same answers from the same `OneRow`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.answers import Answer, is_hop
from api.http.auth import Guard
from api.http.delivery import Delivery
from api.http.errors import InvalidRequest, problem
from api.live.events import HEAD
from api.reads.demand import ANY, Demand
from api.reads.one_row import OneRow
from runtime.errors import InvalidRecord
from runtime.keys import KeyValue
from runtime.serving.view import Cut

logger = logging.getLogger(__name__)

_QUERY: Final = re.compile(rb"(?:limit=([1-9][0-9]{0,8}))?(?:(?:^|(?<=[0-9])&)min_position=([\w-]{43}))?")
"""What readers say: how many entries, and how far the copy has to be."""


_Asked = tuple[OneRow, KeyValue, Cut, Demand, bool]
"""Who answers a request for one row, and the arguments of `OneRow.answer`; a tuple: one is made for every read."""


class Front:
    """The application that the server runs.

    Args:
        app: FastAPI's application.
        rows: what answers routes of one row.
        delivery: makes their answers ready to be sent.
        guard: refuses requests without the token that they need; None while all may ask.
    """

    def __init__(self, app: ASGIApp, rows: Iterable[OneRow], delivery: Delivery, guard: Guard | None = None) -> None:
        self.app = app
        self._rows = {row.prefix.encode(): row for row in rows}
        self._delivery = delivery
        self._guard = guard

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
            row, key, cut, demand, hop = asked
            answer = row.at_once(key, cut, demand, hop=hop)
            return None if answer is None else self._delivery.at_once(answer, scope["headers"])
        except Exception as error:
            logger.exception("GET %r failed", scope["path"])
            return problem(error, scope["path"])

    def template(self, scope: Scope) -> str | None:
        """Return the template of the path of one row, None when it is another path."""
        found = self._found(scope["raw_path"])
        return None if found is None else found[0].path

    async def _waited_for(self, scope: Scope, asked: _Asked) -> Answer:
        try:
            row, key, cut, demand, hop = asked
            answer = await row.answer(key, cut, hop=hop, demand=demand)
            return await self._delivery.of(answer, scope["headers"])
        except Exception as error:
            logger.exception("GET %r failed", scope["path"])
            return problem(error, scope["path"])

    def _refusal(self, scope: Scope) -> Answer | None:
        return self._guard.refusal(scope) if self._guard is not None else None

    def _plain(self, scope: Scope) -> _Asked | None:
        """Return what is asked when the request is for one row in the plainest form, else None."""
        if scope["method"] != "GET":
            return None
        found = self._found(scope["raw_path"])
        if found is None:
            return None
        row, key = found
        limit, demand, query = row.default_limit, ANY, scope["query_string"]
        if query:
            match = _QUERY.fullmatch(query)
            if match is None:
                return None
            if match[1] and (row.limits is None or (limit := int(match[1])) > row.limits.most):
                return None
            try:
                demand = Demand.of(row.store, match[2].decode() if match[2] else None, None, None)
            except InvalidRequest:
                return None
        # Who counts the answers knows by its path what was asked for.
        scope["route"] = row
        return row, key, limit, demand, is_hop(scope["headers"])

    def _found(self, raw_path: bytes) -> tuple[OneRow, KeyValue] | None:
        """Return whose key the path ends with, None when it is no plain one of any."""
        prefix, _, text = raw_path.rpartition(b"/")
        row = self._rows.get(prefix)
        # As it came: what is encoded is not the plainest form.
        if row is None or b"%" in text:
            return None
        try:
            return row, row.parse(text.decode("ascii"))
        except (InvalidRecord, UnicodeDecodeError):
            return None

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

"""The outermost application: gives each request its id and counts each answer, whoever behind it has made that."""

from __future__ import annotations

from collections.abc import Awaitable
from time import perf_counter
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.answers import SERVED_BY, STORE_ROLE, Answer, Headers
from api.http.front import Front
from api.http.request_ids import CURRENT, HEADER, RequestId
from api.http.traffic import Traffic

_OTHER: Final = "other"
_PROBLEM: Final = 400
_ACTIVE: Final = (STORE_ROLE, b"active")
_STANDBY: Final = (STORE_ROLE, b"standby")


class Observed:
    """The application that the server runs.

    Args:
        app: what answers.
        front: what of it answers at once, and knows the paths of what it has answered.
        traffic: counts the answers.
        address: host:port of this instance, as `X-Served-By` has it.
    """

    def __init__(self, app: ASGIApp, front: Front, traffic: Traffic, address: str) -> None:
        self.app = app
        self._front = front
        # Behind pages of other origins there are headers to add: then each answer goes through all of it.
        self._at_once = front.at_once if app is front else None
        self._traffic = traffic
        self._served_here = (SERVED_BY, address.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI has it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began_s = perf_counter()
        request_id = RequestId(_given(scope["headers"]))

        def observed(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start":
                # When it begins and not when it ends: live updates go on for hours.
                status, headers = message["status"], message["headers"]
                self._count(scope, status, headers, perf_counter() - began_s)
                if _names_id(request_id, status):
                    message = {**message, "headers": [*headers, (HEADER, request_id.text.encode())]}
            return send(message)

        before = CURRENT.set(request_id)
        try:
            await self.app(scope, receive, observed)
        finally:
            CURRENT.reset(before)

    def at_once(self, scope: Scope) -> Answer | None:
        """Return the answer to a request when nothing has to be waited for, else None: then call.

        Args:
            scope: of an HTTP request, as ASGI has it.
        """
        if self._at_once is None:
            return None
        began_s = perf_counter()
        request_id = RequestId(_given(scope["headers"]))
        before = CURRENT.set(request_id)
        try:
            answer = self._at_once(scope)
        finally:
            CURRENT.reset(before)
        if answer is None:
            return None
        self._count(scope, answer.status, answer.headers, perf_counter() - began_s)
        if _names_id(request_id, answer.status):
            return answer._replace(headers=[*answer.headers, (HEADER, request_id.text.encode())])
        return answer

    def _count(self, scope: Scope, status: int, headers: Headers, seconds: float) -> None:
        self._traffic.answered(self._route(scope), self._role(headers), status, seconds)

    def _role(self, headers: Headers) -> str:
        """Return whose copy of one row has answered; "none" when the answer is not about one."""
        # Searching the list costs a third of a loop over it: this is done for every request.
        if _ACTIVE in headers:
            return "active" if self._served_here in headers else "forwarded"
        if _STANDBY in headers:
            return "standby" if self._served_here in headers else "forwarded"
        return "none"

    def _route(self, scope: Scope) -> str:
        """Return the template of the path: as many as there are routes, whatever clients ask for."""
        route = scope.get("route")
        # Without one it was refused before anybody asked where it leads.
        return str(route.path) if route is not None else self._front.template(scope) or _OTHER


def _given(headers: Headers) -> bytes | None:
    for name, value in headers:
        if name == HEADER:
            return value
    return None


def _names_id(request_id: RequestId, status: int) -> bool:
    return status >= _PROBLEM or request_id.known is not None

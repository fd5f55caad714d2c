"""One id for a request, on whichever instances it is worked on: in log lines, in forwards and in the answer's header.

A client may give one. Otherwise one is made when something first needs it (a log line, a forward, a problem), so that
the many requests that nothing is ever asked about cost nothing.
"""

from __future__ import annotations

import re
import uuid
from contextvars import ContextVar
from typing import Final

HEADER: Final = b"x-request-id"

_USABLE: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class RequestId:
    """The id of one request.

    Args:
        given: what the client wrote; what cannot be used is as if it had written nothing.

    Attributes:
        known: the id, None as long as nobody has given or needed one.
    """

    __slots__ = ("known",)

    def __init__(self, given: bytes | None = None) -> None:
        self.known = given.decode() if given is not None and _USABLE.fullmatch(given) else None

    @property
    def text(self) -> str:
        """The id, made now when there is none."""
        if self.known is None:
            self.known = uuid.uuid4().hex
        return self.known


CURRENT: Final[ContextVar[RequestId | None]] = ContextVar("request_id", default=None)
"""The request that is being answered here, None outside of any."""

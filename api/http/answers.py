"""A whole answer as one value, shared by the ASGI front and the FastAPI routes so that they cannot differ."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from starlette.responses import Response
from starlette.types import Send

HOP: Final = b"x-leaderboard-hop"
"""Marks a request that an instance has forwarded; it is never forwarded again."""

SERVED_BY: Final = b"x-served-by"
STORE_ROLE: Final = b"x-store-role"
STORE_LAG: Final = b"x-store-lag"
STORE_POSITION: Final = b"x-store-position"
UNMET: Final = b"x-store-unmet"
"""Why an instance cannot answer just this, to the peer that asked: its copy lacks something of what was demanded, or
its order is being made. The instance itself is well."""
PARTITIONS: Final = b"x-partitions"
POSITIONS: Final = b"x-store-positions"
"""To a peer: how far the copies had read whose rows are in an answer."""
MISSING_PARTITIONS: Final = b"x-missing-partitions"

Headers = list[tuple[bytes, bytes]]

JSON_TYPE: Final = (b"content-type", b"application/json")
NO_STORE: Final = (b"cache-control", b"no-store")
"""Of what nobody may keep: errors, a part of the rows, a stream."""

_LISTED_TAG: Final = re.compile(rb'(?:^|,)\s*(?:W/)?("[^"]*")\s*(?=,|$)')


class Answer(NamedTuple):
    """Status, headers (lower case, without the length) and body.

    Attributes:
        etag: the quoted entity tag that `If-None-Match` is compared with, or None.
    """

    status: int
    headers: Headers
    body: bytes
    etag: bytes | None = None

    def to_response(self) -> Response:
        """Return the answer as FastAPI's routes hand it on."""
        response = Response(status_code=self.status)
        response.body = self.body
        response.raw_headers = self.sent_headers()
        return response

    async def send(self, send: Send) -> None:
        """Send the answer as ASGI messages."""
        await send({"type": "http.response.start", "status": self.status, "headers": self.sent_headers()})
        await send({"type": "http.response.body", "body": self.body})

    def sent_headers(self) -> Headers:
        """Return the headers with the length of the body."""
        if self.status == 304:
            return self.headers
        # First, so that the server finds it at once.
        return [(b"content-length", b"%d" % len(self.body)), *self.headers]


def unmet(answer: Answer, reason: str) -> Answer:
    """Return a refusal that also tells a peer why just this cannot be answered here; see `UNMET`."""
    return answer._replace(headers=[*answer.headers, (UNMET, reason.encode())])


def header(headers: Headers, name: bytes) -> bytes | None:
    """Return a request header, its lines joined as RFC 9110 section 5.2 says, or None."""
    found = None
    # A loop: a list would be made for every request, several times.
    for key, value in headers:
        if key == name:
            found = value if found is None else b"%b, %b" % (found, value)
    return found


def is_hop(headers: Headers) -> bool:
    """Return whether another instance has forwarded the request with these headers."""
    return header(headers, HOP) is not None


def conditional(answer: Answer, if_none_match: bytes | None) -> Answer:
    """Return the answer, or 304 when the client has it already (RFC 9110 section 13.1.2: tags compare weakly)."""
    if if_none_match is None or answer.etag is None:
        return answer
    if if_none_match.strip() != b"*" and answer.etag not in _LISTED_TAG.findall(if_none_match):
        return answer
    kept = [(name, value) for name, value in answer.headers if name != b"content-type"]
    return Answer(304, kept, b"", answer.etag)

"""The last step of an answer about rows: 304 for who has it, gzip for who takes it, and how long it may be kept.

Errors are never kept; a part of the rows neither, since the whole may be had a moment later.
"""

from __future__ import annotations

import asyncio
import gzip
import re
from dataclasses import dataclass
from typing import Final

from api.http.answers import NO_STORE, Answer, Headers, conditional, header

GZIP_FROM_BYTES: Final = 1024
"""A smaller body fits into one packet as it is."""

_LEVEL: Final = 2
"""Rows are repetitive: higher levels cost several times as much and gain a tenth."""
_IN_THREAD_FROM_BYTES: Final = 64 * 1024
KEPT_BYTES: Final = 8 << 20
"""A larger body is made anew for each request, as is what is made of it."""
_VARY: Final = (b"vary", b"accept-encoding")
_ENCODED: Final = (b"content-encoding", b"gzip")
_GZIP: Final = re.compile(rb"(?:^|,)\s*(gzip|x-gzip|\*)\s*(?:;\s*q\s*=\s*([0-9.]+)\s*)?(?=,|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """Who else may use an answer.

    Attributes:
        max_age_s: how long caches may, without asking again; 0: they ask each time, with the entity tag.
        private: whether only the client itself may keep it.
        cors_origins: origins whose pages may read answers, `*` for all; empty: none.
    """

    max_age_s: int = 0
    private: bool = False
    cors_origins: tuple[str, ...] = ()

    @property
    def cache_control(self) -> bytes:
        """The value of `Cache-Control` of an answer about rows."""
        if not self.max_age_s:
            return b"private, no-cache" if self.private else b"no-cache"
        return b"%b, max-age=%d" % (b"private" if self.private else b"public", self.max_age_s)


class Delivery:
    """Makes answers ready to be sent.

    Args:
        sharing: who else may use them.
    """

    def __init__(self, sharing: Sharing) -> None:
        self._cache_control = (b"cache-control", sharing.cache_control)
        self._last: tuple[bytes, bytes] = (b"", b"")

    def at_once(self, answer: Answer, request_headers: Headers) -> Answer | None:
        """Return the answer as it is sent to who sent these headers, or None when that may take a while: see `of`."""
        if answer.status == 200 and len(answer.body) >= GZIP_FROM_BYTES:
            return None
        return conditional(self._kept(answer), header(request_headers, b"if-none-match"))

    async def of(self, answer: Answer, request_headers: Headers) -> Answer:
        """Return the answer as it is sent to who sent these headers."""
        sent = self.at_once(answer, request_headers)
        if sent is not None:
            return sent
        takes_gzip = accepts_gzip(header(request_headers, b"accept-encoding"))
        return await self._large(self._kept(answer), takes_gzip, header(request_headers, b"if-none-match"))

    def _kept(self, answer: Answer) -> Answer:
        """Return the answer with how long it may be kept."""
        if NO_STORE in answer.headers:
            return answer
        headers = [*answer.headers, self._cache_control if answer.status == 200 else NO_STORE]
        return Answer(answer.status, headers, answer.body, answer.etag)

    async def _large(self, answer: Answer, takes_gzip: bool, if_none_match: bytes | None) -> Answer:
        # The tag of other bytes for the same row is a weak one (RFC 9110 section 8.8.3).
        tag = b"W/" if takes_gzip else b""
        headers = [(name, tag + value if name == b"etag" else value) for name, value in answer.headers]
        answer = answer._replace(headers=[*headers, _VARY])
        checked = conditional(answer, if_none_match)
        if checked is not answer or not takes_gzip:
            return checked
        body = await self._compressed(answer.body)
        return answer._replace(headers=[*answer.headers, _ENCODED], body=body)

    async def _compressed(self, body: bytes) -> bytes:
        # Whoever keeps a composed body gives the same object each time, until it is another one.
        kept_for, kept = self._last
        if kept_for is body:
            return kept
        if len(body) < _IN_THREAD_FROM_BYTES:
            return _gzip(body)
        compressed = await asyncio.to_thread(_gzip, body)
        if len(body) <= KEPT_BYTES:
            self._last = (body, compressed)
        return compressed


def accepts_gzip(accept_encoding: bytes | None) -> bool:
    """Return whether a client takes gzip (RFC 9110 section 12.5.3)."""
    if accept_encoding is None:
        return False
    weights = {name.lower(): weight for name, weight in _GZIP.findall(accept_encoding)}
    for name in (b"gzip", b"x-gzip", b"*"):
        if name in weights:
            weight: bytes = weights[name]
            return not weight or weight.strip(b"0.") != b""
    return False


def _gzip(body: bytes) -> bytes:
    # No time in the head: every instance gives the same bytes.
    return gzip.compress(body, _LEVEL, mtime=0)

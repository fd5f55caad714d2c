"""Bearer tokens (RFC 6750): one kind for clients, one for instances among themselves; without any, all may ask.

hop header? ── yes ─▶ a peer's token? ── yes ─▶ answered here, never forwarded
    │ no                    └── no ──▶ 401: as a client's request it could be forwarded for ever between instances
    └─▶ open path, OPTIONS, or a client's token? ── yes ─▶ answered
                                           └── no ──▶ 401
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from starlette.types import Scope

from api.http.answers import HOP, Answer, Headers, header
from api.http.errors import Unauthorized, problem

OPEN_PATHS: Final = frozenset({"/", "/docs", "/health/live", "/health/ready", "/openapi.json"})
"""What needs no token beside the files of the page: health, for those who restart or balance, and pages that are the
same everywhere."""

AUTHORIZATION: Final = b"authorization"

_SCHEME: Final = b"bearer "
_FOR_CLIENTS: Final = (
    "Send the header `Authorization: Bearer <token>` with a token of LEADERBOARD_API_TOKEN; ask the operator for one."
)
_FOR_PEERS: Final = (
    "Requests between instances carry a token of LEADERBOARD_PEER_TOKEN: give every instance the same ones."
    " Clients leave out the header X-Leaderboard-Hop."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Who may ask; nothing is secret while both are empty.

    Attributes:
        api: any of them lets a client ask; empty: every client may.
        peer: any of them marks a request of a peer, the first is sent to peers; empty: those of `api` do.
    """

    api: tuple[str, ...] = field(default=(), repr=False)
    peer: tuple[str, ...] = field(default=(), repr=False)

    @property
    def among_peers(self) -> tuple[str, ...]:
        """The tokens of requests between instances."""
        return self.peer or self.api

    @property
    def to_peers(self) -> dict[str, str]:
        """The headers that a request to a peer carries."""
        own = {HOP.decode(): "1"}
        return own | {AUTHORIZATION.decode(): f"Bearer {self.among_peers[0]}"} if self.among_peers else own


class Guard:
    """Refuses requests without the token that they need.

    Args:
        tokens: at least one.
        open_paths: what needs none.
    """

    def __init__(self, tokens: Tokens, open_paths: frozenset[str]) -> None:
        self._open_paths = open_paths
        self._api = tuple(token.encode() for token in tokens.api)
        self._peer = tuple(token.encode() for token in tokens.among_peers)

    def refusal(self, scope: Scope) -> Answer | None:
        """Return the problem that answers the request, or None when it may be answered.

        Args:
            scope: of an HTTP request.
        """
        headers: Headers = scope["headers"]
        if header(headers, HOP) is not None:
            detail = _FOR_PEERS
            allowed = self._peer
        elif not self._api or scope["path"] in self._open_paths or scope["method"] == "OPTIONS":
            # OPTIONS tells nothing of the rows, and browsers ask it without a token.
            return None
        else:
            detail = _FOR_CLIENTS
            allowed = self._api
        sent = header(headers, AUTHORIZATION)
        if sent is not None and _is_one_of(allowed, sent):
            return None
        return problem(Unauthorized(detail, sent=sent is not None), scope["path"])


def guard_of(tokens: Tokens, open_paths: frozenset[str]) -> Guard | None:
    """Return what refuses requests, or None while there are no tokens; arguments as for `Guard`."""
    return Guard(tokens, open_paths) if tokens.among_peers else None


def _is_one_of(tokens: Iterable[bytes], sent: bytes) -> bool:
    if sent[: len(_SCHEME)].lower() != _SCHEME:
        return False
    token = sent[len(_SCHEME) :].strip()
    # All are compared, in constant time, so that the time tells nothing about any of them.
    return sum(hmac.compare_digest(token, each) for each in tokens) > 0

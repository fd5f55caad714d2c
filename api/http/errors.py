"""The one table from domain errors to problems (RFC 9457); no other module chooses the status of an error.

LeaderboardError (runtime.errors)
├── Fix
│   ├── InvalidRequest         an id, a limit or a range that cannot be
│   ├── RequestTooLarge        a request line and headers over the limit
│   ├── Unauthorized           no token, or not the right one
│   ├── NoSuchBoard            nothing to show for a product
│   └── Unrouted               no such path, or not with this method
└── Retry
    ├── PartitionsUnavailable  no copy of these partitions can answer now
    └── NotReady               the instance should get no traffic yet
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from api.http.answers import BOARDS_PATH, NO_STORE, Answer, Headers
from runtime.errors import Fix, Retry

PROBLEM_TYPE: Final = "application/problem+json"
RETRY_AFTER_S: Final = 1
_INSTANCE_MAX_CHARACTERS: Final = 500
_UNEXPECTED: Final = "The request met an error that nobody expected; the log of the instance has it. Please report it."
"""Its own message may hold what is nobody's business outside."""


class InvalidRequest(Fix):
    """An id, a limit or a range that cannot be; the message says what can."""


class RequestTooLarge(Fix):
    """Request line and headers are more than the server reads.

    Args:
        most_bytes: what it reads.
    """

    def __init__(self, most_bytes: int) -> None:
        super().__init__(f"Request line and headers may have {most_bytes} bytes: send fewer or shorter ones.")


class Unauthorized(Fix):
    """No token, or not the right one.

    Args:
        detail: which one is right.
        sent: whether a token came with the request.
    """

    def __init__(self, detail: str, *, sent: bool) -> None:
        super().__init__(detail)
        self.sent = sent


class NoSuchBoard(Fix):
    """There is nothing to show for a product."""

    def __init__(self, product_id: int) -> None:
        super().__init__(
            f"Product {product_id} has no board: it is unknown, or has no score of a known player yet."
            f" GET {BOARDS_PATH} lists the boards there are."
        )


class Unrouted(Fix):
    """No route answers: an unknown path, or a method that it does not know."""

    def __init__(self, status: int) -> None:
        super().__init__(
            "The routes are read-only: use GET or HEAD."
            if status == HTTPStatus.METHOD_NOT_ALLOWED
            else f"No such path. /docs lists the routes, and {BOARDS_PATH}/{{productId}} is the board of a product."
        )
        self.status = status


class PartitionsUnavailable(Retry):
    """No copy of these partitions can answer now.

    Args:
        reasons: why, for each partition.
        hint: what else the caller can do.
    """

    def __init__(self, reasons: Mapping[int, str], hint: str = "") -> None:
        why = "; ".join(f"partition {partition}: {reason}" for partition, reason in sorted(reasons.items()))
        super().__init__(f"{why or 'the partitions are not known yet'}. Try again shortly{hint}.")
        self.partitions = sorted(reasons)


class NotReady(Retry):
    """The instance should get no traffic yet; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What an error looks like from the outside.

    Attributes:
        status: of HTTP.
        name: the last part of its `type`; empty when the status says it all.
        title: for people.
    """

    status: int
    name: str
    title: str


KINDS: Final[Mapping[type[Exception], Kind]] = {
    InvalidRequest: Kind(400, "invalid-request", "The request cannot be"),
    RequestTooLarge: Kind(431, "request-too-large", "The request is too large"),
    Unauthorized: Kind(401, "unauthorized", "A token is needed"),
    NoSuchBoard: Kind(404, "no-such-board", "No such board"),
    PartitionsUnavailable: Kind(503, "partitions-unavailable", "No copy can answer"),
    NotReady: Kind(503, "not-ready", "Not ready"),
    Retry: Kind(503, "try-again", "Not possible right now"),
    Exception: Kind(500, "unexpected", "The service failed"),
}
"""An error is of the kind of its nearest base."""


def problem(error: Exception, path: str) -> Answer:
    """Return the problem that answers `error`.

    Args:
        error: what was raised.
        path: the request's path, decoded.
    """
    kind = _kind(error)
    fields: dict[str, Any] = {
        "type": f"urn:problem-type:leaderboard:{kind.name}" if kind.name else "about:blank",
        "title": kind.title,
        "status": kind.status,
        "detail": str(error) if kind.status != HTTPStatus.INTERNAL_SERVER_ERROR else _UNEXPECTED,
        "instance": quote(path)[:_INSTANCE_MAX_CHARACTERS],
    }
    headers: Headers = [(b"content-type", PROBLEM_TYPE.encode()), NO_STORE]
    if isinstance(error, PartitionsUnavailable):
        fields["partitions"] = error.partitions
    if kind.status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers.append((b"retry-after", b"%d" % RETRY_AFTER_S))
    if kind.status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers.append((b"allow", b"GET, HEAD"))
    if isinstance(error, Unauthorized):
        headers.append((b"www-authenticate", b'Bearer error="invalid_token"' if error.sent else b"Bearer"))
    return Answer(kind.status, headers, json.dumps(fields, separators=(",", ":")).encode())


def _kind(error: Exception) -> Kind:
    if isinstance(error, Unrouted):
        return Kind(error.status, "", HTTPStatus(error.status).phrase)
    return next(KINDS[base] for base in type(error).__mro__ if base in KINDS)

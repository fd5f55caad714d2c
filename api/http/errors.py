"""The one table from domain errors to problems (RFC 9457).

No other module chooses the status of an error; routes of a topology's own have errors of their own, which say it.

LeaderboardError (runtime.errors)
├── Fix
│   ├── InvalidRequest         a key, a limit or a range that cannot be
│   ├── RequestTooLarge        a request line and headers over the limit
│   ├── Unauthorized           no token, or not the right one
│   ├── NoSuchStore            the topology has no store of this name
│   ├── NoSuchKey              nothing to show for a key
│   ├── NoSuchTable            the topology has no table of this name
│   ├── NoSuchRow              a table has no row of a key
│   ├── OwnProblem             of a topology's own routes; its class says what it looks like
│   └── Unrouted               no such path, or not with this method
└── Retry
    ├── PartitionsUnavailable  no copy of these partitions can answer now
    ├── TableUnavailable       a table is not complete at this instance yet
    └── NotReady               the instance should get no traffic yet
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, ClassVar, Final
from urllib.parse import quote

from api.http.answers import NO_STORE, Answer, Headers
from runtime.errors import Fix, Retry

PROBLEM_TYPE: Final = "application/problem+json"
RETRY_AFTER_S: Final = 1
_INSTANCE_MAX_CHARACTERS: Final = 500
_UNEXPECTED: Final = "The request met an error that nobody expected; the log of the instance has it. Please report it."
"""Its own message may hold what is nobody's business outside."""


class InvalidRequest(Fix):
    """A key, a limit or a range that cannot be; the message says what can."""


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


class NoSuchStore(Fix):
    """The topology has no store of this name.

    Args:
        name: what was asked for.
        there: the names there are.
    """

    def __init__(self, name: str, there: Iterable[str]) -> None:
        super().__init__(f"There is no store {name[:100]!r}. The stores are: {', '.join(there)}.")


class NoSuchKey(Fix):
    """There is nothing to show for a key.

    Args:
        store: the name of the store.
        key: the text of the key.
    """

    def __init__(self, store: str, key: str) -> None:
        super().__init__(
            f"Store {store} has no row to show for the key {key[:100]!r}."
            f" GET /stores/{store}/keys lists those there are."
        )


class NoSuchTable(Fix):
    """The topology has no table of this name.

    Args:
        name: what was asked for.
        there: the names there are.
    """

    def __init__(self, name: str, there: Iterable[str]) -> None:
        super().__init__(f"There is no table {name[:100]!r}. The tables are: {', '.join(there) or 'none'}.")


class NoSuchRow(Fix):
    """A table has no row of a key.

    Args:
        table: the name of the table.
        key: the text of the key.
    """

    def __init__(self, table: str, key: str) -> None:
        super().__init__(
            f"Table {table} has no row of the key {key[:100]!r}: send a record with this key to the topic {table}."
        )


class Unrouted(Fix):
    """No route answers: an unknown path, or a method that it does not know.

    Args:
        status: of HTTP.
        hint: where to go instead.
    """

    def __init__(self, status: int, hint: str) -> None:
        super().__init__(
            "The routes are read-only: use GET or HEAD."
            if status == HTTPStatus.METHOD_NOT_ALLOWED
            else f"No such path. {hint}"
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


class TableUnavailable(Retry):
    """A table cannot answer at this instance yet.

    Args:
        table: its name.
        reason: why.
    """

    def __init__(self, table: str, reason: str) -> None:
        super().__init__(f"Table {table}: {reason}. Try again shortly.")


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


class OwnProblem(Fix):
    """What is wrong with a request to a route of a topology's own.

    Attributes:
        kind: what it looks like.
    """

    kind: ClassVar[Kind]


KINDS: Final[Mapping[type[Exception], Kind]] = {
    InvalidRequest: Kind(400, "invalid-request", "The request cannot be"),
    RequestTooLarge: Kind(431, "request-too-large", "The request is too large"),
    Unauthorized: Kind(401, "unauthorized", "A token is needed"),
    NoSuchStore: Kind(404, "no-such-store", "No such store"),
    NoSuchKey: Kind(404, "no-such-key", "No such key"),
    NoSuchTable: Kind(404, "no-such-table", "No such table"),
    NoSuchRow: Kind(404, "no-such-key", "No such key"),
    PartitionsUnavailable: Kind(503, "partitions-unavailable", "No copy can answer"),
    TableUnavailable: Kind(503, "table-unavailable", "The table cannot answer"),
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
    if isinstance(error, OwnProblem):
        return error.kind
    return next(KINDS[base] for base in type(error).__mro__ if base in KINDS)

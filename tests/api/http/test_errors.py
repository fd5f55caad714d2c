"""Every error has one problem."""

from __future__ import annotations

import json
from http import HTTPStatus

import pytest

from api.http.errors import (
    InvalidRequest,
    NoSuchKey,
    NoSuchStore,
    NotReady,
    PartitionsUnavailable,
    Unrouted,
    problem,
)
from api.leaderboard.problems import NoSuchBoard
from runtime.errors import BrokerUnavailable, InvalidRecord, StateUnusable


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (InvalidRequest("limit: 0"), 400, "urn:problem-type:leaderboard:invalid-request"),
        (NoSuchBoard(-4), 404, "urn:problem-type:leaderboard:no-such-board"),
        (NoSuchKey("counts-store", "hello"), 404, "urn:problem-type:leaderboard:no-such-key"),
        (NoSuchStore("counts", ["counts-store"]), 404, "urn:problem-type:leaderboard:no-such-store"),
        (Unrouted(404, "/docs lists the routes."), 404, "about:blank"),
        (Unrouted(405, "/docs lists the routes."), 405, "about:blank"),
        (PartitionsUnavailable({2: "restoring"}), 503, "urn:problem-type:leaderboard:partitions-unavailable"),
        (PartitionsUnavailable({}), 503, "urn:problem-type:leaderboard:partitions-unavailable"),
        (NotReady("joining"), 503, "urn:problem-type:leaderboard:not-ready"),
        (BrokerUnavailable("no broker"), 503, "urn:problem-type:leaderboard:try-again"),
        (StateUnusable("secret"), 500, "urn:problem-type:leaderboard:unexpected"),
        (InvalidRecord("a broken store"), 500, "urn:problem-type:leaderboard:unexpected"),
        (ZeroDivisionError("secret"), 500, "urn:problem-type:leaderboard:unexpected"),
    ],
)
def test_every_error_has_one_problem(error: Exception, status: int, kind: str) -> None:
    answer = problem(error, "/leaderboard/ä\x00")
    fields = json.loads(answer.body)
    headers = dict(answer.headers)
    assert (answer.status, fields["status"], fields["type"]) == (status, status, kind)
    assert fields["title"]
    assert fields["detail"].endswith(".") or status != HTTPStatus.NOT_FOUND
    assert "secret" not in fields["detail"]
    assert fields["instance"] == "/leaderboard/%C3%A4%00"
    assert headers[b"content-type"] == b"application/problem+json"
    assert (b"retry-after" in headers) == (status == 503)
    assert (b"allow" in headers) == (status == 405)


def test_missing_partitions_are_named_for_people_and_programs() -> None:
    fields = json.loads(problem(PartitionsUnavailable({3: "b:1: it refused", 1: "restoring"}), "/leaderboard").body)
    assert fields["partitions"] == [1, 3]
    assert fields["detail"] == "partition 1: restoring; partition 3: b:1: it refused. Try again shortly."

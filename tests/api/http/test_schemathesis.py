"""The OpenAPI document and the service agree: schemathesis asks what the document allows, and what it forbids."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.checks import negative_data_rejection
from schemathesis.schemas import BaseSchema

from api.http.auth import Tokens
from runtime.records import ID_MAX, ID_MIN
from tests.drivers.cluster import Cluster
from tests.drivers.fake_view import board_of
from tests.drivers.http_instance import app_alone, free_host, serving

BOARDS = {each: board_of(each) for each in (ID_MIN, -3, 0, *range(1, 12), ID_MAX)}
_ID = re.compile("-?[0-9]{1,19}")
TOKENS = Tokens(api=("a-token-of-clients",))
GIVEN = settings(
    max_examples=50,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


def operations_of(tokens: Tokens) -> BaseSchema:
    """Return what is documented, but for streams: they have no end that a check could wait for."""
    served = asyncio.run(Cluster({}, size=1, tokens=[tokens]).get("/openapi.json"))
    return schemathesis.openapi.from_dict(served.json()).exclude(path_regex="/events$")


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    """An instance with boards, on a socket."""
    host = free_host()
    with serving(app_alone(BOARDS, host), host):
        yield f"http://{host}"


@pytest.fixture(scope="module")
def guarded_url() -> Iterator[str]:
    """The same, with a token that clients need."""
    host = free_host()
    with serving(app_alone(BOARDS, host, TOKENS), host):
        yield f"http://{host}"


def agree(case: Case[Any]) -> None:
    """Make parameters fit each other: a document says of each alone what is right."""
    for parameters in (case.path_parameters, case.query):
        bounds = [str(parameters.get(name)) for name in ("from", "to")]
        if all(_ID.fullmatch(each) for each in bounds):
            parameters.update(zip(("from", "to"), sorted(map(int, bounds)), strict=True))
    if "after" in case.query and "page_size" not in case.query:
        del case.query["after"]


operations = operations_of(Tokens())


@operations.parametrize()
@GIVEN
def test_a_route_does_what_its_document_says(case: Case[Any], base_url: str) -> None:
    agree(case)
    case.call_and_validate(base_url, timeout=60)


guarded_operations = operations_of(TOKENS)


@guarded_operations.parametrize()
@GIVEN
def test_a_guarded_route_does_what_its_document_says(case: Case[Any], guarded_url: str) -> None:
    agree(case)
    case.call_and_validate(
        guarded_url,
        headers={"Authorization": f"Bearer {TOKENS.api[0]}"},
        # It would have each request without a token refused, and all of them carry one.
        excluded_checks=[negative_data_rejection],
        timeout=60,
    )

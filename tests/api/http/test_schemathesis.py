"""The OpenAPI document and the service agree: schemathesis asks what the document allows, and what it forbids."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product as product_of
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.checks import negative_data_rejection
from schemathesis.schemas import BaseSchema

from api.http.auth import Tokens
from api.main import create_app
from api.own import no_own_routes
from runtime.cluster.host_metadata import ClusterMap, HostInfo, HostMetadata
from runtime.declaration import Topology
from runtime.records import ID_MAX, ID_MIN
from runtime.windows import WindowKey, time_text
from tests.drivers.cluster import Cluster
from tests.drivers.declared import components_of
from tests.drivers.fake_view import FakeView, Rows, board_of
from tests.drivers.http_instance import EVERY_PARTITION, app_alone, free_host, serving
from tests.drivers.ranks import RankedInstances, best
from topology.browser_windows import BROWSER_WINDOWS
from topology.word_count import WORD_COUNT

PLAYERS = (ID_MIN, *range(-2, 12), ID_MAX)
PRODUCTS = (ID_MIN, -1, 0, 1, 2, ID_MAX)
BOARDS = {each: board_of(each) for each in (ID_MIN, -3, 0, *range(1, 12), ID_MAX)}
WORDS = {word: {"word": word, "count": 1} for word in ("word-1", "a/b", "0", "🎲")}
_FAR_ZONE = re.compile("[+-](?:1[89]|2[0-9]):[0-9]{2}$")
_TOO_LONG = re.compile("([0-9]{18})[0-9]")
_ID = re.compile("-?[0-9]{1,19}")
WINDOWS = {
    WindowKey(key, start): {
        "browserHash": key, "windowStart": time_text(start), "windowEnd": time_text(start + 5_000), "actions": 1
    }
    for key in ("browserHash-1", "a/b", "0", "🎲")
    for start in (0, 1_764_061_200_000)
}  # fmt: skip
TOKENS = Tokens(api=("a-token-of-clients",))
GIVEN = settings(
    max_examples=50,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


def operations_of(cluster: Cluster) -> BaseSchema:
    """Return what is documented, but for streams: they have no end that a check could wait for."""
    served = asyncio.run(cluster.get("/openapi.json"))
    return schemathesis.openapi.from_dict(served.json()).exclude(path_regex="/events$")


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    """An instance with boards, on a socket."""
    host = free_host()
    with serving(app_alone(BOARDS, host), host):
        yield f"http://{host}"


@contextmanager
def instance_of(topology: Topology, rows: Rows) -> Iterator[str]:
    """Serve rows of a topology's only store on a socket."""
    host = free_host()
    view = FakeView(topology.stores[0], rows)
    view.hold(EVERY_PARTITION)
    members = ClusterMap((HostMetadata(host, EVERY_PARTITION, runs_stream=True),), len(EVERY_PARTITION))
    with serving(create_app(components_of(view, topology, cluster=lambda: members, host=host)), host):
        yield f"http://{host}"


@pytest.fixture(scope="module")
def words_url() -> Iterator[str]:
    """An instance that counts words, on a socket."""
    with instance_of(WORD_COUNT, WORDS) as url:
        yield url


@pytest.fixture(scope="module")
def windows_url() -> Iterator[str]:
    """An instance that counts what browsers do in windows, on a socket."""
    with instance_of(BROWSER_WINDOWS, WINDOWS) as url:
        yield url


@pytest.fixture(scope="module")
def ranks_url() -> Iterator[str]:
    """An instance that ranks players, on a socket."""
    host = free_host()
    with serving(ranked().network.apps[HostInfo("instance-0", 7000)], host):
        yield f"http://{host}"


def ranked() -> Cluster:
    """Return a cluster of one instance, in which some of many players have played."""
    instances = RankedInstances(size=1)
    instances.names(PLAYERS, PRODUCTS)
    for product, player in product_of(PRODUCTS, PLAYERS):
        if (product + player) % 3:
            instances.publish(product, player, best(player % 4, player % 100))
    return instances.cluster


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
        elif all(isinstance(parameters.get(name), str) for name in ("from", "to")):
            parameters.update(zip(("from", "to"), sorted(bounds), strict=True))
    if case.meta is not None and case.meta.generation.mode.is_positive:
        fit(case.query)
    if "after" in case.query and "page_size" not in case.query:
        del case.query["after"]


def fit(query: dict[str, Any]) -> None:
    """Leave out what does not go together, of parameters that are right by themselves, and what is only given out."""
    query.pop("min_position", None)
    if query.get("key"):
        for name in ("from", "to", "prefix", "order", "page_size", "after"):
            query.pop(name, None)
    if "from" in query or "to" in query:
        query.pop("prefix", None)


def fit_ranks(case: Case[Any]) -> None:
    """Leave out what does not go together, and a cursor, which is only given out.

    Integers in texts get 18 digits: a pattern does not say that an integer is below 2^63.
    """
    case.query.pop("after", None)
    if "ids" in case.query:
        for name in ("page_size", "from_rank"):
            case.query.pop(name, None)
    for parameters in (case.path_parameters, case.query):
        for name, text in parameters.items():
            if isinstance(text, str):
                parameters[name] = _TOO_LONG.sub(r"\1", text)
            elif isinstance(text, list):
                parameters[name] = [_TOO_LONG.sub(r"\1", str(each)) for each in text]


def fit_span(query: dict[str, Any]) -> None:
    """Make a span of times: of zones that there are, and in order."""
    for name in {"since", "until"} & set(query):
        query[name] = _FAR_ZONE.sub("Z", str(query["until" if "until" in query else name]))


operations = operations_of(Cluster({}, size=1))


@operations.parametrize()
@GIVEN
def test_a_route_does_what_its_document_says(case: Case[Any], base_url: str) -> None:
    agree(case)
    case.call_and_validate(base_url, timeout=60)


word_operations = operations_of(Cluster({}, size=1, topology=WORD_COUNT, own=no_own_routes)).include(
    path_regex="^/stores/"
)


@word_operations.parametrize()
@GIVEN
def test_a_route_of_text_keys_does_what_its_document_says(case: Case[Any], words_url: str) -> None:
    agree(case)
    case.call_and_validate(words_url, timeout=60)


window_operations = operations_of(Cluster({}, size=1, topology=BROWSER_WINDOWS, own=no_own_routes)).include(
    path_regex="^/stores/"
)


@window_operations.parametrize()
@GIVEN
def test_a_route_of_windows_does_what_its_document_says(case: Case[Any], windows_url: str) -> None:
    agree(case)
    # It is only given out, as a position.
    case.query.pop("after", None)
    fit_span(case.query)
    case.call_and_validate(windows_url, timeout=60)


rank_operations = operations_of(RankedInstances(size=1).cluster).include(path_regex="/players|^/stores/personal-bests")


@rank_operations.parametrize()
@GIVEN
def test_a_route_of_ranks_does_what_its_document_says(case: Case[Any], ranks_url: str) -> None:
    agree(case)
    if case.meta is not None and case.meta.generation.mode.is_positive:
        fit_ranks(case)
    case.call_and_validate(ranks_url, timeout=60)


guarded_operations = operations_of(Cluster({}, size=1, tokens=[TOKENS]))


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

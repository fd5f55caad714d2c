"""The routes of global tables: every instance answers for all rows, from its own copy."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from api.own import no_own_routes
from runtime.declaration import PlainText, Store, Stream, Table, Topology
from runtime.keys import Int64, Key, Text
from runtime.values import Count
from tests.drivers.cluster import Cluster
from tests.drivers.table_views import TableRows

TOPOLOGY = Topology(
    "orders",
    source=Stream("orders-topic", PlainText()),
    tables=[
        Table("customers", key=Key("customer_id", Int64), fields={"name": Text, "age": Int64}),
        Table("cities", key=Key("city", Text), fields={"country": Text}),
    ],
    stores=[Store("counts", topic="counts-topic", key=Key("text", Text), values={"count": Count()})],
)
CITIES = ["Ulm", "a/b", "%2F", "a b", "@", "👍🏽", "\n"]
ROWS: TableRows = {
    "customers": {7: {"name": "Émile", "age": 41}, -3: {"name": "Jo", "age": 0}},
    "cities": {city: {"country": "DE"} for city in CITIES},
}
INSTANCES = [0, 1, 2]


def orders(**settings: Any) -> Cluster:
    return Cluster({}, topology=TOPOLOGY, own=no_own_routes, table_rows=ROWS, **settings)


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return orders()


async def everywhere(cluster: Cluster, target: str) -> httpx.Response:
    """Return the answer that every instance gives, each from its own copy."""
    answers = [await cluster.get(target, at=number) for number in INSTANCES]
    assert len({(each.status_code, each.content) for each in answers}) == 1
    assert not cluster.network.requests
    return answers[0]


async def test_every_table_says_what_it_is(cluster: Cluster) -> None:
    assert (await everywhere(cluster, "/tables")).json() == [
        {
            "name": "customers",
            "key": {"name": "customer_id", "type": "integer"},
            "fields": [{"name": "name", "type": "text"}, {"name": "age", "type": "integer"}],
            "count": 2,
        },
        {
            "name": "cities",
            "key": {"name": "city", "type": "text"},
            "fields": [{"name": "country", "type": "text"}],
            "count": len(CITIES),
        },
    ]


async def test_a_row_is_there_at_every_instance(cluster: Cluster) -> None:
    answer = await everywhere(cluster, "/tables/customers/keys/7")
    assert answer.json() == {"customer_id": 7, "name": "Émile", "age": 41}
    for number in INSTANCES:
        again = await cluster.get("/tables/customers/keys/7", at=number)
        assert (again.headers["x-served-by"], again.headers["x-store-lag"]) == (str(cluster.hosts[number]), "0")
        assert again.headers["cache-control"] == "no-cache"
        known = await cluster.get("/tables/customers/keys/7", at=number, if_none_match=answer.headers["etag"])
        assert known.status_code == 304
    assert (await everywhere(cluster, "/tables/customers/count")).json() == 2


@pytest.mark.parametrize("city", CITIES)
async def test_a_key_is_any_text(cluster: Cluster, city: str) -> None:
    answer = await everywhere(cluster, f"/tables/cities/keys/{quote(city, safe='')}")
    assert (answer.status_code, answer.json()) == (200, {"city": city, "country": "DE"})


@pytest.mark.parametrize(
    ("target", "status", "of_type"),
    [
        ("/tables/customers/keys/8", 404, "no-such-key"),
        ("/tables/customers/keys/x", 400, "invalid-request"),
        ("/tables/cities/keys/%FF", 400, "invalid-request"),
        ("/tables/customer", 404, "no-such-table"),
        ("/tables/customer/keys/7", 404, "no-such-table"),
        ("/tables/counts/count", 404, "no-such-table"),
    ],
)
async def test_what_is_not_there_or_cannot_be_is_told_apart(
    cluster: Cluster, target: str, status: int, of_type: str
) -> None:
    answer = await everywhere(cluster, target)
    assert (answer.status_code, answer.json()["type"]) == (status, f"urn:problem-type:leaderboard:{of_type}")
    if of_type == "no-such-table":
        assert "customers, cities" in answer.json()["detail"]


@pytest.mark.parametrize("path", ["/tables/", "/tables/customers", "/tables/customers/keys", "/tables/customers/keys/"])
async def test_a_path_that_is_none_is_not_there(cluster: Cluster, path: str) -> None:
    assert (await everywhere(cluster, path)).status_code == 404


async def test_a_table_that_is_not_filled_yet_says_so() -> None:
    cluster = orders(unfilled=[1])
    for target in ("/tables/customers/keys/7", "/tables/customers/count", "/tables/customers/keys/8"):
        answer = await cluster.get(target, at=1)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["type"] == "urn:problem-type:leaderboard:table-unavailable"
        assert "restoring table customers" in answer.json()["detail"]
        assert (await cluster.get(target, at=0)).status_code in (200, 404)
    assert [table["count"] for table in (await cluster.get("/tables", at=1)).json()] == [None, None]

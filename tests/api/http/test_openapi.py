"""The OpenAPI document says what the routes do."""

from __future__ import annotations

import re
from typing import Any

import pytest

from api.http.auth import Tokens
from api.own import no_own_routes
from app.topologies import OTHERS, load_application
from runtime.declaration import Json, PlainText, Row, Store, Stream, Table, Tables, Topology
from runtime.keys import Int64, Key, Text
from runtime.values import Count, Sum
from runtime.windows import Hopping, Tumbling
from tests.drivers.cluster import Cluster
from tests.drivers.ranks import RankedInstances

ROUTES = {
    "/leaderboard": {"200", "400", "404", "500", "503"},
    "/leaderboard/count": {"200", "400", "404", "500", "503"},
    "/leaderboard/count/local": {"200", "400", "404", "500", "503"},
    "/leaderboard/moderation": {"200", "500", "503"},
    "/leaderboard/{productId}": {"200", "304", "400", "404", "500", "503"},
    "/leaderboard/{from}/{to}": {"200", "400", "404", "500", "503"},
    "/leaderboard/events": {"200", "400", "404", "500"},
    "/leaderboard/{productId}/events": {"200", "400", "404", "500"},
    "/stores": {"200", "500"},
    "/stores/leader-boards": {"200", "500"},
    "/stores/leader-boards/events": {"200", "400", "500"},
    "/stores/leader-boards/keys/{key}/events": {"200", "400", "500"},
    "/stores/leader-boards/count": {"200", "400", "500", "503"},
    "/stores/leader-boards/keys": {"200", "400", "500", "503"},
    "/stores/leader-boards/keys/{key}": {"200", "304", "400", "404", "500", "503"},
    "/stores/leader-boards/keys/{key}/host": {"200", "400", "500", "503"},
    "/tables": {"200", "500"},
    "/tables/moderation/count": {"200", "500", "503"},
    "/tables/moderation/keys/{key}": {"200", "304", "400", "404", "500", "503"},
    "/tables/players/count": {"200", "500", "503"},
    "/tables/players/keys/{key}": {"200", "304", "400", "404", "500", "503"},
    "/tables/products/count": {"200", "500", "503"},
    "/tables/products/keys/{key}": {"200", "304", "400", "404", "500", "503"},
    "/topology": {"200", "500"},
    "/hosts": {"200", "500"},
    "/hosts/{productId}": {"200", "400", "500", "503"},
    "/health/live": {"200", "500"},
    "/health/ready": {"200", "500", "503"},
    "/metrics": {"200", "500"},
}


def _named(row: Row, tables: Tables) -> dict[str, Any]:
    return {**row, "customer": tables["customers"][row["order_id"]]["name"]}


ORDERS = Topology(
    "orders",
    source=Stream("orders-topic", PlainText()),
    tables=[Table("customers", key=Key("customer_id", Int64), fields={"name": Text})],
    stores=[
        Store("orders", "o", Key("order_id", Int64), {"amounts": Count()}, rows=lambda source: source, show=_named),
        Store("words", "w", Key("word", Text), {"times": Count()}, rows=lambda source: source),
        Store("odd", "d", Key("word", Text), {"n": Count()}, rows=lambda source: source, show=lambda row, _: row["x"]),
    ],
)


@pytest.fixture
async def document() -> dict[str, Any]:
    """The document as it is served."""
    response = await Cluster({}, size=1, depth=7).get("/openapi.json")
    body: dict[str, Any] = response.json()
    return body


async def test_every_route_is_documented_with_its_statuses(document: dict[str, Any]) -> None:
    assert {path: set(methods["get"]["responses"]) for path, methods in document["paths"].items()} == ROUTES


async def test_every_problem_is_problem_json(document: dict[str, Any]) -> None:
    for methods in document["paths"].values():
        for status, response in methods["get"]["responses"].items():
            if int(status) >= 400:
                assert list(response["content"]) == ["application/problem+json"]
    assert "instance" in document["components"]["schemas"]["Problem"]["required"]


async def test_every_reference_has_its_schema(document: dict[str, Any]) -> None:
    references: set[str] = set()

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            references.update([node["$ref"]] if "$ref" in node else [])
            for each in node.values():
                walk(each)
        elif isinstance(node, list):
            for each in node:
                walk(each)

    walk(document)
    assert references == {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}


async def test_operations_are_called_what_their_users_would_call_them() -> None:
    found = await operation_ids(RankedInstances(size=1).cluster)
    assert {path: found[path] for path in found if "leaderboard" in path or "players" in path} == {
        "/leaderboard": "listBoards",
        "/leaderboard/count": "countBoards",
        "/leaderboard/count/local": "countLocalBoards",
        "/leaderboard/events": "watchBoards",
        "/leaderboard/{from}/{to}": "listBoardsInRange",
        "/leaderboard/moderation": "listHidden",
        "/leaderboard/{productId}": "getBoard",
        "/leaderboard/{productId}/events": "watchBoard",
        "/leaderboard/{productId}/players": "listRanks",
        "/leaderboard/{productId}/players/count": "countRanks",
        "/leaderboard/{productId}/players/{playerId}": "getRank",
        "/leaderboard/{productId}/players/{playerId}/events": "watchRank",
        "/tables/players/count": "countPlayersTableRows",
        "/tables/players/keys/{key}": "getPlayersTableRow",
    }
    assert {path: found[path] for path in found if path.startswith("/stores/personal-bests")} == {
        "/stores/personal-bests": "describePersonalBests",
        "/stores/personal-bests/count": "countPersonalBestsRows",
        "/stores/personal-bests/keys": "listPersonalBestsRows",
        "/stores/personal-bests/keys/{key}": "getPersonalBestsRow",
        "/stores/personal-bests/events": "watchPersonalBestsRows",
        "/stores/personal-bests/keys/{key}/events": "watchPersonalBestsRow",
        "/stores/personal-bests/keys/{key}/host": "getPersonalBestsRowHosts",
    }


async def operation_ids(cluster: Cluster) -> dict[str, str]:
    """Return what each path's operation is called; no two are called the same."""
    paths = (await cluster.get("/openapi.json")).json()["paths"]
    found = {path: methods["get"]["operationId"] for path, methods in paths.items()}
    assert len(set(found.values())) == len(found)
    return found


@pytest.mark.parametrize("name", OTHERS)
async def test_each_operation_of_each_topology_has_a_name_of_its_own(name: str) -> None:
    topology = load_application(name, depth=10).topology
    found = await operation_ids(Cluster({}, size=1, topology=topology, own=no_own_routes))
    for path, called in found.items():
        assert re.fullmatch("(get|list|count|watch|describe)([A-Z][a-z0-9]*)+", called), f"{path}: {called}"


async def test_what_a_client_knows_by_name_has_one() -> None:
    models = (await RankedInstances(size=1).cluster.get("/openapi.json")).json()["components"]["schemas"]
    assert {"Boards", "Entry", "Rank", "Problem", "Order", "Require", "PersonalBestsRow", "PlayersTableRow"} <= set(
        models
    )
    assert models["PersonalBestsRow"]["required"] == ["product_id", "player_id", "best"]
    assert models["Require"] == {"title": "Require", "type": "string", "enum": ["active"]}


async def test_the_limit_is_bound_by_the_depth(document: dict[str, Any]) -> None:
    parameters = document["paths"]["/leaderboard/{productId}"]["get"]["parameters"]
    limit = next(each for each in parameters if each["name"] == "limit")
    assert limit["schema"]["minimum"] == 1
    assert limit["schema"]["maximum"] == 7
    assert limit["schema"]["default"] == 3


async def test_boards_have_examples(document: dict[str, Any]) -> None:
    for path in ("/leaderboard", "/leaderboard/{productId}", "/leaderboard/{from}/{to}"):
        content = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]
        assert "Isabelle" in str(content["example"])
        assert re.search("Entry|Boards", str(content["schema"]))


async def test_rows_of_stores_and_tables_have_examples_of_their_own_columns() -> None:
    cluster = Cluster({}, size=1, topology=ORDERS, own=no_own_routes)
    paths = (await cluster.get("/openapi.json")).json()["paths"]

    def example(path: str, of_type: str = "application/json") -> Any:
        return paths[path]["get"]["responses"]["200"]["content"][of_type]["example"]

    order = {"order_id": 7, "amounts": 7, "customer": "name-1"}
    assert example("/stores/orders/keys/{key}") == order
    assert example("/stores/orders/keys") == [order]
    assert '"order_id":7' in example("/stores/orders/keys/{key}/events", "text/event-stream")
    assert example("/stores/words/keys/{key}") == {"word": "word-1", "times": 7}
    assert example("/tables/customers/keys/{key}") == {"customer_id": 7, "name": "name-1"}
    assert example("/topology")["name"] == "orders"
    # What `show` cannot be tried with has none.
    assert "example" not in paths["/stores/odd/keys/{key}"]["get"]["responses"]["200"]["content"]["application/json"]
    parameters = {each["name"]: each for each in paths["/stores/words/keys/{key}"]["get"]["parameters"]}
    assert parameters["key"]["schema"]["examples"] == ["word-1"]
    names = {each["name"] for each in paths["/stores/words/keys"]["get"]["parameters"]}
    demands = {"min_position", "require", "max_lag"}
    assert names == {"from", "to", "prefix", "order", "key", "page_size", "after", "partial", *demands}
    assert "prefix" not in {each["name"] for each in paths["/stores/orders/keys"]["get"]["parameters"]}
    assert "hello" not in str({path: of_path for path, of_path in paths.items() if path.startswith("/stores")})


def _of_window(row: Row, tables: Tables) -> dict[str, Any]:
    return {"what": row["word"], "from": row["windowStart"], "until": row["windowEnd"], "times": row["times"]}


WINDOWED = Topology(
    "windowed",
    source=Stream("lines", Json({"word": Text, "amount": Int64})),
    stores=[
        Store("hourly", "h", Key("word", Text), {"times": Count(), "total": Sum("amount")}, window=Tumbling("1 hour")),
        Store("numbers", "n", Key("amount", Int64), {"times": Count()}, window=Hopping("5 seconds", "2 seconds")),
        Store("shown", "s", Key("word", Text), {"times": Count()}, window=Tumbling("1 hour"), show=_of_window),
    ],
)


async def test_a_key_of_a_store_with_windows_is_documented_as_their_list() -> None:
    cluster = Cluster({}, size=1, topology=WINDOWED, own=no_own_routes)
    document = (await cluster.get("/openapi.json")).json()
    paths, models = document["paths"], document["components"]["schemas"]

    def content(path: str, of_type: str = "application/json") -> Any:
        return paths[path]["get"]["responses"]["200"]["content"][of_type]

    times = {"windowStart": "2025-11-25T09:00:00.000Z", "windowEnd": "2025-11-25T10:00:00.000Z"}
    hour = {"word": "word-1", **times, "times": 7, "total": 7}
    assert list(hour) == ["word", "windowStart", "windowEnd", "times", "total"]
    of_key, of_all = content("/stores/hourly/keys/{key}"), content("/stores/hourly/keys")
    assert (of_key["example"], of_all["example"]) == ([hour], [hour])
    row = {"$ref": "#/components/schemas/HourlyRow"}
    assert of_key["schema"] == {"type": "array", "items": row}
    assert models["HourlyRow"]["properties"]["windowStart"] == {"type": "string", "format": "date-time"}
    assert models["HourlyRow"]["required"] == ["word", "windowStart", "windowEnd", "times", "total"]
    assert of_all["schema"]["items"]["anyOf"] == [row, of_key["schema"], {"type": "null"}]
    one = content("/stores/hourly/keys/{key}/events", "text/event-stream")["example"]
    every = content("/stores/hourly/events", "text/event-stream")["example"]
    assert '\ndata: [{"word":"word-1","windowStart":"2025-11-25T09:00:00.000Z"' in one
    assert '\ndata: {"key":"word-1@1764061200000","row":{"word":"word-1",' in every

    assert content("/stores/numbers/keys/{key}")["example"][0]["windowEnd"] == "2025-11-25T09:00:05.000Z"
    assert '"key":"7@1764061200000"' in content("/stores/numbers/events", "text/event-stream")["example"]
    shown = {"what": "word-1", "from": times["windowStart"], "until": times["windowEnd"], "times": 7}
    assert content("/stores/shown/keys/{key}")["example"] == [shown]
    assert content("/stores/shown/keys")["example"] == [shown]


async def test_a_span_is_documented_where_there_are_windows() -> None:
    cluster = Cluster({}, size=1, topology=WINDOWED, own=no_own_routes)
    paths = (await cluster.get("/openapi.json")).json()["paths"]

    def names(path: str) -> set[str]:
        return {each["name"] for each in paths[path]["get"].get("parameters", ())}

    spanned = {path for path in paths if {"since", "until"} <= names(path)}
    assert spanned == {
        f"/stores/{store}/keys/{{key}}{rest}" for store in ("hourly", "numbers", "shown") for rest in ("", "/events")
    }
    plain = (await Cluster({}, size=1, topology=ORDERS, own=no_own_routes).get("/openapi.json")).json()["paths"]
    assert "since" not in str(plain)


async def test_with_tokens_every_route_but_health_asks_for_one() -> None:
    body = (await Cluster({}, size=1, tokens=[Tokens(api=("a-token-of-clients",))]).get("/openapi.json")).json()
    assert body["components"]["securitySchemes"] == {"bearer": {"type": "http", "scheme": "bearer"}}
    for path, methods in body["paths"].items():
        operation = methods["get"]
        asks = "security" in operation and "401" in operation["responses"]
        assert asks != path.startswith("/health/"), path


async def test_without_tokens_no_route_asks_for_one(document: dict[str, Any]) -> None:
    assert "securitySchemes" not in document["components"]
    assert not [path for path, methods in document["paths"].items() if "security" in methods["get"]]

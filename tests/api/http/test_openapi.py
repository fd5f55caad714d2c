"""The OpenAPI document says what the routes do."""

from __future__ import annotations

from typing import Any

import pytest

from api.http.auth import Tokens
from tests.drivers.cluster import Cluster

ROUTES = {
    "/leaderboard": {"200", "400", "500", "503"},
    "/leaderboard/count": {"200", "400", "500", "503"},
    "/leaderboard/count/local": {"200", "400", "500", "503"},
    "/leaderboard/{productId}": {"200", "304", "400", "404", "500", "503"},
    "/leaderboard/{from}/{to}": {"200", "400", "500", "503"},
    "/leaderboard/events": {"200", "400", "500"},
    "/leaderboard/{productId}/events": {"200", "400", "500"},
    "/stores": {"200", "500"},
    "/stores/leader-boards": {"200", "500"},
    "/stores/leader-boards/events": {"200", "400", "500"},
    "/stores/leader-boards/keys/{key}/events": {"200", "400", "500"},
    "/stores/leader-boards/count": {"200", "400", "500", "503"},
    "/stores/leader-boards/keys": {"200", "400", "500", "503"},
    "/stores/leader-boards/keys/{key}": {"200", "304", "400", "404", "500", "503"},
    "/stores/leader-boards/keys/{key}/host": {"200", "400", "500", "503"},
    "/topology": {"200", "500"},
    "/hosts": {"200", "500"},
    "/hosts/{productId}": {"200", "400", "500", "503"},
    "/health/live": {"200", "500"},
    "/health/ready": {"200", "500", "503"},
    "/metrics": {"200", "500"},
}


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
        assert "Entry" in str(content["schema"])


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

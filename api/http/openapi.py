"""What FastAPI cannot know of the OpenAPI document: the problems, and the bounds that the settings give."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI

from api.http.auth import OPEN_PATHS
from api.http.errors import PROBLEM_TYPE
from api.http.parameters import default_limit
from api.http.schemas import Problem

_BEARER: Final = "bearer"
_REFERENCE: Final = "#/components/schemas/{model}"


def complete(app: FastAPI, depth: int) -> None:
    """Complete the document of `app`.

    Args:
        app: with all of its routes.
        depth: the most entries served of a board.
    """
    document = app.openapi()
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas["Problem"] = Problem.model_json_schema(ref_template=_REFERENCE)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for path in document["paths"].values():
        for operation in path.values():
            _complete_operation(operation, depth)


def require_token(app: FastAPI) -> None:
    """Document that clients need a bearer token; call it before `complete`.

    Args:
        app: with all of its routes.
    """
    document = app.openapi()
    document.setdefault("components", {})["securitySchemes"] = {_BEARER: {"type": "http", "scheme": "bearer"}}
    for path, operations in document["paths"].items():
        for operation in operations.values() if path not in OPEN_PATHS else ():
            operation["security"] = [{_BEARER: []}]
            challenge = {"description": "how to send a token", "schema": {"type": "string"}}
            operation["responses"]["401"] = {
                "description": "No token, or not the right one",
                "headers": {"WWW-Authenticate": challenge},
            }


def _complete_operation(operation: dict[str, Any], depth: int) -> None:
    responses = operation["responses"]
    # FastAPI documents its own answer to invalid parameters; here they are 400.
    responses.pop("422", None)
    responses.setdefault("500", {"description": "The service failed; its log says why"})
    for status, response in responses.items():
        if int(status) >= 400:
            response["content"] = {PROBLEM_TYPE: {"schema": {"$ref": _REFERENCE.format(model="Problem")}}}
        if status == "503":
            response["headers"] = {"Retry-After": {"description": "seconds", "schema": {"type": "integer"}}}
    for parameter in operation.get("parameters", []):
        if parameter["name"] == "limit":
            parameter["schema"] |= {"maximum": depth, "default": default_limit(depth)}

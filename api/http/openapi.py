"""What FastAPI cannot know of the OpenAPI document: the problems, and who may ask."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI

from api.http.errors import PROBLEM_TYPE
from api.http.schemas import Problem

_BEARER: Final = "bearer"
_REFERENCE: Final = "#/components/schemas/{model}"


def complete(app: FastAPI) -> None:
    """Complete the document of `app`, which has all of its routes."""
    document = app.openapi()
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas["Problem"] = Problem.model_json_schema(ref_template=_REFERENCE)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for path in document["paths"].values():
        for operation in path.values():
            _complete_operation(operation)


def require_token(app: FastAPI, open_paths: frozenset[str]) -> None:
    """Document that clients need a bearer token; call it before `complete`.

    Args:
        app: with all of its routes.
        open_paths: what needs none.
    """
    document = app.openapi()
    document.setdefault("components", {})["securitySchemes"] = {_BEARER: {"type": "http", "scheme": "bearer"}}
    for path, operations in document["paths"].items():
        for operation in operations.values() if path not in open_paths else ():
            operation["security"] = [{_BEARER: []}]
            challenge = {"description": "how to send a token", "schema": {"type": "string"}}
            operation["responses"]["401"] = {
                "description": "No token, or not the right one",
                "headers": {"WWW-Authenticate": challenge},
            }


def _complete_operation(operation: dict[str, Any]) -> None:
    responses = operation["responses"]
    # FastAPI documents its own answer to invalid parameters; here they are 400.
    responses.pop("422", None)
    responses.setdefault("500", {"description": "The service failed; its log says why"})
    for status, response in responses.items():
        if int(status) >= 400:
            response["content"] = {PROBLEM_TYPE: {"schema": {"$ref": _REFERENCE.format(model="Problem")}}}
        if status == "503":
            response["headers"] = {"Retry-After": {"description": "seconds", "schema": {"type": "integer"}}}

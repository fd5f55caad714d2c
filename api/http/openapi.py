"""What FastAPI cannot know of the OpenAPI document: the problems, and who may ask."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from fastapi import FastAPI

from api.http.errors import PROBLEM_TYPE
from api.http.schemas import Problem

_BEARER: Final = "bearer"
_REFERENCE: Final = "#/components/schemas/{model}"


def complete(app: FastAPI, open_paths: frozenset[str] | None) -> None:
    """Have the document of an application complete whenever it is asked for.

    It is made then: at a start it would take as long as all the routes do.

    Args:
        app: with all of its routes.
        open_paths: those that need no bearer token; None where no path needs one.
    """
    of_fastapi = app.openapi

    @cache
    def document() -> dict[str, Any]:
        made = of_fastapi()
        if open_paths is not None:
            _require_token(made, open_paths)
        schemas = made.setdefault("components", {}).setdefault("schemas", {})
        schemas["Problem"] = Problem.model_json_schema(ref_template=_REFERENCE)
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        for path in made["paths"].values():
            for operation in path.values():
                _complete_operation(operation)
        return made

    app.openapi = document  # type: ignore[method-assign]


def _require_token(document: dict[str, Any], open_paths: frozenset[str]) -> None:
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

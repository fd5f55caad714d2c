"""What FastAPI cannot know of the OpenAPI document: problems, who may ask, and what generated clients call things."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from fastapi import FastAPI

from api.http.errors import PROBLEM_TYPE
from api.http.schemas import Problem

_BEARER: Final = "bearer"
_REFERENCE: Final = "#/components/schemas/{model}"
_OF_MODEL: Final = ("title", "type", "enum", "properties", "required")


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
        for operation in _operations(made):
            _complete_operation(operation, schemas)
        return made

    app.openapi = document  # type: ignore[method-assign]


def operation_id(verb: str, name: str, what: str = "") -> str:
    """Return what generated clients call an operation of a store or a table.

    >>> operation_id("get", "word-counts", "Row")
    'getWordCountsRow'

    Args:
        verb: what it does.
        name: of the store or the table.
        what: of it is asked for.
    """
    return verb + model_name(name, what)


def model_name(name: str, what: str) -> str:
    """Return what generated clients call something of a store or a table.

    >>> model_name("word-counts", "Row")
    'WordCountsRow'

    Args:
        name: of the store or the table.
        what: of it.
    """
    words = re.findall(r"[^\W_]+", name)
    return "".join(word[0].upper() + word[1:] for word in words) + what


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in document["paths"].values():
        yield from path.values()


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


def _complete_operation(operation: dict[str, Any], schemas: dict[str, Any]) -> None:
    responses = operation["responses"]
    # FastAPI documents its own answer to invalid parameters; here they are 400.
    responses.pop("422", None)
    responses.setdefault("500", {"description": "The service failed; its log says why"})
    for status, response in responses.items():
        if int(status) >= 400:
            response["content"] = {PROBLEM_TYPE: {"schema": {"$ref": _REFERENCE.format(model="Problem")}}}
        if status == "503":
            response["headers"] = {"Retry-After": {"description": "seconds", "schema": {"type": "integer"}}}
    for response in responses.values():
        for content in response.get("content", {}).values():
            _name_models(schema := content.get("schema", {}), schemas)
            # FastAPI makes it of the operation's id, and clients would make a type of it.
            schema.pop("title", None)
    for parameter in operation.get("parameters", ()):
        _name_models(parameter["schema"], schemas)


def _name_models(schema: Any, schemas: dict[str, Any]) -> None:
    """Have clients know objects, and choices, by one name, whichever operations have them.

    Args:
        schema: what may be one, or hold some; changed.
        schemas: those of the document by name; grows.
    """
    if isinstance(schema, list):
        for each in schema:
            _name_models(each, schemas)
    elif isinstance(schema, dict):
        _name_models([schema.get("items"), schema.get("anyOf")], schemas)
        if {"properties", "enum"} & schema.keys() and (name := schema.get("title")):
            model = {key: value for key, value in schema.items() if key in _OF_MODEL}
            if schemas.setdefault(name, model) == model:
                for key in model:
                    del schema[key]
                schema["$ref"] = _REFERENCE.format(model=name)

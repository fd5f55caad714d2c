"""The parts of libraries that their makers promise nothing about: an upgrade that moves one fails here, not in use.

A library of which such parts are used is allowed up to the minor version that they were tested with.
"""

from __future__ import annotations

import ast
import dis
import importlib
import importlib.metadata
import inspect
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PRODUCT = ("app", "api", "topology", "runtime")

TESTED = {"aiokafka": "0.14", "httpx": "0.28", "pyspark": "4.3", "rocksdict": "0.3", "uvicorn": "0.54"}
"""The libraries, and the minor versions that they were tested with."""

IMPORTED = {
    "aiokafka.client": ["AIOKafkaClient"],
    "aiokafka.cluster": ["ClusterMetadata"],
    "aiokafka.conn": ["AIOKafkaConnection", "collect_hosts", "create_conn"],
    "aiokafka.consumer": ["fetcher"],
    "aiokafka.coordinator.protocol": ["ConsumerProtocolMemberAssignment", "ConsumerProtocolMemberMetadata"],
    "aiokafka.protocol.abstract": ["AbstractType"],
    "aiokafka.protocol.admin": ["DescribeConfigsRequest"],
    "aiokafka.protocol.api": ["Request", "RequestStruct", "Response"],
    "aiokafka.protocol.metadata": ["MetadataRequest"],
    "aiokafka.protocol.types": [
        "Boolean",
        "CompactArray",
        "CompactString",
        "Int16",
        "Int32",
        "Schema",
        "TaggedFields",
    ],
    "aiokafka.record.default_records": ["_DefaultRecordBatchPy"],
    "aiokafka.record.memory_records": ["MemoryRecords"],
    "uvicorn._types": ["ASGI3Application", "HTTPScope"],
    "uvicorn.protocols.http.httptools_impl": ["STATUS_LINE", "HttpToolsProtocol", "RequestResponseCycle"],
}
"""What is imported from modules that are no part of a library's documented interface."""

HTTP = "uvicorn.protocols.http.httptools_impl"
ATTRIBUTES = {
    "aiokafka.consumer:fetcher": ["MemoryRecords"],
    "aiokafka.record.default_records:_DefaultRecordBatchPy": ["_buffer"],
    f"{HTTP}:RequestResponseCycle": [
        "default_headers",
        "disconnected",
        "flow",
        "keep_alive",
        "message_event",
        "more_body",
        "on_response",
        "response_complete",
        "response_started",
        "scope",
        "send",
        "transport",
        "waiting_for_100_continue",
    ],
    f"{HTTP}:HttpToolsProtocol": [
        "_start_asgi_task",
        "connections",
        "cycle",
        "data_received",
        "eof_received",
        "flow",
        "on_response_complete",
        "parser",
        "pipeline",
        "scope",
        "server_state",
        "timeout_keep_alive",
        "transport",
    ],
    "uvicorn.protocols.http.flow_control:FlowControl": [
        "pause_reading",
        "resume_reading",
        "write_paused",
    ],
    "uvicorn:Server": ["capture_signals", "lifespan", "on_tick", "server_state", "should_exit", "startup"],
    "pyspark:SparkContext": ["_accumulatorServer", "_active_spark_context", "_gateway", "_jvm"],
    "pyspark.sql.classic.dataframe:DataFrame": ["_jdf"],
    "pyspark.sql:SparkSession": ["_instantiatedSession", "_jsc"],
    "rocksdict:Rdict": ["close", "get", "items", "write"],
}
"""Attributes that are used of classes and modules, by these."""

PUBLIC = {"aiokafka", "aiokafka.admin", "aiokafka.errors", "aiokafka.structs", "httpx", "uvicorn", "rocksdict"}
"""Modules that documented interfaces are imported from; all of pyspark but its gateway is public."""

OWN = {"_replace", "_asdict", "_fields", "_make"}
"""What a named tuple has, and promises."""


def _trees() -> Iterator[ast.AST]:
    for package in PRODUCT:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield ast.parse(path.read_text(), str(path))


def _is_private(module: str) -> bool:
    library = module.partition(".")[0]
    return library in TESTED and module not in PUBLIC and (library != "pyspark" or module == "pyspark.java_gateway")


@pytest.mark.parametrize(("module", "names"), IMPORTED.items(), ids=IMPORTED)
def test_what_is_imported_is_there(module: str, names: list[str]) -> None:
    found = importlib.import_module(module)
    assert [name for name in names if not hasattr(found, name)] == []


@pytest.mark.parametrize(("owner", "names"), ATTRIBUTES.items(), ids=ATTRIBUTES)
def test_the_attributes_that_are_used_are_there(owner: str, names: list[str]) -> None:
    module, _, name = owner.partition(":")
    of_class: Any = getattr(importlib.import_module(module), name)
    assert [name for name in names if name not in _attributes(of_class)] == []


def _attributes(of_class: Any) -> set[str]:
    """Return the attributes of a class or a module, and those that the instances of a class are given."""
    if inspect.ismodule(of_class):
        return set(vars(of_class))
    made: set[str] = set()
    for base in of_class.__mro__:
        for function in vars(base).values():
            if inspect.isfunction(function):
                made |= {each.argval for each in dis.get_instructions(function) if each.opname == "STORE_ATTR"}
        made |= set(getattr(base, "__annotations__", ()))
    return made | set(dir(of_class))


def test_the_imports_named_here_are_those_of_the_product() -> None:
    found: dict[str, set[str]] = {}
    for tree in _trees():
        for node in ast.walk(tree):
            match node:
                case ast.ImportFrom(module=str(module), names=names) if _is_private(module):
                    found.setdefault(module, set()).update(each.name for each in names)
    assert found == {module: set(names) for module, names in IMPORTED.items()}


def test_no_private_attribute_is_used_that_is_not_named_here() -> None:
    named = {name for names in ATTRIBUTES.values() for name in names}
    assert {attribute for tree in _trees() for attribute in _private_attributes(tree)} <= named | OWN


def _private_attributes(tree: ast.AST) -> Iterator[str]:
    """Yield the private attributes of what is not the object's own."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls") | ast.Call(func=ast.Name(id="super"))):
                continue
            case ast.Attribute(attr=attr) if attr.startswith("_") and not attr.startswith("__"):
                yield attr


@pytest.mark.parametrize(("library", "tested"), TESTED.items(), ids=TESTED)
def test_a_library_is_allowed_up_to_the_minor_version_that_was_tested(library: str, tested: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    allowed = next(each for each in map(Requirement, project["dependencies"]) if each.name == library).specifier
    major, minor = map(int, tested.split("."))
    assert allowed.contains(Version(importlib.metadata.version(library)))
    assert importlib.metadata.version(library).startswith(f"{tested}.")
    assert not allowed.contains(f"{major}.{minor + 1}")
    assert not allowed.contains(f"{major + 1}.0")

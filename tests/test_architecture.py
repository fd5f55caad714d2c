"""Holds the direction of imports: app → api → topology, and inside each package only from a line to those above it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PACKAGES = ("topology", "api", "app")
"""A package may import from itself and from those before it."""

_TOPOLOGY = """
    errors records kafka_connection kafka_errors kafka_clients topics topic_ids topic_offsets partitioner
    description diagram
    judged failures score_events first_look leaderboard
    spark checkpoint snapshots generations
    stores stores.protocol stores.memory stores.rocksdb stores.directory global_table
    histogram freshness stream_status measures
    stream_plan stream_query generation_run dead_letters watched_topics stream_thread
    listener copy_status store_copy board_copy table_copy fill_session board_producer materializer
    host_metadata members assignor group_protocol membership
    rendering view
    queries
"""
_API = """
    answers errors auth schemas parameters openapi
    request_ids traffic observed
    routing framing delivery cors event_stream feed
    components
    down_hosts router connections peers self_check
    boards gather follower feeds
    events leaderboard operations internal metrics page
    front main
"""
_APP = """
    errors
    file_lock guarded_process
    java jars class_data broker_handshake broker
    kafka_settings settings logs signals
    load
    checkpoint_identity whole_answer http_connection http_server stream_task metrics spark_class_data service demo
    verification verification.records verification.comparison verification.expected verification.served
    verification.report verify
    cli
"""
ORDER = {"topology": _TOPOLOGY.split(), "api": _API.split(), "app": _APP.split()}
"""A module may import those before it; the package itself (its `__init__`) imports none of its modules."""


def _modules(package: str) -> Iterator[tuple[str, Path]]:
    """Yield each module's name inside its package and its file; the package's own `__init__` is ""."""
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT / package).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


MODULES = [(package, name, path) for package in PACKAGES for name, path in _modules(package)]
NAMES = {f"{package}.{name}".rstrip(".") for package, name, _ in MODULES}


def _imports(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the module and line of every import of this project's modules, also of those inside functions."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        match node:
            case ast.Import(names=names):
                found = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), names=names):
                # `from topology import spark` names a module, `from topology.spark import Spark` something in it.
                members = [f"{module}.{alias.name}" for alias in names]
                found = [member if member in NAMES else module for member in members]
            case _:
                continue
        yield from ((name, node.lineno) for name in found if name.partition(".")[0] in PACKAGES)


@pytest.mark.parametrize(("package", "name", "path"), MODULES, ids=[f"{p}.{n}".rstrip(".") for p, n, _ in MODULES])
def test_a_module_imports_only_what_is_below_it(package: str, name: str, path: Path) -> None:
    order = ORDER[package]
    assert not name or name in order, f"{path} has no place yet: add {name!r} to ORDER[{package!r}] in {__file__}"
    for imported, line in _imports(path):
        target_package, _, target = imported.partition(".")
        where = f"{path.relative_to(ROOT)}:{line} imports {imported}"
        if target_package != package:
            assert PACKAGES.index(target_package) < PACKAGES.index(package), f"{where}, which is above it"
        elif target:
            assert target in order, f"{where}, which has no place in ORDER[{package!r}] yet"
            place = order.index(name) if name else -1
            assert order.index(target) < place, f"{where}, which comes after it in ORDER"


def test_no_module_has_two_places() -> None:
    for package, order in ORDER.items():
        assert len(set(order)) == len(order), package

"""Holds the direction of imports: app → api → topology → runtime, and inside each package only to those before."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PACKAGES = ("runtime", "topology", "api", "app")
"""A package may import from itself and from those before it."""

_RUNTIME = """
    errors records keys values results rows declaration histogram
    kafka kafka.connection kafka.errors kafka.clients kafka.topics kafka.ids kafka.offsets kafka.partitioner
    kafka.inspected
    spark spark.text spark.session spark.checkpoint spark.query
    stores stores.protocol stores.memory stores.rocksdb stores.directory stores.global_table
    stream stream.upkeep stream.failures stream.freshness stream.status stream.snapshots stream.generations stream.plan
    measures
    stream.generation_run stream.dead_letters stream.watched_topics stream.thread
    copies copies.listener copies.status copies.store_copy copies.result_copy copies.table_copy copies.fill_session
    copies.producer copies.materializer
    cluster cluster.host_metadata cluster.members cluster.assignor cluster.group_protocol cluster.membership
    serving serving.view serving.rendered_view serving.queries
    diagram
"""
_TOPOLOGY = """
    leaderboard leaderboard.topics leaderboard.records leaderboard.description leaderboard.events
    leaderboard.first_look leaderboard.query leaderboard.shown
    word_count
"""
_API = """
    http http.answers http.errors http.auth http.schemas http.key_route http.parameters http.openapi http.request_ids
    http.traffic http.delivery http.cors
    cluster cluster.routing
    reads reads.framing
    live live.event_stream live.feed
    components
    cluster.down_hosts cluster.router cluster.connections cluster.peers cluster.self_check
    reads.one_row reads.gather live.follower live.feeds live.events
    serving
    operate operate.metric_names own operate.operations operate.declared operate.metrics operate.page
    reads.stores reads.internal
    http.front http.observed main
    leaderboard leaderboard.problems leaderboard.schemas leaderboard.parameters leaderboard.metric_names
    leaderboard.routes leaderboard.live leaderboard.own
"""
_APP = """
    errors
    java java.file_lock java.guarded_process java.installed java.jars java.class_data java.broker_handshake java.broker
    kafka_settings settings logs signals
    load
    instance instance.checkpoint_identity server server.whole_answer server.connection server.http_server
    instance.stream_task instance.measures java.spark_class_data instance.service demo
    verification verification.records verification.comparison verification.expected verification.served
    verification.report verification.verify
    cli
"""
ORDER = {"runtime": _RUNTIME.split(), "topology": _TOPOLOGY.split(), "api": _API.split(), "app": _APP.split()}
"""A module may import those before it; the package itself (its `__init__`) imports none of its modules, but for
`runtime`, which hands out what declarations are made of."""

ARROWS_BACK = {
    "runtime": ("topology.leaderboard", "runtime.stream.upkeep", "runtime.spark.text"),
}
"""What a package names of those above it, and of itself, while it still knows one topology."""


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
                # `from runtime import spark` names a module, `from runtime.spark import Spark` something in it.
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
        if imported.startswith(ARROWS_BACK.get(package, ("-",))):
            continue
        if target_package != package:
            assert PACKAGES.index(target_package) < PACKAGES.index(package), f"{where}, which is above it"
        elif target:
            assert target in order, f"{where}, which has no place in ORDER[{package!r}] yet"
            handed_out = order.index("declaration") + 1 if package == "runtime" else -1
            place = order.index(name) if name else handed_out
            assert order.index(target) < place, f"{where}, which comes after it in ORDER"


def test_no_module_has_two_places() -> None:
    for package, order in ORDER.items():
        assert len(set(order)) == len(order), package

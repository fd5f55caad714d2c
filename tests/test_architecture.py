"""Holds the direction of imports: app → api → topology → runtime, and inside each package only to those before.

And that the runtime knows no topology: no word of the leaderboard is in it.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PACKAGES = ("runtime", "topology", "api", "app")
"""A package may import from itself and from those before it."""

_RUNTIME = """
    errors durations records types ordered_bytes ranking keys lapsing
    values.base values.fields values.of_columns values.accumulators values.lattices
    values results rows histogram windows
    kafka kafka.connection kafka.errors kafka.any_records kafka.clients kafka.ids kafka.partitioner kafka.inspected
    kafka.offsets kafka.unreadable kafka.record_times
    spark spark.sizes spark.casts spark.beside_value spark.json spark.text
    declaration table_records kafka.topics kafka.topic_settings description diagram
    spark.java_environment spark.native_libraries spark.driver_jvm spark.kafka_clients
    spark.session spark.checkpoint spark.query spark.bounded_read spark.offset_log spark.results spark.rows
    spark.plan_check
    stores stores.protocol stores.memory stores.rocksdb stores.directory stores.table_rows stores.added_keys
    stores.global_table
    stream stream.stopping stream.failures stream.freshness stream.status stream.settings stream.plan stream.tables
    stream.stream_time stream.generations stream.work stream.upkeep stream.watched_topics stream.spark_holder
    stream.choice stream.snapshot stream.warm_up stream.pass_over stream.turn stream.dead_letters stream.store_stream
    stream.thread measures
    copies copies.status copies.listener copies.store_copy copies.result_copy copies.result_copies copies.table_copy
    copies.table_copies copies.copies copies.local_tables copies.producer copies.republisher copies.fill_session
    copies.materializer
    cluster cluster.host_metadata cluster.members cluster.assignor cluster.group_protocol cluster.membership
    serving serving.ahead
    serving.position serving.view serving.looked_at serving.local_view serving.kept_rows serving.stored_view
    serving.texts serving.rendered_view serving.orders serving.ranked_view
    serving.table_view serving.windowed_view serving.part_view serving.views
    serving.in_memory
    testing.frames testing.session testing.driver testing.values testing
"""
_TOPOLOGY = """
    leaderboard leaderboard.topics leaderboard.description leaderboard.periods leaderboard.events
    leaderboard.first_look leaderboard.moderation leaderboard.query leaderboard.period_query leaderboard.places
    leaderboard.bests leaderboard.ranks leaderboard.shown leaderboard.surveys leaderboard.hiding leaderboard.boards
    leaderboard.upkeep leaderboard.period_upkeep leaderboard.rank_upkeep leaderboard.board
    word_count error_counts logins event_counts patterns sales orders product_counter captcha
    hourly_sales browser_windows sessions paid_orders
"""
_API = """
    http http.answers http.errors http.auth http.schemas http.openapi http.request_ids http.traffic http.delivery
    http.cors http.key_route http.parameters http.routes
    cluster cluster.routing cluster.down_hosts cluster.router cluster.connections cluster.followed
    reads reads.framing reads.cut
    live live.event_stream live.feed
    components
    cluster.peers cluster.self_check cluster.left_out cluster.stream_link
    reads.told reads.demand reads.collect reads.gather reads.one_copy reads.one_row reads.ranks
    live.follower live.feeds live.events
    operate operate.operations operate.declared operate.examples operate.metric_names
    http.front http.observed
    serving reads.internal reads.stores reads.tables operate.metrics own operate.page main
    leaderboard leaderboard.schemas leaderboard.parameters leaderboard.problems leaderboard.metric_names
    leaderboard.period_boards leaderboard.routes leaderboard.moderation leaderboard.ranks leaderboard.live
    leaderboard.own
"""
_APP = """
    errors environment scratch loading
    java java.file_lock java.guarded_process java.installed java.jars java.class_data java.broker_handshake java.broker
    kafka_settings settings logs signals
    topologies text_lines load moderation
    stream_waits instance instance.checkpoint_identity server server.whole_answer server.connection server.ports
    server.http_server instance.shares instance.several instance.stream_task instance.hand_over
    instance.held_tasks instance.measures
    java.spark_class_data java.batch_spark instance.service demo
    verification verification.asking verification.looking verification.inputs
    verification.boards verification.boards.records verification.boards.hidden verification.boards.comparison
    verification.boards.ranks verification.boards.expected
    verification.boards.served verification.boards.report verification.boards.looks
    verification.stores verification.stores.comparison verification.stores.expected verification.stores.served
    verification.stores.report verification.stores.looks verification.verify
    cli
"""
ORDER = {"runtime": _RUNTIME.split(), "topology": _TOPOLOGY.split(), "api": _API.split(), "app": _APP.split()}
"""A module may import those before it; the package itself (its `__init__`) imports none of its modules, but for
`runtime`, which hands out what declarations are made of, and `runtime.testing`, what their tests are made of."""

_SINGULAR = ("board", "product", "player", "score", "scorer", "podium", "game", "gamer", "highscore")
WORDS = frozenset(word + ending for word in _SINGULAR for ending in ("", "s"))
"""What only the leaderboard speaks of. The program's own name is one word, and so are dashboards and what is scored."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_TEXTS = (".py", ".js", ".html", ".css", ".svg", ".properties", ".json", ".xml")


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
        if target_package != package:
            assert PACKAGES.index(target_package) < PACKAGES.index(package), f"{where}, which is above it"
        elif target:
            assert target in order, f"{where}, which has no place in ORDER[{package!r}] yet"
            handed_out = order.index("declaration") + 1 if package == "runtime" else -1
            place = order.index(name) if name else handed_out
            assert order.index(target) < place, f"{where}, which comes after it in ORDER"


def _texts_of_no_topology() -> list[Path]:
    """Return the files of `runtime/`, and those of `api/` that are not the leaderboard's own."""
    own = ROOT / "api" / "leaderboard"
    found = [path for package in ("runtime", "api") for path in sorted((ROOT / package).rglob("*"))]
    return [path for path in found if path.suffix in _TEXTS and own not in path.parents]


@pytest.mark.parametrize("path", _texts_of_no_topology(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_word_of_the_leaderboard_is_where_no_topology_is_known(path: Path) -> None:
    lines = enumerate(path.read_text().splitlines(), 1)
    found = [f"{path.relative_to(ROOT)}:{number}: {word}" for number, line in lines for word in _words(line)]
    assert found == []


def _words(line: str) -> list[str]:
    """Return the words of the leaderboard in a line, names taken apart."""
    return [word for word in _WORD.findall(line) if word.lower() in WORDS]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("HIGH_SCORES, highScores, high_scores = 1", ["SCORES", "Scores", "scores"]),
        ('class BoardCopy: "a board\'s copy"', ["Board", "board"]),
        ("playerId productIds `leader-boards`", ["player", "product", "boards"]),
        ("from leaderboard import LeaderboardError, LEADERBOARD_URI", []),
        ("a dashboard, a keyboard, a clipboard, what was scored, underscores, production, a gamble, replayer", []),
    ],
)
def test_words_are_found_in_names_and_not_in_longer_words(line: str, found: list[str]) -> None:
    assert _words(line) == found


def test_only_what_is_the_leaderboards_own_names_a_topology() -> None:
    named = {
        f"{package}.{name}"
        for package, name, path in MODULES
        if package in ("runtime", "api")
        for imported, _ in _imports(path)
        if imported.startswith("topology")
    }
    assert all(name.startswith("api.leaderboard.") for name in named), named


def test_no_module_has_two_places() -> None:
    for package, order in ORDER.items():
        assert len(set(order)) == len(order), package

"""A topology of one's own, as the documents write it."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.java.broker import Broker
from runtime import Key, PlainText, Store, Stream, Text, Topology
from runtime.results import merge, parse
from runtime.spark.session import Spark
from runtime.testing.frames import StoreOnFrames
from tests.drivers.command import environment
from tests.drivers.markdown import ROOT, Block, Document
from tests.drivers.ports import free_port
from tests.waiting import UNHURRIED_S

GUIDE = Document(ROOT / "docs" / "write-your-own-topology.md")
WINDOWS = Document(ROOT / "docs" / "windows.md")


def blocks(language: str, document: Document = GUIDE) -> list[Block]:
    """Return a document's blocks of a language, in order."""
    return [block for block in document.blocks() if block.language == language]


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the guide's Python defines, block after block."""
    found: dict[str, Any] = {"__name__": "errors"}
    for block in blocks("python"):
        if "def test_" not in block.code:
            exec(block.code, found)  # noqa: S102
    return found


def leaderboard(
    directory: Path, *arguments: str, topology: str = "errors:ERRORS", **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run a command on a topology, by default the guide's, in a directory that has it."""
    return subprocess.run(
        [str(Path(sys.executable).parent / "leaderboard"), *arguments, "--topology", topology],
        check=False,
        cwd=directory,
        env={**environment(), "TMPDIR": str(directory), **settings},
        capture_output=True,
        text=True,
        timeout=UNHURRIED_S,
    )


def test_describe_plans_it_and_says_what_cannot_run(tmp_path: Path) -> None:
    code = blocks("python")[0].code
    (tmp_path / "errors.py").write_text(code)
    done = leaderboard(tmp_path, "describe")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "Topology: errors")
    (tmp_path / "errors.py").write_text(code.replace("where(", "distinct().where("))
    done = leaderboard(tmp_path, "describe")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "rows of store error-counts have an aggregate of their own (Deduplicate)" in done.stderr


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("lines.select", "lines.selecct", "rows of store error-counts cannot be made: PySparkAttributeError"),
        ("F.lower", "F.lowwer", "rows of store error-counts cannot be made: AttributeError"),
    ],
)
def test_describe_says_where_rows_cannot_be_made(tmp_path: Path, right: str, wrong: str, said: str) -> None:
    (tmp_path / "errors.py").write_text(blocks("python")[0].code.replace(right, wrong, 1))
    done = leaderboard(tmp_path, "describe")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
    assert said in done.stderr
    assert "errors.py, line " in done.stderr


def test_describe_says_that_rows_are_none(tmp_path: Path) -> None:
    (tmp_path / "errors.py").write_text(blocks("python")[0].code.replace("    return ", "    made = ", 1))
    done = leaderboard(tmp_path, "describe")
    assert (done.returncode, done.stdout) == (2, "")
    assert "rows of store error-counts are NoneType and no DataFrame: return what you select" in done.stderr


@pytest.mark.system
@pytest.mark.parametrize("command", ["serve", "demo"])
def test_what_cannot_run_ends_the_command(tmp_path: Path, broker: Broker, command: str) -> None:
    (tmp_path / "errors.py").write_text(blocks("python")[0].code.replace("where(", "distinct().where("))
    (tmp_path / "data" / "errors").mkdir(parents=True)
    (tmp_path / "data" / "errors" / "log-lines.txt").write_text(blocks("text")[0].code)
    settings = {
        "LEADERBOARD_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        "LEADERBOARD_PORT": str(free_port()),
        "LEADERBOARD_STATE_DIR": str(tmp_path / "state"),
        "LEADERBOARD_CHECKPOINT_URI": (tmp_path / "checkpoint").as_uri(),
    }
    if command == "serve":
        loaded = leaderboard(tmp_path, "load", **settings)
        assert loaded.returncode == 0, loaded.stderr
    done = leaderboard(tmp_path, command, **settings)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("leaderboard: rows of store error-counts have an aggregate of their own (Deduplicate)"), last


@pytest.mark.system
def test_the_demo_runs_it_from_its_own_directory_and_prints_what_the_guide_says(tmp_path: Path) -> None:
    (tmp_path / "errors.py").write_text(blocks("python")[0].code)
    (tmp_path / "data" / "errors").mkdir(parents=True)
    (tmp_path / "data" / "errors" / "log-lines.txt").write_text(blocks("text")[0].code)
    done = leaderboard(tmp_path, "demo", "--once", "--port", str(free_port()))
    assert done.returncode == 0, done.stderr
    one, every = (json.loads(block.code) for block in blocks("json"))
    assert json.loads(done.stdout) == every
    assert one in every["error-counts"]


@pytest.mark.system
def test_the_demo_shows_the_windows_that_their_page_says(tmp_path: Path) -> None:
    (rows,) = (json.loads(block.code) for block in blocks("json", WINDOWS))
    assert means(tmp_path, blocks("text", WINDOWS)[0].code) == rows


@pytest.mark.system
def test_the_demo_shows_the_hopping_averages_of_the_public_example(tmp_path: Path) -> None:
    at = datetime(2026, 11, 25, 2, 15, 30, tzinfo=UTC)
    lines = [
        f'@{at + number * timedelta(minutes=5):%Y-%m-%dT%H:%M:%SZ} {{"sensor": "roof", "degrees": {degrees}}}\n'
        for number, degrees in enumerate([55, 50, 45, 40, 45, 50, 55, 60])
    ]
    found = [row["mean"] for row in means(tmp_path, "".join(lines))]
    assert found == [55, 52.5, 47.5, 42.5, 42.5, 47.5, 52.5, 57.5, 60]


def means(directory: Path, readings: str) -> list[dict[str, Any]]:
    """Return what the demo of the page on windows prints of these readings, as its samples have them."""
    (directory / "readings.py").write_text(blocks("python", WINDOWS)[0].code)
    (directory / "data" / "readings").mkdir(parents=True)
    (directory / "data" / "readings" / "temperatures.json").write_text(readings)
    done = leaderboard(directory, "demo", "--once", "--port", str(free_port()), topology="readings:READINGS")
    assert done.returncode == 0, done.stderr
    (rows,) = json.loads(done.stdout).values()
    return list(rows)


@pytest.mark.parametrize(("document", "module"), [(GUIDE, "errors"), (WINDOWS, "readings")], ids=["guide", "windows"])
def test_its_test_passes_where_nothing_but_the_declaration_is(tmp_path: Path, document: Document, module: str) -> None:
    declaration, *others = blocks("python", document)
    (tmp_path / f"{module}.py").write_text(declaration.code)
    (test,) = (block.code for block in others if "TopologyDriver" in block.code)
    (tmp_path / f"test_{module}.py").write_text(test)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", f"test_{module}.py"],
        check=False,
        cwd=tmp_path,
        env={**environment(), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=UNHURRIED_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(tmp_path.glob("topology-driver-*")), "nothing is left of it"


def test_a_value_of_ones_own_is_kept_and_merges(spark: Spark, names: dict[str, Any]) -> None:
    def by_letter(lines: Any) -> Any:
        return lines.selectExpr("at", "left(text, 1) AS letter", "text")

    topology = Topology(
        "longest",
        Stream("lines", PlainText()),
        [Store("longest", "longest", Key("letter", Text), {"longest": names["Longest"]("text")}, rows=by_letter)],
    )
    driver = StoreOnFrames(spark.session, topology)
    record = topology.stores[0].record
    lines = [(text, 0, offset, 0) for offset, text in enumerate([b"a", b"abc", b"b", b"ab"])]
    assert {key: found.values for key, found in driver.results(lines).items()} == {
        "a": {"longest": 3},
        "b": {"longest": 1},
    }
    first, second = (
        parse(record, value, headers) for part in (lines[:1], lines[1:2]) for _, value, headers in driver.records(part)
    )
    for held, new in ((first, second), (second, first)):
        merged = merge(record, held, new)
        assert merged is not None
        assert merged.values == {"longest": 3}


def test_a_row_is_shown_with_the_name_out_of_a_table_or_not_at_all(names: dict[str, Any]) -> None:
    tables = {"services": {"api": {"owner": "Ann"}}}
    show = names["with_owner"]
    assert show({"service": "api", "count": 2}, tables) == {"service": "api", "count": 2, "owner": "Ann"}
    assert show({"service": "web", "count": 1}, tables) is None

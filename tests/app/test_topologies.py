"""A topology is found by its name; one that cannot be loaded is one line that says what to change."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.errors import SetupError
from app.topologies import LEADERBOARD, OTHERS, load_application
from runtime.declaration import DeclarationError
from topology.leaderboard.description import DESCRIPTION
from topology.word_count import WORD_COUNT

DECLARATION = """
from runtime import Count, Key, PlainText, Store, Stream, Text, Topology

TOWNS = Topology("towns", Stream("lines", PlainText()), [
    Store("visits", "visits-by-town", Key("text", Text), {"times": Count()}),
])

def routes(serving):
    return serving
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current directory of the test's own; modules that it loads are forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("own_"):
            del sys.modules[name]


@pytest.mark.parametrize("name", [LEADERBOARD, *OTHERS])
def test_a_short_name_is_the_name_of_a_topology(name: str) -> None:
    assert load_application(name, depth=5).topology.name == name


def test_the_leaderboard_is_made_for_its_depth_and_comes_with_routes_and_words_of_its_own() -> None:
    application = load_application(LEADERBOARD, depth=7)
    assert application.topology.settings["DEPTH"] == 7
    assert application.routes is not None
    assert application.description is DESCRIPTION
    assert application.has_boards


def test_another_topology_is_described_by_its_declaration_and_has_no_routes_of_its_own() -> None:
    application = load_application("word-count", depth=10)
    assert application.topology is WORD_COUNT
    assert application.routes is None
    assert application.description.name == "word-count"
    assert not application.has_boards


def test_a_topology_of_ones_own_is_found_in_the_current_directory(here: Path) -> None:
    (here / "own_towns.py").write_text(DECLARATION)
    application = load_application("own_towns:TOWNS", "own_towns:routes", depth=10)
    assert application.topology.name == "towns"
    assert application.samples == Path("towns")
    assert application.routes is sys.modules["own_towns"].routes


def test_a_topology_of_ones_own_is_found_in_a_package_on_the_path(
    here: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "own_package").mkdir()
    (elsewhere / "own_package" / "towns.py").write_text(DECLARATION)
    monkeypatch.syspath_prepend(elsewhere)
    assert load_application("own_package.towns:TOWNS", depth=10).topology.name == "towns"


@pytest.mark.parametrize(
    ("name", "routes", "line"),
    [
        ("wordcount", "", r"LEADERBOARD_TOPOLOGY=wordcount is no topology: did you mean word-count\?"),
        ("x", "", r"LEADERBOARD_TOPOLOGY=x is no topology: there are leaderboard, word-count.*, and module:NAME"),
        ("own_none:T", "", r"LEADERBOARD_TOPOLOGY=own_none:T cannot be loaded: there is no module own_none: put it on"),
        ("own_a.b:T", "", r"LEADERBOARD_TOPOLOGY=own_a.b:T cannot be loaded: there is no module own_a: put it on"),
        ("own_towns:TOWN", "", r"LEADERBOARD_TOPOLOGY=.* cannot be used: .*own_towns.py has no TOWN: there are TOWNS"),
        ("own_towns:routes", "", r"LEADERBOARD_TOPOLOGY=own_towns:routes is 'function', no Topology: name a value"),
        ("own_needs:T", "", r"cannot be loaded: ModuleNotFoundError: .*'own_missing' \(.*own_needs.py, line 1\): mend"),
        ("own_fails:T", "", r"cannot be loaded: ZeroDivisionError: division by zero \(.*own_fails.py, line 3\): mend"),
        ("own_syntax:T", "", r"cannot be loaded: SyntaxError: .*\(own_syntax.py, line 2\): mend the module"),
        ("own_towns:TOWNS", "own_towns:TOWNS", r"LEADERBOARD_ROUTES=own_towns:TOWNS is 'Topology': name a function"),
        ("own_towns:TOWNS", "own_towns:none", r"LEADERBOARD_ROUTES=.* has no none: there are .*routes"),
    ],
)
def test_what_cannot_be_loaded_says_what_to_change(here: Path, name: str, routes: str, line: str) -> None:
    (here / "own_towns.py").write_text(DECLARATION)
    (here / "own_needs.py").write_text("import own_missing\n")
    (here / "own_fails.py").write_text("\n\nT = 1 / 0\n")
    (here / "own_syntax.py").write_text("\ndef\n")
    with pytest.raises(SetupError, match=line):
        load_application(name, routes, depth=10)


def test_a_declaration_that_cannot_run_is_told_in_its_own_words(here: Path) -> None:
    (here / "own_wrong.py").write_text(DECLARATION.replace('"visits-by-town"', '"lines"'))
    with pytest.raises(DeclarationError, match="topology towns names topic lines twice"):
        load_application("own_wrong:TOWNS", depth=10)

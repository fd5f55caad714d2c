"""README, tutorial and games.md, as a newcomer tries them: each command as written, in a copy of what is cloned."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drivers.as_written import Reader, copy_of_the_project, need_free
from tests.drivers.markdown import ROOT, Document

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("at_a_terminal")]

PORTS = (7000, 7001, 7002, 9092)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh copy; what the first document installs is there for the second."""
    return copy_of_the_project(tmp_path_factory.mktemp("project"))


@pytest.fixture
def reader(project: Path) -> Iterator[Reader]:
    need_free(*PORTS)
    yield Reader(project)
    need_free(*PORTS)


def test_the_readme_does_as_it_says(reader: Reader) -> None:
    reader.follow(Document(ROOT / "README.md"))
    reasons = [block.note for block in reader.left_out]
    assert reasons == ["not run: the tests run it", "not run: needs Docker", "not run: the tests themselves"]


def test_the_tutorial_does_as_it_says(reader: Reader) -> None:
    reader.follow(Document(ROOT / "docs" / "tutorial.md"))
    assert reader.left_out == []


def test_the_page_for_game_developers_does_as_it_says(reader: Reader) -> None:
    reader.follow(Document(ROOT / "docs" / "games.md"))
    assert [block.note for block in reader.left_out] == ["not run: a test generates clients"]

"""Where native libraries of a JVM can be run from."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from runtime.errors import StateUnusable
from runtime.spark.native_libraries import directory_for_libraries, may_execute


@pytest.fixture
def noexec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory on a file system that nothing can be executed from, as the system tells it."""
    directory = tmp_path / "noexec"
    (directory / "below").mkdir(parents=True)
    real = os.statvfs

    def statvfs(path: Path) -> os.statvfs_result:
        told = list(real(path))
        told[8] |= os.ST_NOEXEC if path.is_relative_to(directory) else 0
        return os.statvfs_result(told)

    monkeypatch.setattr(os, "statvfs", statvfs)
    return directory


def test_a_mount_without_execution_is_known_as_such(tmp_path: Path, noexec: Path) -> None:
    assert may_execute(tmp_path)
    assert not may_execute(noexec)


def test_an_own_directory_that_can_be_executed_from_is_taken(tmp_path: Path) -> None:
    assert directory_for_libraries(tmp_path) == tmp_path


def test_temporary_files_are_next(tmp_path: Path, noexec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert directory_for_libraries(noexec) == tmp_path


def test_one_line_names_both_when_neither_will_do(noexec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(noexec / "below"))
    said = rf"executed from {noexec} nor from {noexec}/below, .*noexec.*STATE_DIR or TMPDIR"
    with pytest.raises(StateUnusable, match=said):
        directory_for_libraries(noexec)


def test_no_directory_for_temporary_files_is_none_that_could_be_named(
    noexec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_directory() -> str:
        raise FileNotFoundError

    monkeypatch.setattr(tempfile, "gettempdir", no_directory)
    with pytest.raises(StateUnusable, match=f"executed from {noexec}, and native libraries"):
        directory_for_libraries(noexec)

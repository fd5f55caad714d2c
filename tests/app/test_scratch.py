"""Directories for temporary files."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from app.errors import SetupError
from app.scratch import scratch_directory, temporary_files


def test_a_scratch_directory_is_gone_after_its_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with scratch_directory("mine-") as scratch:
        assert scratch.parent == tmp_path
        (scratch / "file").touch()
    assert list(tmp_path.iterdir()) == []


def test_no_place_for_temporary_files_is_one_line_that_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_directory() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", no_directory)
    with pytest.raises(SetupError, match="no directory for temporary files can be written: set TMPDIR to one"):
        temporary_files()

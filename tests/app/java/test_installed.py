"""Which Java is found, and the one line when none fits."""

import os
from pathlib import Path

import pytest

from app.errors import SetupError
from app.java.installed import find_java


def _fake_java(home: Path, version: str, exit_status: int = 0) -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\nexit {exit_status}\n")
    executable.chmod(0o755)
    return executable


@pytest.mark.parametrize("version", ["17", "17.0.15", "21", "21.0.7"])
def test_the_java_of_java_home_is_taken(tmp_path: Path, version: str) -> None:
    executable = _fake_java(tmp_path, version)
    found = find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})
    assert (found.executable, found.version) == (executable, version)


def test_without_java_home_the_java_on_path_is_taken(tmp_path: Path) -> None:
    executable = _fake_java(tmp_path, "21.0.1")
    assert find_java({"PATH": str(executable.parent)}).executable == executable


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "16.0.2", "18.0.1", "20", "22.0.1", "25"])
def test_another_version_is_refused_by_name(tmp_path: Path, version: str) -> None:
    _fake_java(tmp_path, version)
    with pytest.raises(SetupError, match=rf"Java {version} .*install Java 17 or 21"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_java_home_without_a_java_is_not_silently_replaced_by_the_one_on_path(tmp_path: Path) -> None:
    on_path = _fake_java(tmp_path / "good", "17.0.1")
    with pytest.raises(SetupError, match="JAVA_HOME"):
        find_java({"JAVA_HOME": str(tmp_path / "empty"), "PATH": str(on_path.parent)})


def test_no_java_at_all_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"no java on PATH.*install Java 17 or 21"):
        find_java({"PATH": str(tmp_path)})


def test_what_the_environment_says_to_java_changes_nothing_of_what_it_says() -> None:
    plain = find_java(os.environ)
    assert find_java({**os.environ, "JAVA_TOOL_OPTIONS": "-javaagent:/gone.jar", "_JAVA_OPTIONS": "-Dx=y"}) == plain


def test_a_java_that_fails_is_refused(tmp_path: Path) -> None:
    _fake_java(tmp_path, "17.0.1", exit_status=1)
    with pytest.raises(SetupError, match="does not run"):
        find_java({"JAVA_HOME": str(tmp_path)})

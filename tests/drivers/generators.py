"""What generates clients from an OpenAPI document: installed once, in the cache of this user, beside the jars."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Final

from platformdirs import user_cache_path

from app.java.file_lock import file_lock
from tests.waiting import UNHURRIED_S

DATA: Final = Path(__file__).parents[1] / "system" / "data" / "clients"
_OF_PYTHON: Final = "openapi-python-client==0.29.1"
_NODE: Final = (20, 19)
"""What the generator of TypeScript needs."""


def python_generator() -> Path:
    """Return the Python that generates Python clients, and has what these need."""

    def install(directory: Path) -> None:
        venv.create(directory, with_pip=True, clear=True)
        run(directory, directory / "bin" / "python", "-m", "pip", "install", "--quiet", _OF_PYTHON)

    return _installed("python", _OF_PYTHON.encode(), install) / "bin" / "python"


def node_modules() -> Path:
    """Return the directory of the packages that generate TypeScript clients, and compile them."""
    _need_node()

    def install(directory: Path) -> None:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(DATA / name, directory)
        run(directory, "npm", "ci", "--no-fund", "--no-audit", "--ignore-scripts")

    return _installed("typescript", (DATA / "package-lock.json").read_bytes(), install) / "node_modules"


def run(directory: Path, *command: str | Path) -> str:
    """Run a command in a directory; return what it prints. One that fails fails the test with all that it says."""
    done = subprocess.run(
        command,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=UNHURRIED_S,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def _need_node() -> None:
    node = shutil.which("node")
    assert node, "the test of a TypeScript client needs node: install it"
    assert shutil.which("npm"), "the test of a TypeScript client needs npm: install it"
    version = run(Path.cwd(), node, "--version").strip()
    found = tuple(map(int, re.findall(r"\d+", version)[:2]))
    wanted = ".".join(map(str, _NODE))
    assert found >= _NODE, f"the test of a TypeScript client needs node {wanted} or later, and this one is {version}"


def _installed(name: str, identity: bytes, install: Callable[[Path], None]) -> Path:
    """Return the directory in which something is installed, by now.

    Args:
        name: of the directory.
        identity: what is installed; of another one the directory is another.
        install: makes the directory, whatever is there of it.
    """
    identity += sys.version.encode()
    directory = user_cache_path("leaderboard") / "clients" / f"{name}-{hashlib.sha256(identity).hexdigest()[:16]}"
    directory.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(directory.with_suffix(".lock")):
        whole = directory / "whole"
        if not whole.exists():
            install(directory)
            whole.touch()
    return directory

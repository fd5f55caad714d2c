"""Finds the Java that runs Spark and the embedded broker; `make` asks it too, before anything is installed."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.errors import SetupError
from runtime.spark.java_environment import java_environment

SUPPORTED_MAJORS = (17, 21)
VERSION_DEADLINE_S = 30

_FIX = "install Java 17 or 21 and put it on PATH or set JAVA_HOME to it"
_VERSION = re.compile(r'version "((?:1\.)?(\d+)[^"]*)"')


@dataclass(frozen=True)
class Java:
    """A usable Java: its executable, its version, and all that `java -version` prints."""

    executable: Path
    version: str
    banner: str


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """Return the Java of JAVA_HOME, else the one on PATH, as PySpark chooses it too.

    Args:
        environ: the environment to look in; the process's own by default.

    Raises:
        SetupError: there is none, it does not run, or its version is neither 17 nor 21.
    """
    environ = os.environ if environ is None else environ
    executable = _locate(environ)
    banner = _banner(executable, environ)
    match = _VERSION.search(banner)
    if match is None:
        raise SetupError(f"{executable} -version does not tell a version", _FIX)
    version, major = match[1], int(match[2])
    if major not in SUPPORTED_MAJORS:
        raise SetupError(f"Java {version} ({executable}) cannot run Spark and Kafka", _FIX)
    return Java(executable, version, banner)


def _locate(environ: Mapping[str, str]) -> Path:
    home = environ.get("JAVA_HOME")
    if home:
        executable = Path(home, "bin", "java")
        if not os.access(executable, os.X_OK):
            raise SetupError(f"JAVA_HOME is {home}, but there is no {executable}", _FIX)
        return executable
    found = shutil.which("java", path=environ.get("PATH"))
    if found is None:
        raise SetupError("no java on PATH and JAVA_HOME is not set", _FIX)
    return Path(found)


def _banner(executable: Path, environ: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(
            [executable, "-version"],
            env=java_environment(environ),
            capture_output=True,
            text=True,
            timeout=VERSION_DEADLINE_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SetupError(f"{executable} does not run ({error})", _FIX) from error
    return done.stderr + done.stdout


def main() -> None:
    """Exit 0 if a usable Java is there, else print what to do and exit 2."""
    try:
        find_java()
    except SetupError as error:
        sys.stdout.write(f"{error}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()

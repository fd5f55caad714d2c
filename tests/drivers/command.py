"""The command `leaderboard` in a process of its own, with the settings that a test gives and no others."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.waiting import UNHURRIED_S

OF_PYSPARK = ("SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE")
"""What PySpark puts into the environment of the process of the tests: the command would speak of it."""


def command(*arguments: str) -> list[str]:
    """Return what runs it."""
    return [sys.executable, "-m", "app.cli", *arguments]


def environment(**settings: object) -> dict[str, str]:
    """Return what it finds in the environment: what a shell has, and settings by their names without the prefix."""
    left_out = ("LEADERBOARD_", *OF_PYSPARK)
    of_the_shell = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return of_the_shell | {f"LEADERBOARD_{name}": str(value) for name, value in settings.items()}


def run_command(*arguments: str, **settings: object) -> subprocess.CompletedProcess[str]:
    """Run it to its end.

    Args:
        arguments: the subcommand, and what it takes.
        settings: by their names without the prefix.
    """
    return subprocess.run(
        command(*arguments),
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=UNHURRIED_S,
        check=False,
    )

"""Directories for temporary files, with an error that says what to do when there can be none."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.errors import SetupError


def temporary_files() -> Path:
    """Return the directory that temporary files go to: that of TMPDIR, or the first of the usual ones that will do.

    Raises:
        SetupError: none can be written.
    """
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise SetupError(
            "no directory for temporary files can be written", "set TMPDIR to one that this user may write to"
        ) from error


@contextmanager
def scratch_directory(prefix: str = "leaderboard-") -> Iterator[Path]:
    """Make an empty directory for the length of a `with` block.

    Args:
        prefix: what its name begins with.

    Raises:
        SetupError: there is no place for one.
    """
    with tempfile.TemporaryDirectory(prefix=prefix, dir=temporary_files()) as name:
        yield Path(name)

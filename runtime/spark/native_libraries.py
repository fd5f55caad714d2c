"""Where a JVM unpacks its native libraries, such as RocksDB's: it writes them to a directory and runs them there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from runtime.errors import StateUnusable

_NOEXEC: Final = getattr(os, "ST_NOEXEC", 0)
"""Linux alone tells."""


def may_execute(directory: Path) -> bool:
    """Return whether the file system of a directory lets programs and libraries run from it."""
    return not os.statvfs(directory).f_flag & _NOEXEC


def directory_for_libraries(own: Path) -> Path:
    """Return a directory that native libraries can be unpacked in: the own one, else that for temporary files.

    Args:
        own: what is written anyway; it exists.

    Raises:
        StateUnusable: nothing can be executed from either.
    """
    for directory in _candidates(own):
        if may_execute(directory):
            return directory
    tried = " nor from ".join(map(str, _candidates(own)))
    raise StateUnusable(
        f"nothing can be executed from {tried}, and native libraries of Java have to be: mount one without noexec, or"
        " set LEADERBOARD_STATE_DIR or TMPDIR to another directory"
    )


def _candidates(own: Path) -> Iterator[Path]:
    yield own
    try:
        yield Path(tempfile.gettempdir())
    except FileNotFoundError:
        # No directory for temporary files can be written.
        return

"""A class-data-sharing archive for the embedded broker: it starts in under half the time with one.

The JVM writes it at the end of a training run. Nothing depends on it: without one the broker only starts slower.
"""

import hashlib
import logging
import os
from collections.abc import Callable
from pathlib import Path

from app.errors import SetupError
from app.file_lock import file_lock
from app.java import Java

log = logging.getLogger(__name__)


def class_data_flags(directory: Path, java: Java, train: Callable[[str], None]) -> list[str]:
    """Return the JVM flags that use the archive, made before if there is none for this Java.

    Args:
        directory: where the jars are; the archive is kept beside them and is void when they change.
        java: the JVM that will run; an archive fits only the build that made it.
        train: runs the program to its end with the flag it is given.
    """
    build = hashlib.sha256(java.banner.encode()).hexdigest()[:8]
    archive = directory / f"broker-{java.version}-{build}.jsa"
    if not archive.is_file():
        try:
            with file_lock(archive.with_suffix(".lock"), deadline_s=0):
                _make(archive, train)
        except (OSError, SetupError) as error:
            # Also when another process is at it just now: this start goes without.
            log.debug("no class data archive: %s", error)
            return []
    return ["-Xshare:auto", f"-XX:SharedArchiveFile={archive}"]


def _make(archive: Path, train: Callable[[str], None]) -> None:
    part = archive.with_suffix(f".{os.getpid()}.part")
    try:
        train(f"-XX:ArchiveClassesAtExit={part}")
        part.rename(archive)
    finally:
        part.unlink(missing_ok=True)

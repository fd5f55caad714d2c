"""Class-data-sharing archives: a JVM starts in about half the time with one of the classes that it is going to load.

A JVM writes its archive at the end of a training run. Nothing depends on one: without it a start only takes longer.
"""

import hashlib
import logging
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from app.errors import SetupError
from app.java.file_lock import file_lock
from app.java.installed import Java
from runtime.errors import LeaderboardError

logger = logging.getLogger(__name__)

_LAYOUT = 2
"""Raised when the class path holds the same jars in another way: an archive fits one only."""

_KEPT = 3
"""Archives of one program that are kept: an archive fits one installation only, and may be 200 MB."""


@dataclass(frozen=True)
class ClassData:
    """The archive of one program.

    Args:
        program: what is started, a part of the file's name.
        archive: the file.
    """

    program: str
    archive: Path

    @classmethod
    def of(cls, program: str, directory: Path, java: Java, class_path: Iterable[Path]) -> Self:
        """Return the archive of a program, made or not.

        Args:
            program: what is started.
            directory: where archives are kept.
            java: the JVM that will run; an archive fits only the build that made it.
            class_path: the jars in the order in which the JVM has them; an archive is void when one of them changes or
                moves.
        """
        return cls(program, directory / f"{program}-{java.version}-{_key(java, class_path)}.jsa")

    def flags(self) -> list[str]:
        """Return the JVM flags that use the archive, none while there is no archive."""
        return ["-Xshare:auto", f"-XX:SharedArchiveFile={self.archive}"] if self.archive.is_file() else []

    def make(self, train: Callable[[str], None]) -> None:
        """Make the archive unless it is there. What goes wrong is logged only: a start goes without.

        Args:
            train: runs the program to its end with the JVM flag that it is given.
        """
        if self.archive.is_file():
            # Those that nobody has asked for longest go first.
            with suppress(OSError):
                os.utime(self.archive)
            return
        try:
            with file_lock(self.archive.with_suffix(".lock"), deadline_s=0):
                logger.info(
                    "making the class data archive of %s by a trial run, once: it starts faster then", self.program
                )
                _make(self.archive, train)
                logger.info("the class data archive of %s is made", self.program)
                _prune(self.archive.parent, self.program)
        except TimeoutError:
            logger.debug("another process is making the class data archive of %s", self.program)
        except (OSError, LeaderboardError) as error:
            logger.warning("no class data archive of %s, so it starts slower: %s", self.program, error)


def _key(java: Java, class_path: Iterable[Path]) -> str:
    found = hashlib.sha256(f"{_LAYOUT}\0{java.banner}".encode())
    for place, jar in enumerate(class_path):
        status = jar.stat()
        # In whole seconds, as the JVM compares them: the layers of an image keep no more.
        found.update(f"{place}\0{jar}\0{status.st_size}\0{int(status.st_mtime)}\n".encode())
    return found.hexdigest()[:8]


def _make(archive: Path, train: Callable[[str], None]) -> None:
    # Whoever makes it has the lock, so one that was killed has left its file under this name, and it is written anew.
    part = archive.with_suffix(".part")
    try:
        train(f"-XX:ArchiveClassesAtExit={part}")
        if not part.is_file():
            raise SetupError("the trial run ended without one", "try again when the machine has less to do")
        part.rename(archive)
    finally:
        part.unlink(missing_ok=True)


def _prune(directory: Path, program: str) -> None:
    """Delete all archives of a program but those asked for last; a JVM that uses one keeps what it has."""
    archives = sorted(directory.glob(f"{program}-*.jsa"), key=lambda archive: archive.stat().st_mtime)
    for archive in archives[:-_KEPT]:
        archive.unlink(missing_ok=True)

"""A disk of a few megabytes, which a test can fill, and directories that not even root may write to."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_BLOCK = 1 << 16
_FILL_EVERY_S = 0.02


class SmallDisk:
    """A mounted file system in memory, as `small_disk` gives it.

    Attributes:
        path: where it is mounted.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def full(self) -> Iterator[None]:
        """Take all the room, also what others give back meanwhile, for the time of the block."""
        over = threading.Event()
        ballast = self.path / "ballast"
        filling = threading.Thread(target=_fill, args=(ballast, over), name="fill-disk", daemon=True)
        filling.start()
        try:
            yield
        finally:
            over.set()
            filling.join()
            ballast.unlink()


def _fill(ballast: Path, over: threading.Event) -> None:
    with ballast.open("ab", buffering=0) as file:
        while not over.wait(_FILL_EVERY_S):
            for size in (_BLOCK, 512):
                with suppress(OSError):
                    while file.write(bytes(size)) == size:
                        pass


@contextmanager
def small_disk(path: Path, megabytes: int) -> Iterator[SmallDisk]:
    """Mount a file system that holds so much; needs root.

    Args:
        path: where; made when it is not there.
        megabytes: its size.
    """
    assert os.geteuid() == 0, "mounting a small file system needs root"
    path.mkdir(parents=True, exist_ok=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path))
    try:
        yield SmallDisk(path)
    finally:
        # Lazily: whoever is killed with the world may still have files open there.
        _run("umount", "--lazy", str(path))


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    """Let nobody write below a directory, also not to files that are open already; needs root and ext4, XFS or Btrfs.

    A file system cannot be mounted read-only while files are open for writing, and permissions do not bind root.
    """
    _run("chattr", "-R", "+i", str(path))
    try:
        yield
    finally:
        _run("chattr", "-R", "-i", str(path))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}"

"""Locks that hold between processes and end with the process that holds them, however it ends."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

POLL_S = 0.05


@contextmanager
def file_lock(path: Path, deadline_s: float | None = None) -> Iterator[int]:
    """Hold the exclusive lock of a file for the length of a `with` block.

    Args:
        path: the lock file; made when it is missing, never removed.
        deadline_s: how long to wait for another holder, in seconds; without it, for ever.

    Yields:
        The file descriptor. A child process that inherits it goes on holding the lock when this process dies.

    Raises:
        TimeoutError: another process still holds it at the deadline.
        OSError: the file cannot be opened for writing.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _acquire(descriptor, path, deadline_s)
        yield descriptor
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, path: Path, deadline_s: float | None) -> None:
    if deadline_s is None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return
    deadline = time.monotonic() + deadline_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise TimeoutError(f"{path} is locked by another process") from None
            time.sleep(POLL_S)

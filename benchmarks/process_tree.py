"""What a process and its children use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Self

import psutil

_SAMPLE_S = 1.0
"""To add up the pages of a JVM with 1 GB takes 20 to 30 ms of a core, which whoever is measured beside it lacks."""


class ProcessTree:
    """Samples the memory of a process and its children while the block runs; a context manager.

    Memory is proportional (PSS), in 10^6 bytes: what two of them share counts once.

    Attributes:
        peak_mb: the most at one time, seen once a second.

    Args:
        pid: the process.
    """

    def __init__(self, pid: int) -> None:
        self.peak_mb = 0.0
        self._root = psutil.Process(pid)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    @property
    def pss_mb(self) -> float:
        """The memory now."""
        return sum(_of_each(self._members(), lambda process: process.memory_full_info().pss)) / 1e6

    @property
    def cpu_s(self) -> float:
        """The CPU time so far, with that of children that have ended and were waited for."""
        return sum(_of_each(self._members(), lambda process: sum(process.cpu_times()[:4])))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _members(self) -> list[psutil.Process]:
        return [self._root, *self._root.children(recursive=True)]

    def _sample(self) -> None:
        while not self._end.wait(_SAMPLE_S):
            self.peak_mb = max(self.peak_mb, self.pss_mb)


def _of_each(processes: list[psutil.Process], what: Callable[[psutil.Process], Any]) -> list[float]:
    found = []
    for process in processes:
        try:
            found.append(float(what(process)))
        except psutil.NoSuchProcess:
            continue
    return found

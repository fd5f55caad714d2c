"""Processes that a test has started, or that were started for it."""

from __future__ import annotations

from collections.abc import Iterable

import psutil


def descendants(pid: int) -> list[psutil.Process]:
    """Return the children of a process, and theirs."""
    return psutil.Process(pid).children(recursive=True)


def running(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Return those that run. One that has ended and waits for init to take note of it does not."""
    return [process for process in processes if _runs(process)]


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False

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


def command_lines(pid: int) -> list[list[str]]:
    """Return the command lines of the children of a process and theirs, without those that have ended meanwhile."""
    return [line for process in descendants(pid) if (line := command_line(process))]


def command_line(process: psutil.Process) -> list[str]:
    """Return the command line of a process, empty when it has ended: a zombie has none."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def is_java(process: psutil.Process) -> bool:
    """Return whether a process is a JVM. One that has ended is none any more."""
    try:
        return "java" in process.name()
    except psutil.NoSuchProcess:
        return False


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def jvm_of(pid: int) -> psutil.Process:
    """Return the one JVM that runs below a process."""
    (found,) = filter(is_java, descendants(pid))
    return found

"""How long a backlog takes: from the start of the process until every board is exact over HTTP.

    .venv/bin/python -m benchmarks.drain [EVENTS]

A broker with the load and one instance with default settings on this machine, from nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchmarks.figures import Figure, markdown
from benchmarks.load import Load
from benchmarks.loaded import LOOK_EVERY_S, Loaded, Served
from benchmarks.process_tree import ProcessTree
from tests.waiting import wait_until


class Drained(NamedTuple):
    """What a backlog took.

    Attributes:
        first_s: from the start of the process to its first board over HTTP.
        exact_s: from the start of the process to all boards, exact.
        cpu_s: CPU time of the process and its children until then.
        peak_mb: the most memory of theirs until then.
    """

    first_s: float
    exact_s: float
    cpu_s: float
    peak_mb: float


def run(events: int = Load.events) -> Iterator[Figure]:
    """Yield the figures of one run."""
    with Loaded(Load(events=events)) as system:
        taken = drained(system, system.start)
    yield Figure(f"{events:,} events, process start to exact boards", "s", [taken.exact_s])
    yield Figure("the same as a rate", "ev/s", [events / taken.exact_s], 0)
    yield Figure("the first of those boards", "s", [taken.first_s])
    yield Figure("CPU time of instance and JVM", "s", [taken.cpu_s])
    yield Figure("peak memory of both", "MB", [taken.peak_mb], 0)


def drained(system: Loaded, start: Callable[[], Served]) -> Drained:
    """Start what serves boards, and wait until they are exact."""
    began_s = time.monotonic()
    served = start()
    with ProcessTree(served.process.pid) as tree:
        wait_until(lambda: served.boards() not in ({}, 503), "a board is shown", every_s=LOOK_EVERY_S)
        first_s = time.monotonic() - began_s
        system.wait_until_exact(served)
        exact_s = time.monotonic() - began_s
        cpu_s = tree.cpu_s
    return Drained(first_s, exact_s, cpu_s, tree.peak_mb)


def main() -> None:
    """Print the table of one run."""
    print(markdown(run(*map(int, sys.argv[1:]))))


if __name__ == "__main__":
    main()

"""How long a backlog takes: from the start of the process until every board is exact over HTTP.

    .venv/bin/python -m benchmarks.drain [EVENTS]

A broker with the load and one instance with default settings on this machine, from nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from benchmarks.figures import Figure, markdown
from benchmarks.load import Load
from benchmarks.loaded import LOOK_EVERY_S, Loaded
from benchmarks.process_tree import ProcessTree
from tests.waiting import wait_until


def run(events: int = Load.events) -> Iterator[Figure]:
    """Yield the figures of one run."""
    with Loaded(Load(events=events)) as system:
        began_s = time.monotonic()
        instance = system.start()
        with ProcessTree(instance.process.pid) as tree:
            wait_until(lambda: instance.boards() not in ({}, 503), "a board is shown", every_s=LOOK_EVERY_S)
            first_s = time.monotonic() - began_s
            system.wait_until_exact(instance)
            exact_s = time.monotonic() - began_s
            cpu_s = tree.cpu_s
    yield Figure(f"{events:,} events, process start to exact boards", "s", [exact_s])
    yield Figure("the same as a rate", "ev/s", [events / exact_s], 0)
    yield Figure("the first of those boards", "s", [first_s])
    yield Figure("CPU time of instance and JVM", "s", [cpu_s])
    yield Figure("peak memory of both", "MB", [tree.peak_mb], 0)


def main() -> None:
    """Print the table of one run."""
    print(markdown(run(*map(int, sys.argv[1:]))))


if __name__ == "__main__":
    main()

"""How long a backlog takes: from the start of the process until every board is exact over HTTP.

    .venv/bin/python -m benchmarks.drain [EVENTS [RUNS]]

A broker with the load and one instance with default settings on this machine, from nothing.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from app.broker import Broker
from benchmarks.figures import Figure, markdown, of_runs
from benchmarks.load import Best, Load, fill
from benchmarks.process_tree import ProcessTree
from tests.drivers.instance import Instance
from tests.waiting import wait_until

DEFAULTS = {"CHECKPOINT_INTERVAL_S": 60, "TABLES_REFRESH_S": 60}
"""Of the service; tests have others."""

_DEADLINE_S = 600.0
_LOOK_EVERY_S = 0.1


def measure(runs: int, events: int = Load.events) -> list[Figure]:
    """Return the figures of so many runs."""
    return of_runs(list(run(Load(events=events))) for _ in range(runs))


def run(load: Load) -> Iterator[Figure]:
    """Yield the figures of one run."""
    with tempfile.TemporaryDirectory() as directory, Broker(Path(directory) / "kafka") as broker:
        expected = fill(broker.connection, load).boards()
        began_s = time.monotonic()
        with Instance(Path(directory) / "instance", broker.bootstrap_servers, **DEFAULTS) as instance:
            with ProcessTree(instance.process.pid) as tree:
                wait_until(lambda: instance.boards() not in ({}, 503), _DEADLINE_S, "a board is shown", _LOOK_EVERY_S)
                first_s = time.monotonic() - began_s
                wait_until(lambda: instance.boards() == expected, _DEADLINE_S, "the boards are exact", _LOOK_EVERY_S)
                exact_s = time.monotonic() - began_s
                cpu_s = tree.cpu_s
            print(instance.log(), file=sys.stderr)
    yield Figure(f"{load.events:,} events, process start to exact boards", "s", [exact_s])
    yield Figure("the same, a second", "ev/s", [load.events / exact_s], 0)
    yield Figure("the first of these boards", "s", [first_s])
    yield Figure("CPU time of instance and JVM", "s", [cpu_s])
    yield Figure("peak memory of both", "MB", [tree.peak_mb], 0)


def main() -> None:
    """Print the table."""
    events = int(sys.argv[1]) if len(sys.argv) > 1 else Load.events
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    print(markdown(measure(runs, events)))


if __name__ == "__main__":
    main()

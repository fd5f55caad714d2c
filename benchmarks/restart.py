"""How soon boards are served after a start: on its state, without it, and when the process before was just killed.

    .venv/bin/python -m benchmarks.restart

One instance with 1,000 boards and 100,000 players. "Served" is every board exact over HTTP; the stream comes later.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.figures import Figure, markdown
from benchmarks.load import Load
from benchmarks.loaded import Loaded, Served
from tests.drivers.instance import Instance

EVENTS = 200_000
LOOK_EVERY_S = 0.02


def run() -> Iterator[Figure]:
    """Yield the figures of one run."""
    with Loaded(Load(events=EVENTS)) as system:
        instance = system.start_and_settle()
        for name, end in (
            ("start with its state", _stop),
            ("start without its state", _stop_and_wipe),
            ("start at once after kill -9", Instance.kill),
        ):
            end(instance)
            yield Figure(f"{name}, every board served", "s", [served_after_s(system, instance)], 2)
            instance.wait_for_real_time()


def served_after_s(system: Loaded, served: Served) -> float:
    """Start again what has ended; return how long it took until every board was served."""
    began_s = time.monotonic()
    served.start()
    system.wait_until_exact(served, LOOK_EVERY_S)
    return time.monotonic() - began_s


def _stop(instance: Instance) -> None:
    assert instance.terminate() == 0


def _stop_and_wipe(instance: Instance) -> None:
    _stop(instance)
    instance.lose_state()


def main() -> None:
    """Print the table of one run."""
    print(markdown(run()))


if __name__ == "__main__":
    main()

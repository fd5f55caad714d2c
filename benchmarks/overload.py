"""What happens when more comes than real time can take: it is noticed, worked off in bulk, and real time goes on.

    .venv/bin/python -m benchmarks.overload [RATE [SECONDS]]

One instance with batches of 10 s. Events are sent at the rate, while wrk (which it needs) reads one board, again
and again over one connection.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from benchmarks.figures import Figure, markdown
from benchmarks.load import Load, events_sent, first, sending, sent_at_a_rate
from benchmarks.loaded import LOOK_EVERY_S, Loaded
from benchmarks.wrk import wrk
from tests.drivers.instance import Instance
from tests.waiting import wait_until

RATE = 150_000
SECONDS = 30
SPARE_S = 5
"""For how much longer than wrk reads there are events."""

EVENTS = 200_000


def run(rate: int = RATE, seconds: int = SECONDS) -> Iterator[Figure]:
    """Yield the figures of one run."""
    load = Load(events=EVENTS)
    with Loaded(load, CHECKPOINT_INTERVAL_S=10) as system:
        instance = system.start_and_settle()
        # Made now: later it would take a core from what is measured.
        events = list(sent_at_a_rate(load, rate * (seconds + SPARE_S)))
        before = events_sent(system.broker.connection)
        with sending(system.broker.connection, rate, load):
            reads = wrk(f"{instance.url}/leaderboard/1", {}, seconds=seconds, connections=1)
        ended_s = time.monotonic()
        sent = events_sent(system.broker.connection) - before
        assert sent <= rate * (seconds + SPARE_S)
        for chunk in first(events, sent):
            system.best.add(chunk)
        system.expected = system.best.boards()
        system.wait_until_exact(instance)
        exact_s = time.monotonic() - ended_s
        wait_until(lambda: _real_time_runs(instance), "real time runs again", every_s=LOOK_EVERY_S)
        running_s = time.monotonic() - ended_s
        bulk = instance.log().count("▸ catching up") - 1
    what = f"{rate:,} ev/s wanted for {seconds} s"
    yield Figure(f"{what}: sent", "ev/s", [sent / seconds], 0)
    yield Figure(f"{what}: times that real time gave way to bulk", "", [bulk], 0)
    yield Figure(f"{what}: boards exact after the last event", "s", [exact_s])
    yield Figure(f"{what}: boards exact and real time again after the last event", "s", [running_s])
    yield Figure(f"{what}: reads one by one meanwhile, p50", "ms", [reads.p50_ms], 3)
    yield Figure(f"{what}: reads one by one meanwhile, p99", "ms", [reads.p99_ms])


def _real_time_runs(instance: Instance) -> bool:
    """Return whether real time has begun again since it gave way last; it may do so several times."""
    log = instance.log()
    return log.rfind("catching up ▸ running") > log.rfind("▸ catching up")


def main() -> None:
    """Print the table of one run."""
    print(markdown(run(*map(int, sys.argv[1:]))))


if __name__ == "__main__":
    main()

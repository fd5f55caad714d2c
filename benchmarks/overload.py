"""What happens when more comes than real time can take: it is noticed, worked off in bulk, and real time goes on.

    .venv/bin/python -m benchmarks.overload [RATE [SECONDS]]

One instance with batches of 10 s. Events are sent at the rate, while wrk (which it needs) reads one board, again
and again over one connection.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator

from benchmarks.figures import Figure, markdown
from benchmarks.load import PARTITIONS, Load, sending, sent_at_a_rate
from benchmarks.loaded import DEADLINE_S, Loaded
from benchmarks.wrk import wrk
from topology.topic_offsets import topic_offsets
from topology.topics import SCORE_EVENTS

RATE = 150_000
SECONDS = 30
EVENTS = 200_000


def run(rate: int = RATE, seconds: int = SECONDS) -> Iterator[Figure]:
    """Yield the figures of one run."""
    load = Load(events=EVENTS)
    with Loaded(load, CHECKPOINT_INTERVAL_S=10) as system:
        instance = system.start_and_settle()
        before = _count(system)
        with sending(system.broker.connection, rate, load):
            reads = wrk(f"{instance.url}/leaderboard/1", {}, seconds=seconds, connections=1)
        ended_s = time.monotonic()
        sent = _count(system) - before
        for chunk in sent_at_a_rate(load, sent):
            system.best.add(chunk)
        system.wait_until_exact(instance)
        exact_s = time.monotonic() - ended_s
        instance.wait_for_log("catching up ▸ running", DEADLINE_S, times=2)
        running_s = time.monotonic() - ended_s
        bulk = instance.log().count("▸ catching up") - 1
    what = f"{rate:,} ev/s wanted for {seconds} s"
    yield Figure(f"{what}: sent", "ev/s", [sent / seconds], 0)
    yield Figure(f"{what}: times that real time gave way to bulk", "", [bulk], 0)
    yield Figure(f"{what}: boards exact after the last event", "s", [exact_s])
    yield Figure(f"{what}: real time again after the last event", "s", [running_s])
    yield Figure(f"{what}: reads one by one meanwhile, p50", "ms", [reads.p50_ms])
    yield Figure(f"{what}: reads one by one meanwhile, p99", "ms", [reads.p99_ms])


def _count(system: Loaded) -> int:
    return sum(asyncio.run(topic_offsets(system.broker.connection, SCORE_EVENTS, PARTITIONS)).end.values())


def main() -> None:
    """Print the table of one run."""
    print(markdown(run(*map(int, sys.argv[1:]))))


if __name__ == "__main__":
    main()

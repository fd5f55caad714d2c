"""What an instance holds in memory, idle and under load, with tables of several sizes; and what it does when idle.

    .venv/bin/python -m benchmarks.memory [PLAYERS PRODUCTS]

Two instances with default settings, so that there is one with the stream and one without. Memory is proportional: what
processes share counts once. Load is 1,000 events a second.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from benchmarks.figures import Figure, markdown
from benchmarks.load import Load, sending
from benchmarks.loaded import DEFAULTS, Loaded
from benchmarks.process_tree import ProcessTree

SIZES = ((1_000, 1_000), (100_000, 1_000), (1_000_000, 1_000), (100_000, 100_000))
EVENTS = 200_000
RATE = 1_000
IDLE_S = float(DEFAULTS["CHECKPOINT_INTERVAL_S"])
"""A whole batch of real time, so that the end of one is in it. The code of the first end is new to the JVM."""

SECONDS = 20.0


def run(sizes: tuple[tuple[int, int], ...] = SIZES) -> Iterator[Figure]:
    """Yield the figures of one run."""
    for players, products in sizes:
        yield from measure(players, products)


def measure(players: int, products: int) -> Iterator[Figure]:
    """Yield the figures for tables of one size."""
    what = f"{players:,} players, {products:,} products"
    with Loaded(Load(events=EVENTS, players=players, products=products)) as system:
        system.start_and_settle()
        system.start_and_settle()
        holder, (other,) = system.replicas.stream_holder, system.replicas.others
        whole, without = ProcessTree(holder.process.pid), ProcessTree(other.process.pid)
        for batch in ("first batch", "second batch"):
            before_s = whole.cpu_s
            time.sleep(IDLE_S)
            idle_percent = (whole.cpu_s - before_s) / IDLE_S * 100
            yield Figure(f"{what}: instance with the stream, {batch}, idle", "% of a core", [idle_percent])
        yield Figure(f"{what}: instance without the stream", "MB", [without.pss_mb], 0)
        yield Figure(f"{what}: instance with the stream, its JVM and all", "MB", [whole.pss_mb], 0)
        with sending(system.broker.connection, RATE, Load(players=players, products=products)):
            time.sleep(SECONDS)
            yield Figure(f"{what}: instance without the stream, under load", "MB", [without.pss_mb], 0)
            yield Figure(f"{what}: instance with the stream and all, under load", "MB", [whole.pss_mb], 0)


def main() -> None:
    """Print the table of one run."""
    given = tuple(map(int, sys.argv[1:3]))
    print(markdown(run(((given[0], given[1]),) if given else SIZES)))


if __name__ == "__main__":
    main()

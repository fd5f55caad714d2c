"""This service beside the same leaderboard as a Kafka Streams application, in turn, with nothing pinned.

    .venv/bin/python -m benchmarks.peer [EVENTS]

Needs Maven, which builds the application from `benchmarks/peer`, and wrk. Each has a broker of its own with the same
load, and nothing else runs beside it: a backlog, reads, freshness, and a start with its state.

Both have default settings: here exactly once in effect, there at least once and two stream threads.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import uvloop

from benchmarks.drain import drained
from benchmarks.figures import Figure, markdown
from benchmarks.freshness import BACKLOG, OWN_PRODUCT, SECONDS, WARM_UP_S, OwnBoard, shown_after_ms
from benchmarks.kafka_streams import KafkaStreamsApplication, build
from benchmarks.load import Load, events_sent, sending, sent_at_a_rate
from benchmarks.loaded import Loaded, Served
from benchmarks.reads import figures, read
from benchmarks.restart import served_after_s
from tests.drivers.several import Several

HERE, PEER = "here", "Kafka Streams"
RATE = 1_000
FEW = 200_000


def run(events: int = BACKLOG.events) -> Iterator[Figure]:
    """Yield the figures of one run; those of the two stand beside each other."""
    build()
    load = replace(BACKLOG, events=events)
    for pair in zip(_of_the_service(load), _of_the_application(load), strict=True):
        yield from pair
    yield from _of_an_instance_a_core(replace(load, events=min(events, FEW)))


def _of_the_service(load: Load) -> list[Figure]:
    with Loaded(load) as system, ExitStack() as ended:
        instance = system.replicas.make()
        ended.push(instance)
        return list(_measured(HERE, system, load, instance, instance.wait_for_real_time))


def _of_the_application(load: Load) -> list[Figure]:
    with Loaded(load) as system, ExitStack() as ended:
        application = KafkaStreamsApplication(system.directory / "application", system.broker.bootstrap_servers)
        ended.push(application)
        return list(_measured(PEER, system, load, application, lambda: None))


def _of_an_instance_a_core(load: Load) -> Iterator[Figure]:
    """Yield reads of as many instances as there are cores, by one command; how many events there were is no matter."""
    count = os.cpu_count() or 1
    with (
        Loaded(load) as system,
        Several(system.directory / "several", system.broker.bootstrap_servers, count) as served,
    ):
        served.wait_until_ready()
        system.wait_until_exact(served)
        yield from _reads(f"{HERE}, {count} instances", "one board", f"{served.url}/leaderboard/1")


def _measured(
    who: str, system: Loaded, load: Load, served: Served, wait_until_settled: Callable[[], None]
) -> Iterator[Figure]:
    """Yield the figures of one of the two.

    Args:
        who: whose figures they are.
        system: the broker with the load.
        load: the load.
        served: what is measured, not started yet.
        wait_until_settled: returns when all that follows a backlog is over.
    """
    yield from _backlog(who, system, load, served)
    wait_until_settled()
    yield from _reads(who, "one board", f"{served.url}/leaderboard/1")
    yield from _reads(who, f"all {len(system.expected):,} boards", f"{served.url}/leaderboard")
    yield from _freshness(who, system, load, served)
    assert served.terminate() == 0
    yield Figure(f"start with its state, every board served, {who}", "s", [served_after_s(system, served)], 2)


def _backlog(who: str, system: Loaded, load: Load, served: Served) -> Iterator[Figure]:
    taken = drained(system, served.start)
    yield Figure(f"backlog of {load.events:,} events, process start to exact boards, {who}", "s", [taken.exact_s])
    yield Figure(f"backlog, CPU time, {who}", "s", [taken.cpu_s])
    yield Figure(f"backlog, peak memory, {who}", "MB", [taken.peak_mb], 0)


def _reads(who: str, what: str, url: str) -> Iterator[Figure]:
    yield from figures(f"{what}, {who}", read(url, core=None))


def _freshness(who: str, system: Loaded, load: Load, served: Served) -> Iterator[Figure]:
    """Yield how fresh boards are, when all of them are exact again."""
    kafka, before = system.broker.connection, events_sent(system.broker.connection)
    others = replace(load, products=OWN_PRODUCT - 1, seed=RATE)
    with sending(kafka, RATE, others):
        warm_up_ms = uvloop.run(shown_after_ms(kafka, served.address, OwnBoard(), WARM_UP_S))
        shown_ms = uvloop.run(shown_after_ms(kafka, served.address, OwnBoard(), SECONDS))
    for chunk in sent_at_a_rate(others, events_sent(kafka) - before - len(warm_up_ms) - len(shown_ms)):
        system.best.add(chunk)
    # Of the own board each score has been seen.
    own = {str(OWN_PRODUCT): served.boards()[str(OWN_PRODUCT)]}
    system.expected = system.best.boards() | own
    system.wait_until_exact(served)
    cuts = statistics.quantiles(shown_ms, n=100)
    yield Figure(f"{RATE:,} ev/s until HTTP shows it, p50, {who}", "ms", [cuts[49]])
    yield Figure(f"{RATE:,} ev/s until HTTP shows it, p99, {who}", "ms", [cuts[98]])


def main() -> None:
    """Print the table of one run."""
    print(markdown(run(*map(int, sys.argv[1:]))))


if __name__ == "__main__":
    main()

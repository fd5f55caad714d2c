"""What readers notice when instances end and come: failed reads, the longest gap, and how soon new scores show again.

    .venv/bin/python -m benchmarks.failover

Three instances with default settings and a broker on this machine, 300 reads a second at the instances that stay, no
second tries, every answer checked. Before that the price of a forwarded read over a local one, after it what an
instance takes that keeps Spark warm. Takes about eight minutes.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx
import psutil

from app.java.spark_class_data import make_spark_class_data
from benchmarks.figures import Figure, markdown
from benchmarks.loaded import DEFAULTS
from benchmarks.process_tree import ProcessTree
from tests.drivers.deployment import Deployment
from tests.drivers.instance import Instance
from tests.drivers.processes import descendants, jvm_of
from tests.drivers.reader import latencies_s
from tests.drivers.replicas import Replicas
from tests.drivers.sample import PRODUCTS, is_shown
from tests.drivers.stream_standby import warm_standby
from tests.waiting import wait_until

READS_OF_EACH = 2_000
_IDLE_S = 20.0


def run() -> Iterator[Figure]:
    """Yield the figures of one run."""
    make_spark_class_data()
    with tempfile.TemporaryDirectory() as directory, Deployment(Path(directory), **DEFAULTS) as deployment:
        _settle(deployment)
        # First: in time each has had every partition, and what it has had answers for a while.
        yield from measure_forwarding(deployment)
        for case in cases(deployment):
            yield from measure(deployment, *case)
        yield from measure_rolling_restart(deployment)
        _settle(deployment)
        yield from measure_standby(deployment)


def cases(deployment: Deployment) -> Iterator[tuple[str, list[Instance], Callable[[], object]]]:
    """Yield the name of each case, who stays, and what happens; three healthy instances are there at each."""
    replicas = deployment.replicas
    for how, end in (("kill -9", replicas.kill), ("SIGTERM", replicas.terminate)):
        for which in ("without", "with"):
            _settle(deployment)
            victim = replicas.stream_holder if which == "with" else replicas.others[0]
            stay = [member for member in replicas.members if member is not victim]
            yield f"{how}, {which} the stream", stay, partial(_end, victim, end)
    _settle(deployment)
    yield "kill -9 of the stream's JVM", list(replicas.members), jvm_of(replicas.stream_holder.process.pid).kill
    for count in (1, 3):
        _settle(deployment)
        yield f"add {count}", list(replicas.members), partial(replicas.add, count)


def measure(deployment: Deployment, name: str, stay: Sequence[Instance], act: Callable[[], object]) -> Iterator[Figure]:
    """Read while something happens and until all is settled; yield what was noticed."""
    with deployment.reading(stay) as reader:
        shown_s = _until_shown_s(deployment, act)
        deployment.replicas.wait_until_settled()
    found = reader.readings
    for failure in found.failures[:3]:
        print(f"    {failure}", file=sys.stderr)
    yield Figure(f"{name}: failed reads", "reads", [len(found.failures)], 0)
    yield Figure(f"{name}: longest time without an answer", "ms", [found.longest_gap_s * 1000], 0)
    yield Figure(f"{name}: until new scores are shown", "s", [shown_s])


def measure_rolling_restart(deployment: Deployment) -> Iterator[Figure]:
    """Restart all instances, one after the other, as soon as the one before is ready; the one with the stream first.

    Meanwhile a score is sent, and the next one when it is shown: the longest wait is what players see.
    """
    _settle(deployment)
    replicas = deployment.replicas
    with ThreadPoolExecutor(1) as beside:
        restarted = threading.Event()
        waits = beside.submit(_waits_s, deployment, restarted)
        try:
            for member in [replicas.stream_holder, *replicas.others]:
                replicas.terminate(member)
                replicas.bring_back(member)
                replicas.wait_until_settled()
        finally:
            restarted.set()
        yield Figure("rolling restart of three: longest until a new score is shown", "s", [max(waits.result())])


def _waits_s(deployment: Deployment, end: threading.Event) -> list[float]:
    """Return how long each of some scores takes until one instance shows it, sent one after the other until the end."""
    found = []
    while not end.is_set():
        began_s, score = time.monotonic(), deployment.sample.play()
        wait_until(partial(_is_shown_by_any, deployment.replicas, score), f"score {score} is shown", every_s=0.02)
        found.append(time.monotonic() - began_s)
    return found


def _is_shown_by_any(replicas: Replicas, score: float) -> bool:
    for member in list(replicas.members):
        # One that is just ending, or starting, does not answer.
        with suppress(httpx.HTTPError):
            return is_shown(member, score)
    return False


def measure_standby(deployment: Deployment) -> Iterator[Figure]:
    """Yield what an instance takes that keeps Spark warm, while nothing happens."""
    tree = ProcessTree(warm_standby(deployment.replicas).process.pid)
    before_s, began_s = tree.cpu_s, time.monotonic()
    time.sleep(_IDLE_S)
    used = (tree.cpu_s - before_s) / (time.monotonic() - began_s)
    # Right after the warm-up its JVM is still giving memory back.
    yield Figure("instance that keeps Spark warm, idle", "MB", [tree.pss_mb], 0)
    yield Figure("the same", "% of a core", [100 * used], 1)


def _settle(deployment: Deployment) -> None:
    """Make it three healthy instances, and wait until a standby is warm."""
    deployment.settle()
    warm_standby(deployment.replicas)


def _end(victim: Instance, end: Callable[[Instance], object]) -> None:
    """End an instance, and wait until its JVM has ended as well: until then it may publish another score."""
    family = descendants(victim.process.pid)
    end(victim)
    psutil.wait_procs(family)


def _until_shown_s(deployment: Deployment, act: Callable[[], object]) -> float:
    """Return how long it takes, from before something happens, until a score is shown that was sent after it."""
    began_s = time.monotonic()
    act()
    score = deployment.sample.play()
    members = deployment.replicas.members
    wait_until(lambda: all(is_shown(member, score) for member in members), f"score {score} is shown", every_s=0.05)
    return time.monotonic() - began_s


def measure_forwarding(deployment: Deployment) -> Iterator[Figure]:
    """Yield what a forwarded read costs over a local one, asked one by one."""
    members = deployment.replicas.members
    served_by = {
        (member.address, path): member.get(path).headers["x-served-by"]
        for member in members
        for path in (f"/leaderboard/{product}" for product in PRODUCTS)
    }
    # Some have a copy of every partition, and forward nothing.
    other, path, holder = next((other, path, by) for (other, path), by in served_by.items() if by != other)
    for what, address in (("local", holder), ("forwarded", other)):
        asyncio.run(latencies_s(address, [path], 200))
        (taken_s,) = asyncio.run(latencies_s(address, [path], READS_OF_EACH))
        yield Figure(f"a {what} read, one by one, p50", "ms", [statistics.median(taken_s) * 1000], 2)


def main() -> None:
    """Print the table of one run."""
    print(markdown(run()))


if __name__ == "__main__":
    main()

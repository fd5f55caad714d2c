"""What readers notice when instances end and come: failed reads, the longest gap, and how soon new scores show again.

    .venv/bin/python -m benchmarks.failover

Three instances with default settings and a broker on this machine, 300 reads a second at the instances that stay, no
second tries, every answer checked. Then the price of a forwarded read over a local one. Takes about four minutes.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from app.java.spark_class_data import make_spark_class_data
from benchmarks.figures import Figure, markdown
from benchmarks.loaded import DEFAULTS
from tests.drivers.deployment import Deployment
from tests.drivers.instance import Instance
from tests.drivers.reader import latencies_s
from tests.drivers.sample import PRODUCTS

READS_OF_EACH = 2_000


def run() -> Iterator[Figure]:
    """Yield the figures of one run."""
    make_spark_class_data()
    with tempfile.TemporaryDirectory() as directory, Deployment(Path(directory), **DEFAULTS) as deployment:
        for case in cases(deployment):
            yield from measure(deployment, *case)
        deployment.settle()
        yield from measure_forwarding(deployment)


def cases(deployment: Deployment) -> Iterator[tuple[str, list[Instance], Callable[[], object]]]:
    """Yield the name of each case, who stays, and what happens; three healthy instances are there at each."""
    replicas = deployment.replicas
    for how, end in (("kill -9", replicas.kill), ("SIGTERM", replicas.terminate)):
        for which in ("without", "with"):
            deployment.settle()
            victim = replicas.stream_holder if which == "with" else replicas.others[0]
            stay = [member for member in replicas.members if member is not victim]
            yield f"{how}, {which} the stream", stay, partial(end, victim)
    for count in (1, 3):
        deployment.settle()
        yield f"add {count}", list(replicas.members), partial(replicas.add, count)


def measure(deployment: Deployment, name: str, stay: Sequence[Instance], act: Callable[[], object]) -> Iterator[Figure]:
    """Read while something happens and until all is settled; yield what was noticed."""
    with deployment.reading(stay) as reader:
        began_s = time.monotonic()
        act()
        deployment.wait_until_new_scores_are_shown()
        shown_s = time.monotonic() - began_s
        deployment.replicas.wait_until_settled()
    found = reader.readings
    for failure in found.failures[:3]:
        print(f"    {failure}", file=sys.stderr)
    yield Figure(f"{name}: failed reads", "reads", [len(found.failures)], 0)
    yield Figure(f"{name}: longest time without an answer", "ms", [found.longest_gap_s * 1000], 0)
    yield Figure(f"{name}: until new scores are shown", "s", [shown_s])


def measure_forwarding(deployment: Deployment) -> Iterator[Figure]:
    """Yield what a forwarded read costs over a local one, asked one by one."""
    asked = deployment.replicas.members[0]
    served_by = {p: asked.get(f"/leaderboard/{p}").headers["x-served-by"] for p in PRODUCTS}
    local = next(product for product, holder in served_by.items() if holder == asked.address)
    remote = next(product for product, holder in served_by.items() if holder != asked.address)
    paths = [f"/leaderboard/{product}" for product in (local, remote)]
    asyncio.run(latencies_s(asked.address, paths, 200))
    p50_ms = [
        statistics.median(taken) * 1000 for taken in asyncio.run(latencies_s(asked.address, paths, READS_OF_EACH))
    ]
    yield Figure("a local read, one by one, p50", "ms", [p50_ms[0]], 2)
    yield Figure("a forwarded read, one by one, p50", "ms", [p50_ms[1]], 2)


def main() -> None:
    """Print the table of one run."""
    print(markdown(run()))


if __name__ == "__main__":
    main()

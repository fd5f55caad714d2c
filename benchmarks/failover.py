"""What readers notice when instances end and come: failed reads, the longest gap, and how soon new scores show again.

    .venv/bin/python benchmarks/failover.py

Three instances and a broker on this machine, 300 reads a second at the instances that stay, no second tries, every
answer checked. Then the price of a forwarded read over a local one. Takes about four minutes.
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

from tests.drivers.deployment import Deployment
from tests.drivers.instance import Instance
from tests.drivers.reader import latencies_s
from tests.drivers.sample import PRODUCTS

READS_OF_EACH = 2_000


def main() -> None:
    """Print the table; exit with 1 when a read failed."""
    with tempfile.TemporaryDirectory() as directory, Deployment(Path(directory)) as deployment:
        failed = measure_failover(deployment)
        deployment.settle()
        measure_forwarding(deployment)
    sys.exit(failed > 0)


def measure_failover(deployment: Deployment) -> int:
    """Print a line for each case; return how many reads failed in all."""
    print(f"{'case':34} {'reads':>7} {'failed':>7} {'longest gap':>12} {'slowest read':>13} {'new scores shown':>17}")
    return sum(measure(deployment, *case) for case in cases(deployment))


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


def measure(deployment: Deployment, name: str, stay: Sequence[Instance], act: Callable[[], object]) -> int:
    """Read while something happens and until all is settled; print what was noticed, return the failed reads."""
    with deployment.reading(stay) as reader:
        began_s = time.monotonic()
        act()
        shown_s = deployment.wait_until_new_scores_are_shown(began_s)
        deployment.replicas.wait_until_settled()
    found = reader.readings
    print(
        f"{name:34} {found.count:7} {len(found.failures):7} {found.longest_gap_s * 1000:9.0f} ms"
        f" {found.slowest_s * 1000:10.0f} ms {shown_s:15.1f} s",
        flush=True,
    )
    for failure in found.failures[:3]:
        print(f"    {failure}")
    return len(found.failures)


def measure_forwarding(deployment: Deployment) -> None:
    """Print what a forwarded read costs over a local one, asked one by one."""
    asked = deployment.replicas.members[0]
    served_by = {p: asked.get(f"/leaderboard/{p}").headers["x-served-by"] for p in PRODUCTS}
    local = next(product for product, holder in served_by.items() if holder == asked.address)
    remote = next(product for product, holder in served_by.items() if holder != asked.address)
    paths = [f"/leaderboard/{product}" for product in (local, remote)]
    asyncio.run(latencies_s(asked.address, paths, 200))
    p50_ms = [
        statistics.median(taken) * 1000 for taken in asyncio.run(latencies_s(asked.address, paths, READS_OF_EACH))
    ]
    extra_ms = p50_ms[1] - p50_ms[0]
    print(f"p50 of a local read {p50_ms[0]:.2f} ms, of a forwarded one {p50_ms[1]:.2f} ms: {extra_ms:.2f} ms more")


if __name__ == "__main__":
    main()

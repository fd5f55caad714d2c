"""How many reads instances answer: one board, all boards, forwarded, behind a load balancer, while one catches up.

    .venv/bin/python -m benchmarks.reads

Needs wrk and nginx. 1,000 boards, 100,000 players, 32 connections. Unless nothing is pinned, the instance that is asked
has one core and wrk the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import psutil

from benchmarks.figures import Figure, markdown
from benchmarks.load import Load, send_scores
from benchmarks.loaded import Loaded, pinned
from benchmarks.wrk import Reads, wrk
from tests.drivers.instance import Instance
from tests.drivers.nginx import Nginx

EVENTS = 200_000
BACKLOG = 2_000_000
SECONDS = 8.0
WARM_UP_S = 4.0
CORE, CORE_OF_WRK = 0, 1
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


def run() -> Iterator[Figure]:
    """Yield the figures of one run."""
    load = Load(events=EVENTS)
    with Loaded(load, NUM_STANDBY_REPLICAS=2) as system:
        instance = system.start_and_settle()
        yield from _one_alone(instance)
        yield from _not_pinned(f"{instance.url}/leaderboard/1", "one board, nothing pinned", [instance])
        yield from _forwarded(system, instance)
        yield from _behind_a_balancer(system)
        system.replicas.wait_until_settled()
        (instance,) = system.replicas.members
        assert instance.terminate() == 0
        send_scores(system.broker.connection, replace(load, events=BACKLOG, seed=load.seed + 1))
        instance.start()
        instance.wait_for_log("starting ▸ catching up")
        reads = wrk(f"{instance.url}/leaderboard/1", {}, seconds=SECONDS)
        assert "caught up" not in instance.log(), "it caught up before the reads had ended"
        yield from figures("one board, while the stream catches up", reads)


def _one_alone(instance: Instance) -> Iterator[Figure]:
    with pinned(instance, CORE):
        etag = instance.get("/leaderboard/1").headers["etag"]
        position = instance.get("/leaderboard/1").headers["x-store-position"]
        assert instance.get("/leaderboard/1", **{"If-None-Match": etag}).status_code == 304
        yield from figures("one board", read(f"{instance.url}/leaderboard/1"))
        yield from figures("one board, not modified", read(f"{instance.url}/leaderboard/1", {"If-None-Match": etag}))
        handed_back = f"{instance.url}/leaderboard/1?min_position={position}"
        yield from figures("one board, a position handed back", read(handed_back))
        yield from figures("all 1,000 boards", read(f"{instance.url}/leaderboard"))


def _forwarded(system: Loaded, instance: Instance) -> Iterator[Figure]:
    """Yield what an instance answers that leaves all it is not active for to another one, both on one core."""
    other = system.start_and_settle(READS="active")
    with pinned(instance, CORE), pinned(other, CORE):
        far = next(p for p in system.expected if _served_by(other, p) == instance.address)
        yield from figures("one board, beside another instance", read(f"{instance.url}/leaderboard/{far}"))
        yield from figures("one board, forwarded", read(f"{other.url}/leaderboard/{far}"))
        yield from figures("all 1,000 boards of two instances", read(f"{other.url}/leaderboard"))
    system.replicas.terminate(other)


def _behind_a_balancer(system: Loaded) -> Iterator[Figure]:
    """Yield what three instances with two standbys answer through nginx, nothing pinned."""
    added = [system.start_and_settle(), system.start_and_settle()]
    members = system.replicas.members
    with Nginx(system.directory / "nginx", [member.port for member in members]) as nginx:
        yield from _not_pinned(f"{nginx.url}/leaderboard/1", "one board of three instances, through nginx", members)
    for instance in added:
        system.replicas.terminate(instance)


def _not_pinned(url: str, what: str, asked: Sequence[Instance]) -> Iterator[Figure]:
    """Yield what is answered where all share the cores, and for each second of a core that the instances take."""
    wrk(url, {}, seconds=WARM_UP_S)
    before_s = sum(map(_cpu_s, asked))
    reads = wrk(url, {}, seconds=SECONDS)
    taken_s = sum(map(_cpu_s, asked)) - before_s
    yield from figures(what, reads)
    yield Figure(f"{what}, for each second of a core of the instances", "req", [reads.per_s * SECONDS / taken_s], 0)


def _cpu_s(instance: Instance) -> float:
    """Return what CPU time the process has taken, without its JVM."""
    times = psutil.Process(instance.process.pid).cpu_times()
    return float(times.user + times.system)


def read(url: str, headers: Mapping[str, str] = NO_HEADERS, *, core: int | None = CORE_OF_WRK) -> Reads:
    """Read one URL as often as it is answered, once who answers is warm.

    Args:
        url: what is asked for.
        headers: of each request.
        core: where wrk runs, while who answers has `CORE` for itself, by `pinned`; None where nothing is pinned.
    """
    wrk(url, headers, seconds=WARM_UP_S, core=core)
    return wrk(url, headers, seconds=SECONDS, core=core)


def _served_by(instance: Instance, product: str) -> str:
    return str(instance.get(f"/leaderboard/{product}").headers["x-served-by"])


def figures(what: str, reads: Reads) -> Iterator[Figure]:
    """Yield the figures of reads."""
    yield Figure(what, "req/s", [reads.per_s], 0)
    yield Figure(f"{what}, p99", "ms", [reads.p99_ms])


def main() -> None:
    """Print the table of one run."""
    print(markdown(run()))


if __name__ == "__main__":
    main()

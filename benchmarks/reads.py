"""How many reads one instance answers: one board, all boards, not modified, forwarded, and while the stream catches up.

    .venv/bin/python -m benchmarks.reads

Needs wrk. The instance that is asked has one core, wrk the other; 1,000 boards, 100,000 players, 32 connections.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from benchmarks.figures import Figure, markdown
from benchmarks.load import Load, send_scores
from benchmarks.loaded import Loaded, pin
from benchmarks.wrk import Reads, wrk
from tests.drivers.instance import Instance

EVENTS = 200_000
BACKLOG = 2_000_000
SECONDS = 8.0
WARM_UP_S = 4.0
CORE, CORE_OF_WRK = 0, 1
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


def run() -> Iterator[Figure]:
    """Yield the figures of one run."""
    load = Load(events=EVENTS)
    with Loaded(load) as system:
        instance = system.start_and_settle()
        pin(instance, CORE)
        etag = instance.get("/leaderboard/1").headers["etag"]
        assert instance.get("/leaderboard/1", **{"If-None-Match": etag}).status_code == 304
        yield from figures("one board", read(f"{instance.url}/leaderboard/1"))
        yield from figures("one board, not modified", read(f"{instance.url}/leaderboard/1", {"If-None-Match": etag}))
        yield from figures("all 1,000 boards", read(f"{instance.url}/leaderboard"))

        other = system.start_and_settle()
        pin(other, CORE)
        far = next(p for p in system.expected if _served_by(other, p) == instance.address)
        yield from figures("one board, forwarded", read(f"{other.url}/leaderboard/{far}"))
        yield from figures("all 1,000 boards of two instances", read(f"{other.url}/leaderboard"))
        system.replicas.terminate(other)

        system.replicas.wait_until_settled()
        assert instance.terminate() == 0
        send_scores(system.broker.connection, replace(load, events=BACKLOG, seed=load.seed + 1))
        instance.start()
        instance.wait_for_log("starting ▸ catching up")
        reads = wrk(f"{instance.url}/leaderboard/1", {}, seconds=SECONDS)
        assert "caught up" not in instance.log(), "it caught up before the reads had ended"
        yield from figures("one board, while the stream catches up", reads)


def read(url: str, headers: Mapping[str, str] = NO_HEADERS, *, core: int | None = CORE_OF_WRK) -> Reads:
    """Read one URL as often as it is answered, once who answers is warm.

    Args:
        url: what is asked for.
        headers: of each request.
        core: where wrk runs, while who answers has `CORE` for itself, by `pin`; None where nothing is pinned.
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

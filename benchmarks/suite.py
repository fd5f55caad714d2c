"""The benchmarks by name, each run in a process of its own."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor

import click
import psutil

from benchmarks import (
    counts,
    drain,
    failover,
    freshness,
    memory,
    overload,
    peer,
    periods,
    ranks,
    reads,
    restart,
    streams,
    windows,
)
from benchmarks.figures import Figure

BENCHMARKS: dict[str, Callable[[], Iterable[Figure]]] = {
    "drain": drain.run,
    "freshness": freshness.run,
    "reads": reads.run,
    "restart": restart.run,
    "overload": overload.run,
    "failover": failover.run,
    "memory": memory.run,
    "streams": streams.run,
    "counts": counts.run,
    "windows": windows.run,
    "ranks": ranks.run,
    "periods": periods.run,
    "peer": peer.run,
}

BY_DEFAULT = [name for name in BENCHMARKS if name != "peer"]
"""Those that are run when none is named: what a peer does needs Maven, and is no figure of this project alone."""


def run(name: str) -> list[Figure]:
    """Return the figures of one run. Its process is its own: it begins with nothing that others have left."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(_figures, name).result()


def _figures(name: str) -> list[Figure]:
    began_s, before_s = time.monotonic(), _taken_s()
    figures = []
    for figure in BENCHMARKS[name]():
        # At once: a later part may fail, and its table never comes.
        click.echo(f"{figure.what}: {figure}", err=True)
        figures.append(figure)
    taken_percent = (_taken_s() - before_s) / (time.monotonic() - began_s) / (psutil.cpu_count() or 1) * 100
    return [*figures, Figure("meanwhile the machine's host took for others", "% of the cores", [taken_percent])]


def _taken_s() -> float:
    """Return for how long the cores of a virtual machine had work and were not there, since it runs."""
    return float(getattr(psutil.cpu_times(), "steal", 0.0))

"""All benchmarks, or those that are named, one after the other, a number of times, as one table.

    .venv/bin/python -m benchmarks [--runs N] [--to FILE] [NAME ...]

Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import click

from benchmarks import drain, failover, freshness, memory, overload, reads, restart, streams
from benchmarks.figures import Figure, markdown, of_runs

BENCHMARKS: dict[str, Callable[[], Iterable[Figure]]] = {
    "drain": drain.run,
    "freshness": freshness.run,
    "reads": reads.run,
    "restart": restart.run,
    "overload": overload.run,
    "failover": failover.run,
    "memory": memory.run,
    "streams": streams.run,
}


@click.command()
@click.option("--runs", default=3, show_default=True, help="How often each is run.")
@click.option("--to", type=click.Path(path_type=Path), default=None, help="A file for the table.")
@click.argument("names", nargs=-1, type=click.Choice(list(BENCHMARKS)))
def main(runs: int, to: Path | None, names: tuple[str, ...]) -> None:
    """Run benchmarks and print the table of each as soon as it is there."""
    tables = []
    for name in names or BENCHMARKS:
        tables.append(f"{name}\n\n{markdown(of_runs(_run(name) for _ in range(runs)))}\n")
        click.echo(tables[-1])
    if to is not None:
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text("\n".join(tables))


def _run(name: str) -> list[Figure]:
    """Run one in a process of its own: some measure the memory of theirs."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(_figures, name).result()


def _figures(name: str) -> list[Figure]:
    return list(BENCHMARKS[name]())


if __name__ == "__main__":
    main()

"""All benchmarks but the peer, or those that are named, one after the other, a number of times, as one table.

    .venv/bin/python -m benchmarks [--runs N] [--to FILE] [NAME ...]

Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks.figures import markdown, of_runs
from benchmarks.suite import BENCHMARKS, BY_DEFAULT, run


@click.command()
@click.option("--runs", default=3, show_default=True, help="How often each is run.")
@click.option("--to", type=click.Path(path_type=Path), default=None, help="A file for the table.")
@click.argument("names", nargs=-1, type=click.Choice(list(BENCHMARKS)))
def main(runs: int, to: Path | None, names: tuple[str, ...]) -> None:
    """Run benchmarks and print the table of each as soon as it is there."""
    tables = []
    for name in names or BY_DEFAULT:
        tables.append(f"{name}\n\n{markdown(of_runs(run(name) for _ in range(runs)))}\n")
        click.echo(tables[-1])
        if to is not None:
            # All of them take more than an hour: what one has measured is not lost when the next one fails.
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_text("\n".join(tables))


if __name__ == "__main__":
    main()

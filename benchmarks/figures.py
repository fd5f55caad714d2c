"""What a benchmark says: figures with their spread, as a table."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One thing that was measured, a number of times.

    Attributes:
        what: what was measured.
        unit: of its values.
        values: one a run.
        digits: how many decimals are worth printing.
    """

    what: str
    unit: str
    values: Sequence[float]
    digits: int = 1

    def __str__(self) -> str:
        middle, low, high = (
            f"{each:,.{self.digits}f}" for each in (statistics.median(self.values), min(self.values), max(self.values))
        )
        return f"{middle} {self.unit} ({low} to {high}, {len(self.values)})"


def p50_and_p99(what: str, taken_ms: Sequence[float], digits: int = 1) -> Iterator[Figure]:
    """Yield the two figures of many tries of one run.

    Args:
        what: was tried.
        taken_ms: how long each took, in milliseconds.
        digits: how many decimals are worth printing.
    """
    cuts = statistics.quantiles(taken_ms, n=100)
    yield Figure(f"{what}, p50", "ms", [cuts[49]], digits)
    yield Figure(f"{what}, p99", "ms", [cuts[98]], digits)


def of_runs(runs: Iterable[Iterable[Figure]]) -> list[Figure]:
    """Return the figures of several runs of the same as one list, each with the values of all of them."""
    together = list(zip(*runs, strict=True))
    return [
        Figure(first.what, first.unit, [value for each in same for value in each.values], first.digits)
        for same in together
        for first in same[:1]
    ]


def markdown(figures: Iterable[Figure]) -> str:
    """Return a table: median, and in brackets the lowest, the highest and how many runs."""
    return "\n".join(
        [
            "| what | median (lowest to highest, runs) |",
            "| --- | --- |",
            *(f"| {each.what} | {each} |" for each in figures),
        ]
    )

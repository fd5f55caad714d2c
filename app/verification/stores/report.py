"""The result of comparing stores as text for people and as JSON for programs."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from app.verification.stores.comparison import Comparison, Difference
from runtime.records import json_bytes

SHOWN: Final = 20
"""How many differences the text shows."""


class StoresResult(NamedTuple):
    """What has been compared, and what is different.

    Attributes:
        source: the topics that were read.
        comparisons: by store.
        records: of the sources that were read.
        unusable: how many of them cannot be used.
        lost: see `ExpectedStores.lost`.
    """

    source: str
    comparisons: dict[str, Comparison]
    records: int
    unusable: int
    lost: dict[str, int]

    @property
    def found(self) -> list[Difference]:
        """The differences of all stores."""
        return [each for comparison in self.comparisons.values() for each in comparison.differences.values()]

    @property
    def differences(self) -> int:
        """How many there are."""
        return len(self.found)

    @property
    def unsettled(self) -> int:
        """How many differences there are, and rows that cannot be proved yet: another look may find them equal."""
        return self.differences + sum(each.late_rows for each in self.comparisons.values())

    def still(self, before: StoresResult) -> StoresResult:
        """Return this look without what agreed in the one before: what agreed once is right."""
        kept = {name: now.still(before.comparisons[name]) for name, now in self.comparisons.items()}
        return self._replace(comparisons=kept)

    def text(self) -> str:
        """Return the result as lines: first the differences, then what was compared, then what is to note."""
        lines = [line for difference in self.found[:SHOWN] for line in _lines(difference)]
        if self.differences > SHOWN:
            lines.append(f"… and {self.differences - SHOWN} more differences")
        outcome = "equal" if not self.differences else _counted(self.differences, "difference")
        rows = ", ".join(f"{_counted(each.rows, 'row')} of {name}" for name, each in self.comparisons.items())
        records = f"{_counted(self.records, 'record')} of {self.source} ({self.unusable} of them unusable)"
        return "\n".join([*lines, f"{rows} compared with {records}: {outcome}", *self._notes()])

    def _notes(self) -> list[str]:
        gone = _rows({name: each.unproved for name, each in self.comparisons.items()})
        late = _rows({name: each.late_rows for name, each in self.comparisons.items()})
        notes = []
        if self.lost or gone:
            where = ", ".join(f"partition {place} begins at {first}" for place, first in self.lost.items())
            of_others = f"those that are there explain every {'other ' if late else ''}row"
            said = f"{gone} cannot be proved by those that are there" if gone else of_others
            notes.append(f"note: {self.source} has lost records ({where or 'as was said'}); {said}")
        if late:
            notes.append(f"note: {late} cannot be proved: records that came too late may be what is missing")
        return notes

    def json(self) -> str:
        """Return the result as one JSON object, with every difference."""
        fields = {
            "equal": not self.differences,
            "stores": {
                name: {"rows": each.rows, "unproved": each.unproved + each.late_rows}
                for name, each in self.comparisons.items()
            },
            "records": self.records,
            "unusable": self.unusable,
            "lost_before": self.lost,
            "differences": [difference._asdict() for difference in self.found],
        }
        return json_bytes(fields).decode()


def _lines(difference: Difference) -> list[str]:
    if difference.key is None:
        return [f"{difference.url}: {difference.store}: {difference.what}", ""]
    return [
        f"{difference.url}: {difference.store} {_shown(difference.key)} {difference.what}",
        f"    expected  {_shown(difference.expected)}",
        f"    served    {_shown(difference.served)}",
        "",
    ]


def _shown(row: Any) -> str:
    return "-" if row is None else json_bytes(row).decode()


def _counted(number: int, one: str) -> str:
    return f"{number} {one}" if number == 1 else f"{number} {one}s"


def _rows(counts: dict[str, int]) -> str:
    """Return how many rows of each store these are, in words; empty without any."""
    return " and ".join(f"{_counted(count, 'row')} of {name}" for name, count in counts.items() if count)

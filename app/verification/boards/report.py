"""The result of `leaderboard verify` as text for people and as JSON for programs."""

from __future__ import annotations

import json
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from app.verification.boards.comparison import Comparison, Difference, Place

SHOWN: Final = 20
"""How many differences the text shows."""

_WIDTH: Final = 44


class Result(NamedTuple):
    """What has been compared, and what is different.

    Attributes:
        comparison: of the boards.
        events: records of `score-events` that were read.
        unusable: how many of them are no score event.
        lost: the first offset that is there of each partition whose first records are gone.
    """

    comparison: Comparison
    events: int
    unusable: int
    lost: dict[int, int]

    @property
    def differences(self) -> int:
        """How many there are."""
        return len(self.comparison.differences)

    @property
    def unsettled(self) -> int:
        """The same: which events are gone, another look does not change."""
        return self.differences

    def still(self, before: Result) -> Result:
        """Return this look without the differences that the one before did not have: what agreed once is right."""
        return self._replace(comparison=self.comparison.still(before.comparison))

    def text(self) -> str:
        """Return the result as lines: first the differences, then what was compared, then what is to note."""
        differences = list(self.comparison.differences.values())
        lines = [line for difference in differences[:SHOWN] for line in _table(difference)]
        if len(differences) > SHOWN:
            lines.append(f"… and {len(differences) - SHOWN} more differences")
        outcome = "equal" if not differences else f"{len(differences)} {_plural(len(differences), 'difference')}"
        boards, entries, ranks = self.comparison.boards, self.comparison.entries, self.comparison.ranks
        of_ranks = "" if ranks is None else f", {ranks} {_plural(ranks, 'rank')}"
        lines.append(
            f"{boards} {_plural(boards, 'board')}, {entries} {_plural(entries, 'entry', 'entries')}{of_ranks} compared"
            f" with {self.events} {_plural(self.events, 'score event')} ({self.unusable} of them unusable): {outcome}"
        )
        return "\n".join([*lines, *self._notes()])

    def _notes(self) -> list[str]:
        if not self.lost and not self.comparison.gone:
            return []
        where = ", ".join(f"partition {partition} begins at {first}" for partition, first in sorted(self.lost.items()))
        gone = self.comparison.gone
        served = f"{gone} served {_plural(gone, 'entry is', 'entries are')}"
        return [f"note: score-events has lost records ({where or 'as was said'}); {served} not in the topic any more"]

    def json(self) -> str:
        """Return the result as one JSON object, with every difference."""
        fields = {
            "equal": not self.differences,
            "boards": self.comparison.boards,
            "entries": self.comparison.entries,
            **({} if self.comparison.ranks is None else {"ranks": self.comparison.ranks}),
            **({} if self.comparison.periods is None else {"periods": self.comparison.periods}),
            "score_events": self.events,
            "unusable": self.unusable,
            "lost_before": {str(partition): first for partition, first in sorted(self.lost.items())},
            "entries_not_in_the_topic": self.comparison.gone,
            "differences": [_fields(difference) for difference in self.comparison.differences.values()],
        }
        return json.dumps(fields, ensure_ascii=False)


def _table(difference: Difference) -> list[str]:
    if difference.product_id is None:
        return [f"{difference.url}: {difference.what}", ""]
    rows = zip_longest(difference.expected, difference.served)
    return [
        f"{difference.url}: board {difference.product_id} {difference.what}",
        f"    place  {'expected':{_WIDTH}}  served",
        *(_row(number, *places) for number, places in enumerate(rows, 1)),
        "",
    ]


def _row(number: int, expected: Place | None, served: Place | None) -> str:
    mark = " " if expected == served else "≠"
    return f"  {mark} {number:>5}  {_shown(expected):{_WIDTH}}  {_shown(served)}"


def _shown(place: Place | None) -> str:
    # A name may hold anything, a new line for example.
    if place is None:
        return "-"
    player, game = (json.dumps(name, ensure_ascii=False) for name in (place.player_name, place.game_name))
    return f"{place.score} {place.player_id} {player} {game}"


def _fields(difference: Difference) -> dict[str, Any]:
    return difference._asdict() | {
        "expected": [place._asdict() for place in difference.expected],
        "served": [place._asdict() for place in difference.served],
    }


def _plural(number: int, one: str, many: str = "") -> str:
    return one if number == 1 else many or f"{one}s"

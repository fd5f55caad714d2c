"""Scores of several days, some of which are hidden for a while, and the boards of all periods that have to come of it.

The reference shares no code with the product: it leaves out what is hidden, and sorts what is left of each period.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from runtime.declaration import Topology
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.ids import topic_ids
from tests.drivers.faults_events import Event, Events, Mix
from tests.drivers.faults_ledger import Ledger, Place, Taken
from tests.drivers.instance import Instance
from tests.drivers.periods import period
from tests.drivers.reference import Reference
from topology.leaderboard.board import leaderboard
from topology.leaderboard.periods import Periods

_DAY_MS: Final = 86_400_000
_BACK_MS: Final = 6 * _DAY_MS
"""So late scores may be: retention goes by their times."""
_SUSPECTS: Final = range(1, 11)
"""The players who are hidden for a while, and of whom scores are. All others never are."""
_HIDDEN_AT_A_TIME: Final = 3
_KEPT: Final = {"day": 3, "week": 1, "month": 1}
_LIMIT: Final = 10


class ModeratedBoards(Ledger):
    """Scores with ties, strangers and renames, late by days; what is hidden; and the boards of each period.

    Args:
        seed: of the stream.
    """

    topology: Topology = leaderboard(periods=Periods())
    settings: Mapping[str, object] = {
        "PERIODS": "all,day,week,month",
        "PERIODS_KEPT": ",".join(f"{name}={kept}" for name, kept in _KEPT.items()),
    }
    """Of every instance."""
    identity = ("period", "product")
    """What tells its rows apart."""
    per_s = 200
    """How many events flow in a second."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        # Nobody is deleted: of what a board has to spare, what is hidden takes enough.
        self._events = Events(seed, Mix(stranger=0.002, delete=0))
        self._random = random.Random(seed + 1)
        self._topic_id = ""
        self._asked_for: list[str] = []
        self.hidden: set[str] = set()

    # What flows

    def beginning(self, kafka: KafkaConnection) -> Iterator[Event]:
        """Return what is there from the beginning; the topics are there already."""
        self._topic_id = asyncio.run(topic_ids(kafka, ["score-events"]))["score-events"].topic_id
        return self._events.beginning()

    def next(self) -> Event:
        """Return the next event."""
        if self._random.random() < 0.01:
            return self._moderate()
        event = self._events.next()
        if event.topic != "score-events" or self._random.random() < 0.5:
            return event
        return event._replace(back_ms=self._random.randrange(_BACK_MS))

    def _moderate(self) -> Event:
        if len(self._asked_for) >= _HIDDEN_AT_A_TIME:
            return _moderation(self._asked_for.pop(0), hidden=False)
        player = self._random.choice(_SUSPECTS)
        names = [f"player/{player}", f"player/{player}/product/{self._random.randint(1, 11)}"]
        if taken := [each.place for each in self.scores[-500:] if each.score.player in _SUSPECTS]:
            names.append(self._name(self._random.choice(taken)))
        name = self._random.choice(names)
        if name in self._asked_for:
            self._asked_for.remove(name)
        self._asked_for.append(name)
        return _moderation(name, hidden=True)

    def closing(self) -> list[Event]:
        """Return what lifts all that is hidden: what retention has taken of it meanwhile has to be back as well."""
        return [_moderation(name, hidden=False) for name in self._asked_for]

    def note(self, event: Event, place: Place) -> None:
        """Take note of a record."""
        if event.topic != "moderation":
            super().note(event, place)
            return
        self.count += 1
        name, hidden = event.means
        (self.hidden.add if hidden else self.hidden.discard)(name)

    # What has to come of it

    def rows(self) -> list[dict[str, Any]]:
        """Return what every instance has to serve: the boards of each period that is kept, one after the other."""
        shown = [taken for taken in sorted(self.scores) if not self._is_hidden(taken)]
        rows = _rows("all", self._boards(shown))
        for name, begin in _kept_periods():
            of_period = [taken for taken in shown if period(name, taken.place.timestamp_ms) == begin]
            rows += _rows(f"{name}/{begin}", self._boards(of_period))
        return rows

    def went_back(self, before: dict[str, Any], after: dict[str, Any] | None) -> bool:
        """Return whether the best score of those who are never hidden is lower than before."""
        best_before, best_after = _best_of_the_safe(before), _best_of_the_safe(after or {"board": []})
        return best_before is not None and best_after is not None and best_after < best_before

    def _boards(self, scores: list[Taken]) -> dict[str, list[dict[str, Any]]]:
        plain = [(of.score, of.player, of.product) for of in (taken.score for taken in scores)]
        return Reference(self.players, self.products, plain).boards(_LIMIT)

    def _is_hidden(self, taken: Taken) -> bool:
        player = f"player/{taken.score.player}"
        names = {player, f"{player}/product/{taken.score.product}", self._name(taken.place)}
        return not names.isdisjoint(self.hidden)

    def _name(self, place: Place) -> str:
        return f"score/{self._topic_id}/{place.partition}/{place.offset}"

    # What is served

    def are_at(self, instance: Instance) -> bool:
        """Return whether an instance serves exactly these."""
        return bool(self.served_by(instance) == self.rows())

    def served_by(self, instance: Instance) -> Any:
        """Return the boards that an instance serves, None when it does not answer."""
        rows = []
        for name, begin in [("all", ""), *_kept_periods()]:
            at = f"&period={name}&at={begin}" if begin else ""
            answer = instance.get(f"/leaderboard?limit={_LIMIT}{at}")
            if answer.status_code != 200:
                return None
            rows += _rows(f"{name}/{begin}" if begin else name, answer.json())
        return rows


def _rows(name: str, boards: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [{"period": name, "product": int(product), "board": board} for product, board in boards.items()]


def _kept_periods() -> list[tuple[str, str]]:
    """Return the periods that are kept now and that scores may lie in, by name and first day."""
    now_ms = time.time_ns() // 1_000_000
    of_days = [("day", period("day", now_ms - days * _DAY_MS)) for days in range(_KEPT["day"] + 1)]
    of_longer = {
        (name, period(name, now_ms - days * _DAY_MS))
        for name in ("week", "month")
        for days in range(_BACK_MS // _DAY_MS + 1)
    }
    return [*of_days, *sorted(of_longer)]


def _best_of_the_safe(row: Mapping[str, Any]) -> float | None:
    return max((each["score"] for each in row["board"] if each["playerId"] not in _SUSPECTS), default=None)


def _moderation(name: str, *, hidden: bool) -> Event:
    value = json.dumps({"hidden": True, "reason": "a test"}).encode() if hidden else None
    return Event("moderation", name.encode(), value, None, (name, hidden))

"""Payments to accounts: a topology that counts and adds them up, a seeded stream of them, and what has to come out.

The reference shares no code with the product: it adds up Python's own decimals of what the broker acknowledged.
"""

from __future__ import annotations

import json
import random
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from runtime import Average, Count, Hopping, Json, Key, Store, Stream, Sum, Text, Topology
from runtime import Decimal as DecimalType
from runtime.kafka.connection import KafkaConnection
from tests.drivers.faults_events import Event
from tests.drivers.faults_ledger import Place
from tests.drivers.instance import Instance

TOPIC = "payments"
ACCOUNTS = ["alice", "bob/eve", "carol@home", "dave 🎲", *(f"account {number}" for number in range(40))]

PAYMENTS = Topology(
    "payments",
    Stream(TOPIC, Json({"amount": DecimalType(2)}), key=Key("account", Text)),
    stores=[
        Store(
            "accounts",
            "accounts",
            Key("account", Text),
            {"payments": Count(), "total": Sum("amount"), "average": Average("amount")},
        ),
    ],
)


WINDOW = Hopping("10 minutes", "4 minutes", keep="9 days")
IN_WINDOWS = replace(PAYMENTS, stores=[replace(PAYMENTS.stores[0], window=WINDOW)])
SHORT = Hopping("20 seconds", "5 seconds", keep="1 minute", grace="10 seconds")
IN_SHORT_WINDOWS = replace(PAYMENTS, stores=[replace(PAYMENTS.stores[0], window=SHORT)])
_DAY_MS = 86_400_000


class Payments:
    """A stream of payments, and those of them that the broker has.

    Args:
        seed: of the stream.

    Attributes:
        count: how many the broker has.
    """

    topology: Topology = PAYMENTS
    declared = f"{__name__}:PAYMENTS"
    """Where the topology is found."""
    per_s = 200
    """How many flow in a second."""

    def __init__(self, seed: int) -> None:
        self.count = 0
        self._random = random.Random(seed)
        self._amounts: defaultdict[tuple[str, ...], list[Decimal]] = defaultdict(list)

    def next(self) -> Event:
        """Return the next one. It goes to any partition, so that those of an account are in all of them."""
        account = self._random.choice(ACCOUNTS)
        amount = Decimal(self._random.randint(-10_000, 10_000)).scaleb(-2)
        value = f'{{"amount": {amount}}}'.encode()
        return Event(TOPIC, account.encode(), value, self._random.randrange(4), (account, amount))

    @property
    def settings(self) -> Mapping[str, object]:
        """The settings of every instance, without their prefix."""
        return {"TOPOLOGY": self.declared}

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that tell its rows apart."""
        store = self.topology.stores[0]
        return (store.key.name, *(() if store.window is None else ("windowStart",)))

    def beginning(self, kafka: KafkaConnection) -> Iterable[Event]:  # noqa: ARG002  # of topics' ids it matters
        """Return what is sent before anything else."""
        return ()

    def note(self, event: Event, place: Place) -> None:
        """Take note of one that the broker has."""
        account, amount = event.means
        for key in self._keys(account, place.timestamp_ms):
            self._amounts[key].append(amount)
        self.count += 1

    def _keys(self, account: str, at_ms: int) -> list[tuple[str, ...]]:  # noqa: ARG002  # of windows it matters
        """Return what tells the rows apart that a payment is in, in the order of the rows."""
        return [(account,)]

    def rows(self) -> list[dict[str, Any]]:
        """Return what every instance has to serve."""
        return [
            {**dict(zip(("account", "windowStart", "windowEnd"), key, strict=False)), **added_up(amounts)}
            for key, amounts in sorted(self._amounts.items(), key=lambda each: [part.encode() for part in each[0]])
        ]

    def closing(self) -> list[Event]:
        """Return what has to be sent when nothing else comes, so that all rows are there."""
        return []

    def settling(self) -> list[Event]:
        """Return what is sent while it is waited for that all instances have what the broker has."""
        return []

    def went_back(self, before: dict[str, Any], after: dict[str, Any] | None) -> bool:
        """Return whether a row is older than what was served before of the same key, or is gone."""
        return after is None or bool(after["payments"] < before["payments"])

    def are_at(self, instance: Instance) -> bool:
        """Return whether an instance serves exactly these."""
        return bool(self.served_by(instance) == self.rows())

    def served_by(self, instance: Instance) -> Any:
        """Return the rows that an instance serves, None when it does not answer."""
        answer = instance.get(f"/stores/{self.topology.stores[0].name}/keys")
        return json.loads(answer.text, parse_float=Decimal) if answer.status_code == 200 else None


class PaymentsInWindows(Payments):
    """Payments in windows: those of a partition are as many days back as its number, and out of order."""

    topology = IN_WINDOWS
    declared = f"{__name__}:IN_WINDOWS"

    def next(self) -> Event:
        """Return the next one."""
        event = super().next()
        assert event.partition is not None
        return event._replace(back_ms=event.partition * _DAY_MS + self._random.randrange(1_200_000))

    def _keys(self, account: str, at_ms: int) -> list[tuple[str, ...]]:
        return _windows(account, at_ms, size_ms=600_000, every_ms=240_000)


class PaymentsInShortWindows(Payments):
    """Payments in windows that are let go while they flow. Some come long after all of their windows were."""

    topology = IN_SHORT_WINDOWS
    declared = f"{__name__}:IN_SHORT_WINDOWS"

    _kept_ms = 60_000
    _late_share = 0.02
    _newest_ms = 0

    def next(self) -> Event:
        """Return the next one."""
        event = super().next()
        if self._random.random() < self._late_share:
            # So late that the window is let go whatever fails meanwhile.
            return event._replace(back_ms=self._kept_ms + self._random.randrange(120_000, 900_000))
        return event._replace(back_ms=self._random.randrange(10_000))

    def note(self, event: Event, place: Place) -> None:
        super().note(event, place)
        self._newest_ms = max(self._newest_ms, place.timestamp_ms)

    def rows(self) -> list[dict[str, Any]]:
        """Return those that are kept, by the newest payment."""
        kept = time_of(self._newest_ms - self._kept_ms)
        return [row for row in super().rows() if row["windowEnd"] > kept]

    def settling(self) -> list[Event]:
        """Return a payment as new as the newest: how far time is, Spark finds with a batch that brings something."""
        return [super().next()._replace(back_ms=_now_ms() - self._newest_ms)]

    def went_back(self, before: dict[str, Any], after: dict[str, Any] | None) -> bool:
        if after is None:
            return bool(before["windowEnd"] > time_of(_now_ms() - self._kept_ms))
        return super().went_back(before, after)

    def _keys(self, account: str, at_ms: int) -> list[tuple[str, ...]]:
        return _windows(account, at_ms, size_ms=20_000, every_ms=5_000)


def _windows(account: str, at_ms: int, *, size_ms: int, every_ms: int) -> list[tuple[str, ...]]:
    last = at_ms // every_ms * every_ms
    starts = range(last, last - size_ms, -every_ms)
    return [(account, time_of(start), time_of(start + size_ms)) for start in starts if at_ms < start + size_ms]


def added_up(amounts: list[Decimal]) -> dict[str, Any]:
    """Return the values of a row of these amounts."""
    total = sum(amounts, Decimal())
    average = (total / len(amounts)).quantize(Decimal("1.000000"), ROUND_HALF_UP)
    return {"payments": len(amounts), "total": total, "average": average}


def _now_ms() -> int:
    return int(time.time() * 1000)


def time_of(ms: int) -> str:
    """Return an instant as rows have it."""
    seconds, milliseconds = divmod(ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03}Z"

"""Payments to accounts: a topology that counts and adds them up, a seeded stream of them, and what has to come out.

The reference shares no code with the product: it adds up Python's own decimals of what the broker acknowledged.
"""

from __future__ import annotations

import json
import random
import threading
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Self

import httpx

from runtime import Average, Count, Hopping, Json, Key, Store, Stream, Sum, Text, Topology
from runtime import Decimal as DecimalType
from tests.drivers.faults_events import Event
from tests.drivers.faults_ledger import Place
from tests.drivers.instance import Instance
from tests.drivers.replicas import Replicas

TOPIC = "payments"
ROWS = "/stores/accounts/keys"
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
_DAY_MS = 86_400_000


class Payments:
    """A stream of payments, and those of them that the broker has.

    Args:
        seed: of the stream.

    Attributes:
        count: how many the broker has.
    """

    topology = PAYMENTS

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
            {
                **dict(zip(("account", "windowStart", "windowEnd"), key, strict=False)),
                "payments": len(amounts),
                "total": total,
                "average": (total / len(amounts)).quantize(Decimal("1.000000"), ROUND_HALF_UP),
            }
            for key, amounts in sorted(self._amounts.items(), key=lambda each: [part.encode() for part in each[0]])
            for total in [sum(amounts, Decimal())]
        ]

    def are_at(self, instance: Instance) -> bool:
        """Return whether an instance serves exactly these."""
        answer = instance.get(ROWS)
        return answer.status_code == 200 and json.loads(answer.text, parse_float=Decimal) == self.rows()


class PaymentsInWindows(Payments):
    """Payments in windows: those of a partition are as many days back as its number, and out of order."""

    topology = IN_WINDOWS

    def next(self) -> Event:
        """Return the next one."""
        event = super().next()
        assert event.partition is not None
        return event._replace(back_ms=event.partition * _DAY_MS + self._random.randrange(1_200_000))

    def _keys(self, account: str, at_ms: int) -> list[tuple[str, ...]]:
        last = at_ms // 240_000 * 240_000
        starts = [start for start in (last - 480_000, last - 240_000, last) if at_ms < start + 600_000]
        return [(account, _time(start), _time(start + 600_000)) for start in starts]


def _time(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%dT%H:%M:%S}.000Z"


class Watching:
    """Reads from every member the whole time, and notes each count that is lower than one that it has said before.

    A context manager. Of a process that was started anew nothing was read before.

    Args:
        replicas: the members, as they come and go.

    Attributes:
        read: how often rows were read.
        fallen: what was seen to go back: the member, the account, and both counts.
    """

    def __init__(self, replicas: Replicas) -> None:
        self.read = 0
        self.fallen: list[tuple[str, str, int, int]] = []
        self._replicas = replicas
        self._said: defaultdict[int, dict[str, int]] = defaultdict(dict)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watching", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(0.05):
            for member in list(self._replicas.members):
                self._read(member)

    def _read(self, member: Instance) -> None:
        process = member.process.pid
        try:
            answer = member.get(ROWS)
        except httpx.HTTPError:
            return  # It was killed, or has yet to listen.
        if answer.status_code != 200 or member.process.pid != process:
            return
        self.read += 1
        said = self._said[process]
        for row in answer.json():
            account, count = f"{row['account']} {row.get('windowStart', '')}", row["payments"]
            if count < said.get(account, 0):
                self.fallen.append((member.address, account, said[account], count))
            said[account] = count

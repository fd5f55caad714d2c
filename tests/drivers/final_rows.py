"""Streams whose rows do not change any more: sessions of payments, and orders that are joined with what was paid.

The references share no code with the product.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import product
from operator import itemgetter
from typing import Any, NamedTuple

from runtime import Decimal as DecimalType
from runtime import Joined, Json, Key, Latest, Max, Min, Session, Store, Stream, Text, Topology
from tests.drivers.faults_events import Event
from tests.drivers.faults_ledger import Place
from tests.drivers.instance import Instance
from tests.drivers.payments import PAYMENTS, Payments, added_up, time_of

_GAP_MS, _GRACE_MS = 1_000, 15_000
"""The grace is longer than partitions are ever apart here, also when the broker has been away."""
_APART_MS = 1_500
IN_SESSIONS = replace(
    PAYMENTS,
    stores=[replace(PAYMENTS.stores[0], window=Session("1 second", keep="1 day", grace="15 seconds"))],
    pace="1 second",
)


class PaymentsInSessions(Payments):
    """Payments in sessions, out of order; some come so late that it depends on what happens whether they count.

    While a backlog is read nothing is too late, and at any other time what is later than the grace is: such payments
    are to an account of their own, whose rows say no more than what is there, and stay as they are.
    """

    topology = IN_SESSIONS
    declared = f"{__name__}:IN_SESSIONS"

    late = "late"
    _late_share = 0.01
    _late_ms = 120_000
    _closing_ms = 300_000

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._paid: defaultdict[str, list[tuple[int, Decimal]]] = defaultdict(list)

    def next(self) -> Event:
        """Return the next one."""
        event = super().next()
        assert event.partition is not None
        back_ms = event.partition * _APART_MS + self._random.randrange(_GAP_MS)
        if self._random.random() >= self._late_share:
            return event._replace(back_ms=back_ms)
        _, amount = event.means
        return event._replace(key=self.late.encode(), means=(self.late, amount), back_ms=self._late_ms + back_ms)

    def note(self, event: Event, place: Place) -> None:
        account, amount = event.means
        self._paid[account].append((place.timestamp_ms, amount))
        self.count += 1

    def rows(self) -> list[dict[str, Any]]:
        """Return the sessions that have ended by the newest payment, but for late ones."""
        paid = {account: sorted(of) for account, of in list(self._paid.items()) if account != self.late}
        newest_ms = max(of[-1][0] for of in paid.values())
        return [
            {"account": account, "windowStart": time_of(session[0][0]), "windowEnd": time_of(end_ms),
             **added_up([amount for _, amount in session])}
            for account in sorted(paid, key=str.encode)
            for session in _sessions(paid[account])
            if (end_ms := session[-1][0] + _GAP_MS) + _GRACE_MS < newest_ms
        ]  # fmt: skip

    def closing(self) -> list[Event]:
        """Return one payment that is so much later than all others that their sessions have ended."""
        return [super().next()._replace(key=b"closing", means=("closing", Decimal()), value=b'{"amount": 0}',
                                        back_ms=-self._closing_ms)]  # fmt: skip

    def went_back(self, before: dict[str, Any], after: dict[str, Any] | None) -> bool:
        return before != after

    def are_at(self, instance: Instance) -> bool:
        """Return whether an instance serves exactly these, and of late payments none that there is not."""
        served = self.served_by(instance)
        if served is None or [row for row in served if row["account"] != self.late] != self.rows():
            return False
        late = sorted(self._paid[self.late])
        for row in served:
            if row["account"] == self.late:
                lie_in = [amount for ms, amount in late if row["windowStart"] <= time_of(ms) <= row["windowEnd"]]
                assert 1 <= row["payments"] <= len(lie_in), row
        return True


def _sessions(paid: list[tuple[int, Decimal]]) -> Iterator[list[tuple[int, Decimal]]]:
    """Yield what was paid in each session, in the order of time."""
    session = paid[:1]
    for each in paid[1:]:
        if each[0] - session[-1][0] > _GAP_MS:
            yield session
            session = []
        session.append(each)
    yield session


_WITHIN_MS = 20_000
_ORDERS = Stream("orders", Json({"order": Text, "item": Text}), 4)
_PAID = Stream("paid", Json({"order": Text, "method": Text, "amount": DecimalType(2)}), 2)
PAID_ORDERS = Topology(
    "paid-orders-of-tests",
    Joined(_ORDERS, _PAID, on="order", within="20 seconds", grace="15 seconds"),
    stores=[
        Store(
            "orders-with-payments",
            "orders-with-payments",
            Key("order", Text),
            {"item": Latest("item"), "method": Latest("method"), "first": Min("method"), "most": Max("amount")},
        ),
    ],
    pace="1 second",
)


class _Order(NamedTuple):
    place: Place
    item: str


class _Payment(NamedTuple):
    place: Place
    method: str
    amount: Decimal


class PaidOrders(Payments):
    """Orders and payments, several of each, either first, some too far apart to belong together."""

    topology = PAID_ORDERS
    declared = f"{__name__}:PAID_ORDERS"
    per_s = 100

    _each = 10
    """So many records later there is another order."""
    _open = 60
    _long_ago = 400

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._sent = 0
        self._orders: defaultdict[str, list[_Order]] = defaultdict(list)
        self._payments: defaultdict[str, list[_Payment]] = defaultdict(list)

    def next(self) -> Event:
        """Return the next record of either stream."""
        self._sent += 1
        ago = self._random.randrange(self._long_ago if self._random.random() < 0.05 else self._open)
        order = f"order {max(0, self._sent // self._each - ago):06}"
        stream = self._random.choice([_ORDERS, _PAID])
        partition = self._random.randrange(stream.partitions)
        text = f"{self._sent}: {self._random.choice(['tea 🍵', 'a/b', 'ü@1'])}"
        if stream is _ORDERS:
            value = f'{{"order": "{order}", "item": "{text}"}}'
            means: tuple[object, ...] = (order, text)
        else:
            amount = Decimal(self._random.randint(-10_000, 10_000)).scaleb(-2)
            value = f'{{"order": "{order}", "method": "{text}", "amount": {amount}}}'
            means = (order, text, amount)
        back_ms = partition * _APART_MS + self._random.randrange(_GAP_MS)
        return Event(stream.topic, b"any", value.encode(), partition, means, back_ms)

    def note(self, event: Event, place: Place) -> None:
        order, *said = event.means
        if event.topic == _ORDERS.topic:
            self._orders[order].append(_Order(place, *said))
        else:
            self._payments[order].append(_Payment(place, *said))
        self.count += 1

    def rows(self) -> list[dict[str, Any]]:
        """Return each order that has a payment: what the latest two records say, and the least and the most of all."""
        return [
            {"order": order, "item": latest.item, "method": paid.method,
             "first": min(by.method for _, _, by in both), "most": max(by.amount for _, _, by in both)}
            for order in sorted(self._orders.keys() & self._payments.keys())
            if (both := list(self._pairs(order)))
            for _, latest, paid in [max(both, key=itemgetter(0))]
        ]  # fmt: skip

    def _pairs(self, order: str) -> Iterator[tuple[list[Place], _Order, _Payment]]:
        """Yield what belongs together, and where the two records lie, the later one first."""
        for of, by in product(self._orders[order], self._payments[order]):
            if abs(of.place.timestamp_ms - by.place.timestamp_ms) <= _WITHIN_MS:
                yield sorted([of.place, by.place], reverse=True), of, by

    def went_back(self, before: dict[str, Any], after: dict[str, Any] | None) -> bool:
        return after is None or bool(after["first"] > before["first"] or after["most"] < before["most"])

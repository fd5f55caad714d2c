"""Topologies whose rows come when they do not change any more, for streams in processes of their own.

And what their rows have to be, said in plain Python.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from runtime import Count, Joined, Json, Key, Latest, Min, Session, Store, Stream, Text, Topology
from runtime.declaration import PlainText
from runtime.windows import WindowKey

GAP_MS = 30_000
SESSION = Session("30 seconds", keep="1 day", grace="10 seconds")


class Event(NamedTuple):
    """Something that a key did."""

    key: str
    at_ms: int


def sessions(name: str, window: Session = SESSION) -> Topology:
    """Return the sessions of the texts of a topic."""
    store = Store(f"{name}-store", f"{name}-sessions", Key("text", Text), {"count": Count()}, window=window)
    source = Stream(f"{name}-lines", PlainText(), 2)
    return Topology(name, source, [replace(store, partitions=2)], pace="1 second")


def sessions_of_version_2(name: str) -> Topology:
    """Return the same as another version of the store."""
    topology = sessions(name)
    return replace(topology, stores=[replace(topology.stores[0], version=2)])


def sessions_of(events: Iterable[Event], *, gap_ms: int = GAP_MS) -> dict[WindowKey, tuple[int, int]]:
    """Return the sessions of events: when each ends, and how many events are in it, by key and start."""
    by_key: dict[str, list[int]] = defaultdict(list)
    for key, at_ms in events:
        by_key[key].append(at_ms)
    found = {}
    for key, times in by_key.items():
        start = last = min(times)
        count = 0
        for at_ms in sorted(times):
            if at_ms - last > gap_ms:
                start, count = at_ms, 0
            last = at_ms
            count += 1
            found[WindowKey(key, start)] = (last + gap_ms, count)
    return found


def ended(events: Iterable[Event], window: Session = SESSION) -> dict[WindowKey, tuple[int, int]]:
    """Return the sessions that have ended when all of the events are there."""
    every = list(events)
    newest_ms = max(each.at_ms for each in every)
    found = sessions_of(every, gap_ms=window.gap_ms)
    return {key: (end, count) for key, (end, count) in found.items() if end + window.grace_ms < newest_ms}


class Told(NamedTuple):
    """A record of one of two streams that are joined."""

    on: str
    at_ms: int
    what: str


WITHIN_MS = 300_000


def paid(name: str) -> Topology:
    """Return orders with their payments."""
    orders = Stream(f"{name}-orders", Json({"order": Text, "item": Text}), 2)
    payments = Stream(f"{name}-payments", Json({"order": Text, "method": Text}), 1)
    values = {"item": Latest("item"), "method": Latest("method"), "first": Min("method")}
    store = Store(f"{name}-store", f"{name}-paid", Key("order", Text), values, partitions=2)
    source = Joined(orders, payments, on="order", within="5 minutes", grace="1 minute")
    return Topology(name, source, [store], pace="1 second")


def paid_of(orders: Iterable[Told], payments: Iterable[Told]) -> dict[str, tuple[str, str, str]]:
    """Return what is known of each paid order: item and method of its latest two records, and the least method.

    The latest by the later record, then by the other one; of equal times, all in one partition of each stream, by the
    order in which they are given.
    """
    found: dict[str, list[tuple[Any, str, str]]] = defaultdict(list)
    every = list(payments)
    for number, order in enumerate(orders):
        for other, payment in enumerate(every):
            if payment.on == order.on and abs(payment.at_ms - order.at_ms) <= WITHIN_MS:
                places = sorted([(order.at_ms, number), (payment.at_ms, other)], reverse=True)
                found[order.on].append((places, order.what, payment.what))
    return {on: (*max(both)[1:], min(method for _, _, method in both)) for on, both in found.items()}

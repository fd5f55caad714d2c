"""What each topology that comes with the project says of its sample data: rows of each store, ascending by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

BOARD_1: Final = [("Isabelle", 3, 4000.0), ("Mitch", 2, 2000.0), ("Elyse", 1, 1000.0)]
"""The board of product 1 in the leaderboard's own sample: name, id and score of each player."""


def _windows(
    key: Mapping[str, str], size_s: int, every_s: int, runs: Sequence[tuple[str, str, Mapping[str, float]]]
) -> list[dict[str, Any]]:
    """Return rows of windows: of each run those that begin at its first time, at its last, and between."""
    rows = []
    for first, last, values in runs:
        start, end = (datetime.fromisoformat(f"2026-11-25T{time}Z") for time in (first, last))
        while start <= end:
            times = {"windowStart": start, "windowEnd": start + timedelta(seconds=size_s)}
            said = {name: f"{time:%Y-%m-%dT%H:%M:%S}.000Z" for name, time in times.items()}
            rows.append({**key, **said, **values})
            start += timedelta(seconds=every_s)
    return rows


def _hours(product: str, *runs: tuple[str, str, float]) -> list[dict[str, Any]]:
    return _windows({"product": product}, 3600, 300, [(first, last, {"total": total}) for first, last, total in runs])


def _five_seconds(browser: str, *runs: tuple[str, str, int]) -> list[dict[str, Any]]:
    of_runs = [(f"09:00:{first}", f"09:00:{last}", {"actions": actions}) for first, last, actions in runs]
    return _windows({"browserHash": browser}, 5, 2, of_runs)


def _session(browser: str, first: str, end: str, actions: int) -> dict[str, Any]:
    start, ends = (f"2026-11-25T09:{time}.000Z" for time in (first, end))
    return {"browserHash": browser, "windowStart": start, "windowEnd": ends, "actions": actions}


ANSWERS: Final[Mapping[str, Mapping[str, list[dict[str, Any]]]]] = {
    "word-count": {
        "counts-store": [
            {"word": "hello", "count": 2},
            {"word": "kafka", "count": 3},
            {"word": "streams", "count": 1},
            {"word": "summit", "count": 1},
            {"word": "world", "count": 1},
        ]
    },
    "error-counts": {
        "error-counts": [
            {"error": "connection timeout", "count": 2},
            {"error": "database unavailable", "count": 1},
        ]
    },
    "event-counts": {
        "event-counts-store": [
            {"event": "login", "count": 2},
            {"event": "logout", "count": 1},
            {"event": "purchase", "count": 1},
            {"event": "view", "count": 3},
        ]
    },
    "logins": {
        "attempts": [
            {"user": "alice", "attempts": 1, "failed": 1},
            {"user": "bob", "attempts": 3, "failed": 2},
            {"user": "carol", "attempts": 1, "failed": 0},
            {"user": "dave", "attempts": 1, "failed": 1},
        ]
    },
    "patterns": {
        "pattern-store": [
            {"user": "alice", "kinds": ["login", "view", "purchase"]},
            {"user": "carol", "kinds": ["view", "login", "view", "purchase"]},
        ]
    },
    "sales": {
        "total-sales-store": [
            {"product": "Die Hard", "total": 30.0},
            {"product": "The Big Lebowski", "total": 12.51},
            {"product": "The Godfather", "total": 15.0},
        ]
    },
    "hourly-sales": {
        "hourly-sales-store": [
            *_hours("Die Hard", ("08:10", "08:55", 15.0), ("09:00", "09:05", 34.5), ("09:10", "09:55", 19.5)),
            *_hours("The Big Lebowski", ("09:25", "09:40", 12.5), ("09:45", "10:20", 12.51), ("10:25", "10:40", 0.01)),
            *_hours("The Godfather", ("08:40", "09:35", 15.0), ("10:00", "10:55", 20.0)),
        ]
    },
    "browser-windows": {
        "counterStore": [
            *_five_seconds("b1", ("00", "00", 1), ("02", "04", 3), ("06", "06", 2), ("08", "08", 1)),
            *_five_seconds("b2", ("02", "06", 1), ("16", "16", 1), ("18", "18", 2), ("20", "20", 3), ("22", "22", 1)),
        ]
    },
    "sessions": {
        "sessions-store": [
            _session("b1", "00:04", "01:20", 4),
            _session("b1", "01:21", "01:51", 1),
            _session("b2", "00:06", "00:36", 1),
            _session("b2", "02:00", "02:30", 1),
        ]
    },
    "paid-orders": {
        "paid-orders-store": [
            {"order_id": 1001, "customer_id": 1, "amount": 25.9, "method": "card", "paid": 25.9},
            {"order_id": 1002, "customer_id": 2, "amount": 100.0, "method": "transfer", "paid": 100.0},
            {"order_id": 1005, "customer_id": 2, "amount": 49.99, "method": "card", "paid": 9.99},
        ]
    },
    "orders": {
        "enriched-orders-store": [
            {"order_id": 1001, "customer_id": 1, "amount": 25.9, "customer": "Ada"},
            {"order_id": 1002, "customer_id": 2, "amount": 100.0, "customer": "Grace"},
            {"order_id": 1003, "customer_id": 1, "amount": 7.5, "customer": "Ada"},
        ]
    },
    "product-counter": {
        "Counts": [
            {"productId": 1, "views": 3},
            {"productId": 2, "views": 1},
            {"productId": 7, "views": 1},
        ]
    },
    "captcha": {
        "browserActionsCountStore": [
            {"browserHash": "b1", "actions": 5, "solved": False},
        ]
    },
}
"""By the short name of the topology, and the name of the store."""

"""What each topology that comes with the project says of its sample data: rows of each store, ascending by key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

BOARD_1: Final = [("Isabelle", 3, 4000.0), ("Mitch", 2, 2000.0), ("Elyse", 1, 1000.0)]
"""The board of product 1 in the leaderboard's own sample: name, id and score of each player."""

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

"""What each topology that comes with the project says of its sample data: rows of each store, ascending by key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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
}
"""By the short name of the topology, and the name of the store."""

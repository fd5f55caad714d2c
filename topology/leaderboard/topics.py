"""The names of the leaderboard's topics: three inputs, which belong to producers, and two of its own."""

from __future__ import annotations

SCORE_EVENTS = "score-events"
PLAYERS = "players"
PRODUCTS = "products"
HIGH_SCORES = "high-scores"
SCORE_EVENTS_INVALID = "score-events-invalid"

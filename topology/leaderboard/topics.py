"""The names of the leaderboard's topics: three inputs, which belong to producers, and those of its own."""

from __future__ import annotations

SCORE_EVENTS = "score-events"
PLAYERS = "players"
PRODUCTS = "products"
HIGH_SCORES = "high-scores"
PERSONAL_BESTS = "personal-bests"
SCORE_EVENTS_INVALID = "score-events-invalid"

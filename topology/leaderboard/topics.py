"""The names of the leaderboard's topics: three inputs, which belong to producers, and those of its own.

What is hidden is said on one of its own: it need not have been said for boards to be served.
"""

from __future__ import annotations

SCORE_EVENTS = "score-events"
PLAYERS = "players"
PRODUCTS = "products"
MODERATION = "moderation"
HIGH_SCORES = "high-scores"
PERIOD_BOARDS = "period-boards"
PERSONAL_BESTS = "personal-bests"
SCORE_EVENTS_INVALID = "score-events-invalid"

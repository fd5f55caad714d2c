"""The topics of the leaderboard.

The three inputs belong to producers, the two others to the service; each side creates what is missing of its own.
"""

from __future__ import annotations

from runtime.kafka.topics import DEAD_LETTERS as OF_DEAD_LETTERS
from runtime.kafka.topics import RESULTS, TABLE, TopicSpec

SCORE_EVENTS = "score-events"
PLAYERS = "players"
PRODUCTS = "products"
HIGH_SCORES = "high-scores"
SCORE_EVENTS_INVALID = "score-events-invalid"

INPUTS = (TopicSpec(SCORE_EVENTS, 4), TopicSpec(PLAYERS, 4, TABLE), TopicSpec(PRODUCTS, 4, TABLE))
DEAD_LETTERS = TopicSpec(SCORE_EVENTS_INVALID, 1, OF_DEAD_LETTERS)
OUTPUTS = (TopicSpec(HIGH_SCORES, 4, RESULTS), DEAD_LETTERS)

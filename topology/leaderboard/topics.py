"""The topics of the leaderboard.

The three inputs belong to producers, the two others to the service; each side creates what is missing of its own.
"""

from __future__ import annotations

from types import MappingProxyType

from runtime.kafka.topics import MIB, RESULTS, TABLE, TopicSpec

SCORE_EVENTS = "score-events"
PLAYERS = "players"
PRODUCTS = "products"
HIGH_SCORES = "high-scores"
SCORE_EVENTS_INVALID = "score-events-invalid"

INPUTS = (TopicSpec(SCORE_EVENTS, 4), TopicSpec(PLAYERS, 4, TABLE), TopicSpec(PRODUCTS, 4, TABLE))
# A copy is larger than what it copies: it says where from and why.
DEAD_LETTERS = TopicSpec(SCORE_EVENTS_INVALID, 1, MappingProxyType({"max.message.bytes": str(8 * MIB)}))
OUTPUTS = (TopicSpec(HIGH_SCORES, 4, RESULTS), DEAD_LETTERS)

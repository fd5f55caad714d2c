"""What the leaderboard is, in more words than its declaration has: its steps, and what flows from where to where.

A test holds the steps to what is called when a query is made.
"""

from __future__ import annotations

from typing import Final

from runtime.description import Description, Node
from topology.leaderboard.topics import HIGH_SCORES, PERSONAL_BESTS, PLAYERS, PRODUCTS, SCORE_EVENTS

NODES: Final = (
    Node(SCORE_EVENTS, "stream", "stream, no key", 'stream, no key          {"score", "product_id", "player_id"}'),
    Node(PLAYERS, "table", "global table", 'global table, by id     {"id", "name"}', lane=-1),
    Node(PRODUCTS, "table", "global table", 'global table, by id     {"id", "name"}', lane=1),
    Node("parse", "step", "drop the unusable", "drop and count what is no score event", function="events.judge"),
    Node("above floor", "step", "drop the hopeless", "drop what cannot reach its board", function="query.above_floor"),
    Node("left join players", "step", "on player_id", "on player_id", function="query.join_tables"),
    Node("left join products", "step", "on product_id", "on product_id", function="query.join_tables"),
    Node(
        "aggregate",
        "step",
        "best per product",
        "by product_id, the best entries: score, then the earlier record; known and pending apart",
        function="places.Places.aggregates",
    ),
    Node("merge seed", "step", "from before", "the boards that the generation began with", function="boards.seed"),
    Node(HIGH_SCORES, "sink", "compacted", "compacted, by product id", function="places.Places.published"),
    Node("leader-boards", "store", "by partition", "one board a product, a partition's active and standby instances"),
    Node("store players", "store", "at every instance", "the name of each player, at every instance", lane=-1),
    Node("store products", "store", "at every instance", "the name of each product, at every instance", lane=1),
    Node("queries", "reader", "get, range, all", "boards with the names of now, over HTTP at any instance"),
)
"""In the order in which a record meets them."""

FLOWS: Final = (
    (SCORE_EVENTS, "parse"),
    ("parse", "above floor"),
    ("above floor", "left join players"),
    (PLAYERS, "left join players"),
    ("left join players", "left join products"),
    (PRODUCTS, "left join products"),
    ("left join products", "aggregate"),
    ("aggregate", "merge seed"),
    ("merge seed", HIGH_SCORES),
    (HIGH_SCORES, "leader-boards"),
    (PLAYERS, "store players"),
    (PRODUCTS, "store products"),
    ("leader-boards", "queries"),
    ("store players", "queries"),
    ("store products", "queries"),
)
"""From which node to which."""

SUMMARY: Final = (
    "Score events are parsed, those that cannot reach a board are dropped, the rest is joined with players and"
    " products, and the best of each product go to the topic high-scores. Every instance fills its stores from that"
    " topic and from the two tables, and answers queries from them."
)
"""The picture in words."""

DESCRIPTION: Final = Description("leaderboard", NODES, FLOWS, SUMMARY)

RANKS_NODES: Final = (
    Node("by player", "step", "whoever exists", "a score of a player on a product", 2, "ranks.best_rows"),
    Node(
        "best per player",
        "step",
        "three of each",
        "by product_id and player_id, the best scores; in real time only what has changed is written",
        2,
        "bests.Bests.aggregate",
    ),
    Node(PERSONAL_BESTS, "sink", "compacted", "compacted, by product id and player id", 2, "bests.Bests.written"),
    Node("store personal-bests", "store", "in order", "the best scores of each player, and the order of all", 2),
)
RANKS_FLOWS: Final = (
    ("parse", "by player"),
    ("by player", "best per player"),
    ("best per player", PERSONAL_BESTS),
    (PERSONAL_BESTS, "store personal-bests"),
    ("store personal-bests", "queries"),
)
RANKS_SUMMARY: Final = (
    f"{SUMMARY} Beside the boards, the best scores of each player on each product go to the topic personal-bests, and"
    " every instance holds them in the order of their ranks."
)
*_BEFORE_QUERIES, _QUERIES = NODES
WITH_RANKS: Final = Description(
    "leaderboard", (*_BEFORE_QUERIES, *RANKS_NODES, _QUERIES), (*FLOWS, *RANKS_FLOWS), RANKS_SUMMARY
)
"""With the ranks of players."""

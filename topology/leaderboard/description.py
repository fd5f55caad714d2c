"""What the leaderboard is, in more words than its declaration has: its steps, and what flows from where to where.

A test holds the steps to what is called when a query is made.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from runtime.description import Description, Node
from topology.leaderboard.topics import (
    HIGH_SCORES,
    MODERATION,
    PERIOD_BOARDS,
    PERSONAL_BESTS,
    PLAYERS,
    PRODUCTS,
    SCORE_EVENTS,
)

NODES: Final = (
    Node(SCORE_EVENTS, "stream", "stream, no key", 'stream, no key          {"score", "product_id", "player_id"}'),
    Node(PLAYERS, "table", "global table", 'global table, by id     {"id", "name"}', lane=-1),
    Node(PRODUCTS, "table", "global table", 'global table, by id     {"id", "name"}', lane=1),
    Node("parse", "step", "drop the unusable", "drop and count what is no score event", function="events.judge"),
    Node(MODERATION, "table", "global table", 'global table, by id     {"hidden", "reason"}', lane=-2),
    Node("above floor", "step", "drop the hopeless", "drop what cannot reach its board", function="query.above_floor"),
    Node("mark hidden", "step", "by moderation", "mark whoever is hidden", function="hiding.Hiding.events_marked"),
    Node("left join players", "step", "on player_id", "on player_id", function="query.join_tables"),
    Node("left join products", "step", "on product_id", "on product_id", function="query.join_tables"),
    Node(
        "aggregate",
        "step",
        "best per product",
        "by product_id, the best entries: score, then the earlier record; known, pending and hidden apart",
        function="places.Places.aggregates",
    ),
    Node("merge seed", "step", "from before", "the boards that the generation began with", function="boards.seed"),
    Node(HIGH_SCORES, "sink", "compacted", "compacted, by product id", function="places.Places.published"),
    Node("leader-boards", "store", "by partition", "one board a product, a partition's active and standby instances"),
    Node("store moderation", "store", "at every instance", "what is hidden, at every instance", lane=-2),
    Node("store players", "store", "at every instance", "the name of each player, at every instance", lane=-1),
    Node("store products", "store", "at every instance", "the name of each product, at every instance", lane=1),
    Node("queries", "reader", "get, range, all", "boards with the names of now, over HTTP at any instance"),
)
"""In the order in which a record meets them."""

FLOWS: Final = (
    (SCORE_EVENTS, "parse"),
    ("parse", "above floor"),
    ("above floor", "mark hidden"),
    (MODERATION, "mark hidden"),
    ("mark hidden", "left join players"),
    (PLAYERS, "left join players"),
    ("left join players", "left join products"),
    (PRODUCTS, "left join products"),
    ("left join products", "aggregate"),
    ("aggregate", "merge seed"),
    ("merge seed", HIGH_SCORES),
    (HIGH_SCORES, "leader-boards"),
    (MODERATION, "store moderation"),
    (PLAYERS, "store players"),
    (PRODUCTS, "store products"),
    ("leader-boards", "queries"),
    ("store moderation", "queries"),
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
_OF_PERIODS: Final = {
    "above floor": Node(
        "in periods",
        "step",
        "drop the hopeless",
        "all time, and each kept period whose board it can reach; dropped where there is none",
        function="period_query.narrowed",
    ),
    "aggregate": Node(
        "aggregate",
        "step",
        "best of each",
        "by product_id and period, the best entries: score, then the earlier record; known, pending and hidden apart",
        function="places.Places.aggregates",
    ),
}
"""What stands in the place of a step where there are boards of periods."""
_PERIODS_NODES: Final = (
    Node(PERIOD_BOARDS, "sink", "compacted", "compacted, by product id and period", 2, "places.Places.published"),
    Node("store period-boards", "store", "by partition", "one board a product and period that is kept", 2),
)
_PERIODS_FLOWS: Final = (
    ("merge seed", PERIOD_BOARDS),
    (PERIOD_BOARDS, "store period-boards"),
    ("store period-boards", "queries"),
)
_PERIODS_SUMMARY: Final = (
    f"{SUMMARY} By the same query, the best of each product in each day, week and month go to the topic"
    " period-boards, until they are kept no longer."
)


def _in_periods(flow: tuple[str, str]) -> tuple[str, str]:
    source, to = (_OF_PERIODS[name].name if name in _OF_PERIODS else name for name in flow)
    return source, to


*_BEFORE_QUERIES, _QUERIES = NODES
WITH_RANKS: Final = Description(
    "leaderboard", (*_BEFORE_QUERIES, *RANKS_NODES, _QUERIES), (*FLOWS, *RANKS_FLOWS), RANKS_SUMMARY
)
"""With the ranks of players."""
_PERIODS_BEFORE_QUERIES: Final = (*(_OF_PERIODS.get(node.name, node) for node in _BEFORE_QUERIES), *_PERIODS_NODES)
_FLOWS_IN_PERIODS: Final = (*map(_in_periods, FLOWS), *_PERIODS_FLOWS)
WITH_PERIODS: Final = Description(
    "leaderboard", (*_PERIODS_BEFORE_QUERIES, _QUERIES), _FLOWS_IN_PERIODS, _PERIODS_SUMMARY
)
"""With the boards of periods."""


def _lower(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    return tuple(replace(node, lane=node.lane + 1) for node in nodes)


def described(*, ranks: bool, periods: bool) -> Description:
    """Return the description, with the stores that are turned on."""
    if not periods:
        return WITH_RANKS if ranks else DESCRIPTION
    if not ranks:
        return WITH_PERIODS
    nodes = (*_PERIODS_BEFORE_QUERIES, *_lower(RANKS_NODES), _QUERIES)
    summary = _PERIODS_SUMMARY + RANKS_SUMMARY.removeprefix(SUMMARY)
    return Description("leaderboard", nodes, (*_FLOWS_IN_PERIODS, *RANKS_FLOWS), summary)

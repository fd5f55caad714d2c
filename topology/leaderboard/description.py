"""What the topology is, as data: its sources, steps, sink and stores, and what flows from where to where.

Text, Mermaid and the picture are made from it (`runtime.diagram`), without Spark. A test holds the steps to the calls
in `topology.leaderboard.query`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from topology.leaderboard.topics import HIGH_SCORES, PLAYERS, PRODUCTS, SCORE_EVENTS

Kind = Literal["stream", "table", "step", "sink", "store", "reader"]


@dataclass(frozen=True, slots=True)
class Node:
    """One part of the topology.

    Attributes:
        name: what it is called everywhere.
        kind: what it is; a sink is the source of a store as well.
        brief: a few words, for a picture.
        text: what it is or does, in one line.
        lane: the way of the stream is 0; tables go beside it, at -1 and 1.
        function: of a step, the function of `topology.leaderboard.query` that does it.
    """

    name: str
    kind: Kind
    brief: str
    text: str
    lane: int = 0
    function: str = ""


NODES: Final = (
    Node(SCORE_EVENTS, "stream", "stream, no key", 'stream, no key          {"score", "product_id", "player_id"}'),
    Node(PLAYERS, "table", "global table", 'global table, by id     {"id", "name"}', lane=-1),
    Node(PRODUCTS, "table", "global table", 'global table, by id     {"id", "name"}', lane=1),
    Node("parse", "step", "drop the unusable", "drop and count what is no score event", function="parse"),
    Node("above floor", "step", "drop the hopeless", "drop what cannot reach its board", function="above_floor"),
    Node("left join players", "step", "on player_id", "on player_id", function="join_tables"),
    Node("left join products", "step", "on product_id", "on product_id", function="join_tables"),
    Node(
        "aggregate",
        "step",
        "best per product",
        "by product_id, the best entries: score, then the earlier record; known and pending apart",
        function="best",
    ),
    Node("merge seed", "step", "from before", "the boards that the generation began with", function="with_seed"),
    Node(HIGH_SCORES, "sink", "compacted", "compacted, by product id", function="publish"),
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


def describe() -> str:
    """Return the topology as text: sources, steps, sink, stores."""
    sources = [f"  Source  {node.name:<15}{node.text}" for node in NODES if node.kind in {"stream", "table"}]
    steps = [f"    ▸ {node.name:<20}{node.text}" for node in NODES if node.kind in {"step", "sink"}]
    stores = [f"  Store   {node.name.removeprefix('store '):<15}{node.text}" for node in NODES if node.kind == "store"]
    readers = [f"  {node.name.capitalize():<23}{node.text}" for node in NODES if node.kind == "reader"]
    return "\n".join(
        ["Topology: leaderboard", "", *sources, "", f"  {SCORE_EVENTS}", *steps, "", *stores, "", *readers, ""]
    )

"""The description is of the query that runs, and its picture can be read."""

from __future__ import annotations

import inspect

import pytest

from tests.drivers.descriptions import check_flows, check_mermaid, check_picture, check_text
from topology.leaderboard import board, events, query
from topology.leaderboard.description import DESCRIPTION, NODES
from topology.leaderboard.places import Places
from topology.leaderboard.upkeep import LeaderboardUpkeep

STEPS = {
    "judge": events.judge,
    "above_floor": query.above_floor,
    "join_tables": query.join_tables,
    "aggregates": Places.aggregates,
    "published": Places.published,
}
"""In the order in which a record meets them: the format judges, the upkeep narrows, rows are made, and added up."""


def test_the_steps_are_the_functions_of_the_topology_in_their_order() -> None:
    steps = [node.function for node in NODES if node.function]
    # One function joins both tables.
    assert list(dict.fromkeys(steps)) == list(STEPS)
    assert [node.name for node in NODES if node.function == "join_tables"] == [
        "left join players",
        "left join products",
    ]


def test_the_declaration_calls_them() -> None:
    assert "judge(records)" in inspect.getsource(board.ScoreEvents.judge)
    assert "join_tables(entries(events), players, products)" in inspect.getsource(query.score_rows)
    assert "above_floor(events, self._floors)" in inspect.getsource(LeaderboardUpkeep.narrow)
    assert isinstance(board.LEADERBOARD.stores[0].record, Places)


def test_every_flow_leads_on_between_nodes_that_exist() -> None:
    check_flows(DESCRIPTION)


def test_the_text_names_every_node() -> None:
    check_text(DESCRIPTION)


def test_mermaid_has_every_node_once_and_every_flow() -> None:
    check_mermaid(DESCRIPTION)


@pytest.mark.parametrize("across", [True, False])
def test_the_picture_has_every_node_and_no_two_boxes_meet(across: bool) -> None:
    check_picture(DESCRIPTION, across=across)

"""The description is of the query that runs, and its picture can be read."""

from __future__ import annotations

import ast
import inspect

import pytest

from tests.drivers.descriptions import check_flows, check_mermaid, check_picture, check_text
from topology.leaderboard import query as leaderboard
from topology.leaderboard.description import DESCRIPTION, NODES


def test_the_steps_are_the_calls_of_the_topology_in_their_order() -> None:
    tree = ast.parse(inspect.getsource(leaderboard.leaderboard))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    calls.sort(key=lambda call: (call.end_lineno or 0, call.end_col_offset or 0))
    called = [call.func.id for call in calls if isinstance(call.func, ast.Name)]
    steps = [node.function for node in NODES if node.function]
    # One function joins both tables.
    assert list(dict.fromkeys(steps)) == called
    assert [node.name for node in NODES if node.function == "join_tables"] == [
        "left join players",
        "left join products",
    ]


def test_every_flow_leads_on_between_nodes_that_exist() -> None:
    check_flows(DESCRIPTION)


def test_the_text_names_every_node() -> None:
    check_text(DESCRIPTION)


def test_mermaid_has_every_node_once_and_every_flow() -> None:
    check_mermaid(DESCRIPTION)


@pytest.mark.parametrize("across", [True, False])
def test_the_picture_has_every_node_and_no_two_boxes_meet(across: bool) -> None:
    check_picture(DESCRIPTION, across=across)

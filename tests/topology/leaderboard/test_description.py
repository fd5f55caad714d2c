"""The description is of the topology that runs, and its picture can be read."""

from __future__ import annotations

import ast
import inspect
import re
from xml.etree import ElementTree as ET

import pytest

from runtime.diagram import mermaid, ranks, svg
from topology.leaderboard import query as leaderboard
from topology.leaderboard.description import FLOWS, NODES, describe

_SVG = "{http://www.w3.org/2000/svg}"


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
    rank = ranks()
    assert set(rank) == {node.name for node in NODES}
    assert all(rank[source] < rank[target] for source, target in FLOWS)


def test_the_text_names_every_node() -> None:
    text = describe()
    for node in NODES:
        assert node.text in text
        assert node.name.removeprefix("store ").lower() in text.lower()


def test_mermaid_has_every_node_once_and_every_flow() -> None:
    lines = mermaid().splitlines()
    assert lines[0] == "flowchart LR"
    for node in NODES:
        assert sum(f'"{node.name}<br>' in line for line in lines) == 1
    assert sum(" --> " in line for line in lines) == len(FLOWS)
    assert all(re.fullmatch(r"    [a-z-]+( --> [a-z-]+|\W.*\W)", line) for line in lines[1:])


@pytest.mark.parametrize("across", [True, False])
def test_the_picture_has_every_node_and_no_two_boxes_meet(across: bool) -> None:
    root = ET.fromstring(svg(across=across))  # noqa: S314  # made here
    assert [text.text for text in root.iter(f"{_SVG}text") if text.get("class") == "name"] == [n.name for n in NODES]
    boxes = [
        tuple(float(box.get(name, "")) for name in ("x", "y", "width", "height")) for box in root.iter(f"{_SVG}rect")
    ]
    _, _, width, height = (float(each) for each in root.get("viewBox", "").split())
    for index, (x, y, w, h) in enumerate(boxes):
        assert x >= 0
        assert y >= 0
        assert x + w <= width
        assert y + h <= height
        for x2, y2, w2, h2 in boxes[index + 1 :]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y
    assert len([path for path in root.iter(f"{_SVG}path") if path.get("class") == "flow"]) == len(FLOWS)

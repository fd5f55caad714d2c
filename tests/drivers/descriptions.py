"""Checks what is made of a topology's description: text, Mermaid, and a picture that can be read."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from runtime.description import Description
from runtime.diagram import mermaid, ranks, svg, text

_SVG = "{http://www.w3.org/2000/svg}"


def check_flows(description: Description) -> None:
    """Every flow leads on between nodes that exist."""
    rank = ranks(description)
    assert set(rank) == {node.name for node in description.nodes}
    assert all(rank[source] < rank[target] for source, target in description.flows)


def check_text(description: Description) -> None:
    """The text names every node."""
    found = text(description)
    for node in description.nodes:
        assert node.text in found
        assert node.name.removeprefix("store ").lower() in found.lower()


def check_mermaid(description: Description) -> None:
    """Mermaid has every node once, and every flow."""
    lines = mermaid(description).splitlines()
    assert lines[0] == "flowchart LR"
    for node in description.nodes:
        assert sum(f'"{node.name}<br>' in line for line in lines) == 1
    assert sum(" --> " in line for line in lines) == len(description.flows)
    assert all(re.fullmatch(r"    [a-z0-9-]+( --> [a-z0-9-]+|\W.*\W)", line) for line in lines[1:])


def check_picture(description: Description, *, across: bool) -> None:
    """The picture has every node, no two boxes meet, and every name has room in its box."""
    root = ET.fromstring(svg(description, across=across))  # noqa: S314  # made here
    names = [each.text for each in root.iter(f"{_SVG}text") if each.get("class") == "name"]
    assert names == [node.name for node in description.nodes]
    boxes = [
        tuple(float(box.get(name, "")) for name in ("x", "y", "width", "height")) for box in root.iter(f"{_SVG}rect")
    ]
    _, _, width, height = (float(each) for each in root.get("viewBox", "").split())
    for index, (x, y, w, h) in enumerate(boxes):
        assert x >= 0
        assert y >= 0
        assert x + w <= width
        assert y + h <= height
        assert w >= 7 * max(len(node.name) for node in description.nodes)
        for x2, y2, w2, h2 in boxes[index + 1 :]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y
    flows = [path for path in root.iter(f"{_SVG}path") if path.get("class") == "flow"]
    assert len(flows) == len(description.flows)

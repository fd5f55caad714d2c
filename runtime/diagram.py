"""A described topology as text, as Mermaid text for documents, and as an SVG that stands alone, light and dark.

The layout is a pure function of the description: a node's rank is the longest way to it from the stream; tables and
their stores stand right before what first needs them; a lane is the side of the stream that it is on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape
from typing import Final

from runtime.description import Description, Kind, Node

_MERMAID: Final[Mapping[Kind, tuple[str, str]]] = {
    "stream": ('[/"', '"/]'),
    "table": ('[/"', '"/]'),
    "step": ('["', '"]'),
    "sink": ('[/"', '"/]'),
    "store": ('[("', '")]'),
    "reader": ('(["', '"])'),
}

_STYLE: Final = """\
.box{fill:#fff;stroke:#8a93a3;stroke-width:1.5}
.stream,.table,.sink{fill:#fff3d6;stroke:#a86f00}
.store{fill:#dff1ec;stroke:#0b7a66}
.reader{fill:#e4eafc;stroke:#3757c5}
.name{font:600 14px Inter,system-ui,"Segoe UI",Roboto,sans-serif;fill:#171b24}
.brief{font:12px Inter,system-ui,"Segoe UI",Roboto,sans-serif;fill:#4c5566}
.flow{fill:none;stroke:#6b7486;stroke-width:1.5}
.tip{fill:#6b7486}
@media (prefers-color-scheme:dark){
.box{fill:#1d2330;stroke:#7d8799}
.stream,.table,.sink{fill:#372a10;stroke:#d9a441}
.store{fill:#0f2f2a;stroke:#3fb8a0}
.reader{fill:#1b2547;stroke:#8ca4f5}
.name{fill:#f2f4f8}
.brief{fill:#b3bccb}
.flow{stroke:#97a1b3}
.tip{fill:#97a1b3}
}"""


_TIP: Final = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>'
)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Sizes in pixels; `along` is the way of the stream, `across` from lane to lane."""

    across_page: bool
    width: int
    height: int
    gap_along: int
    gap_across: int
    margin: int = 6

    def corner(self, rank: int, lane: int) -> tuple[int, int]:
        """Return the upper left corner of a node; the first lane is 0 here."""
        along, across = (self.width, self.height) if self.across_page else (self.height, self.width)
        first = self.margin + rank * (along + self.gap_along)
        second = self.margin + lane * (across + self.gap_across)
        return (first, second) if self.across_page else (second, first)


_ACROSS: Final = _Layout(across_page=True, width=132, height=50, gap_along=20, gap_across=30)
_NAME_PX: Final = 7
_BRIEF_PX: Final = 6
"""How wide a letter is, about."""
_DOWN: Final = _Layout(across_page=False, width=134, height=46, gap_along=24, gap_across=14)


def ranks(description: Description) -> dict[str, int]:
    """Return how far along each node stands, 0 first."""
    found: dict[str, int] = {}
    for node in description.nodes:
        before = [found[source] for source, target in description.flows if target == node.name and source in found]
        if before or node.kind == "stream":
            found[node.name] = max(before, default=-1) + 1
    for node in reversed(description.nodes):
        if node.name not in found:
            found[node.name] = min(found[target] for source, target in description.flows if source == node.name) - 1
    return found


def text(description: Description) -> str:
    """Return a topology as text: sources, steps, sinks, stores, and who reads them."""
    nodes = description.nodes
    sources = [f"  Source  {node.name:<14} {node.text}" for node in nodes if node.kind in {"stream", "table"}]
    streams = [f"  {node.name}" for node in nodes if node.kind == "stream"]
    steps = [f"    ▸ {node.name:<19} {node.text}" for node in nodes if node.kind in {"step", "sink"}]
    stores = [f"  Store   {node.name.removeprefix('store '):<14} {node.text}" for node in nodes if node.kind == "store"]
    readers = [f"  {node.name.capitalize():<22} {node.text}" for node in nodes if node.kind == "reader"]
    title = f"Topology: {description.name}"
    return "\n".join([title, "", *sources, "", *streams, *steps, "", *stores, "", *readers, ""])


def mermaid(description: Description) -> str:
    """Return a topology as a Mermaid flowchart."""
    names = {node.name: node.name.replace(" ", "-") for node in description.nodes}
    lines = ["flowchart LR"]
    for node in description.nodes:
        opened, closed = _MERMAID[node.kind]
        lines.append(f"    {names[node.name]}{opened}{node.name}<br>{node.brief}{closed}")
    lines += [f"    {names[source]} --> {names[target]}" for source, target in description.flows]
    return "\n".join([*lines, ""])


def svg(description: Description, *, across: bool = True) -> str:
    """Return a topology as an SVG image.

    Args:
        description: of the topology.
        across: from left to right, for a wide page; else from top to bottom.
    """
    layout, rank = _with_room(_ACROSS if across else _DOWN, description), ranks(description)
    outermost = min(node.lane for node in description.nodes)
    corners = {node.name: layout.corner(rank[node.name], node.lane - outermost) for node in description.nodes}
    width = max(x for x, _ in corners.values()) + layout.width + layout.margin
    height = max(y for _, y in corners.values()) + layout.height + layout.margin
    flows = (_flow(layout, corners[source], corners[target]) for source, target in description.flows)
    boxes = (_box(layout, node, *corners[node.name]) for node in description.nodes)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="t d">',
        f'<title id="t">The topology</title><desc id="d">{escape(description.summary)}</desc>',
        f"<style>{_STYLE}</style>",
        _TIP,
        *flows,
        *boxes,
        "</svg>",
    ]
    return "\n".join([*lines, ""])


def _with_room(layout: _Layout, description: Description) -> _Layout:
    """Return a layout whose boxes are wide enough for the longest name."""
    longest = max(_NAME_PX * len(node.name) for node in description.nodes)
    widest_brief = max(_BRIEF_PX * len(node.brief) for node in description.nodes)
    return replace(layout, width=max(layout.width, longest + layout.margin, widest_brief + layout.margin))


def _box(layout: _Layout, node: Node, x: int, y: int) -> str:
    rounded = {"step": 6, "store": 14, "reader": layout.height // 2}.get(node.kind, 2)
    middle, first = x + layout.width // 2, y + layout.height // 2
    return (
        f'<rect class="box {node.kind}" x="{x}" y="{y}" width="{layout.width}" height="{layout.height}"'
        f' rx="{rounded}"/>'
        f'<text class="name" x="{middle}" y="{first - 3}" text-anchor="middle">{escape(node.name)}</text>'
        f'<text class="brief" x="{middle}" y="{first + 14}" text-anchor="middle">{escape(node.brief)}</text>'
    )


def _flow(layout: _Layout, source: tuple[int, int], target: tuple[int, int]) -> str:
    """Return an arrow: straight inside a lane, else a curve that leaves and arrives along the stream."""
    if layout.across_page:
        start = (source[0] + layout.width, source[1] + layout.height // 2)
        end = (target[0], target[1] + layout.height // 2)
        bend = (end[0] - start[0]) // 2
        curve = f"C{start[0] + bend} {start[1]} {end[0] - bend} {end[1]} {end[0]} {end[1]}"
    else:
        start = (source[0] + layout.width // 2, source[1] + layout.height)
        end = (target[0] + layout.width // 2, target[1])
        bend = (end[1] - start[1]) // 2
        curve = f"C{start[0]} {start[1] + bend} {end[0]} {end[1] - bend} {end[0]} {end[1]}"
    return f'<path class="flow" marker-end="url(#tip)" d="M{start[0]} {start[1]}{curve}"/>'

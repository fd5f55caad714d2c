"""The example of `docs/write-your-own-topology.md`, made from its code blocks as they stand there."""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import Any

from tests.drivers.markdown import ROOT, Document

PAGE = ROOT / "docs" / "write-your-own-topology.md"


def example() -> ModuleType:
    """Return the code of the page as a module."""
    module = ModuleType("own_topology_example")
    # What is defined in it looks its types up there.
    sys.modules[module.__name__] = module
    code = "\n\n".join(block.code for block in Document(PAGE).blocks() if block.language == "python")
    exec(compile(code, str(PAGE), "exec"), module.__dict__)  # noqa: S102  # to run it is the purpose
    return module


def match_event(player_id: int, game: str, *, won: bool) -> bytes:
    """Return the value of a match event."""
    event: dict[str, Any] = {"player_id": player_id, "game": game, "won": won}
    return json.dumps(event).encode()

"""How many reads instances have forwarded, as their metrics say."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tests.drivers.instance import Instance


def forwarded_while(members: Sequence[Instance], act: Callable[[], None]) -> float:
    """Return how many requests members have sent to each other while something was done."""
    before = sum(map(_forwards, members))
    act()
    return sum(map(_forwards, members)) - before


def _forwards(member: Instance) -> float:
    (line,) = re.findall(r"^leaderboard_forwards_total (.*)$", member.get("/metrics").text, re.MULTILINE)
    return float(line)

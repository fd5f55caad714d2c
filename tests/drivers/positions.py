"""Clients that hand their position back with each read, wherever they ask next, and look whether a board is older."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.drivers.reader import Connection
from tests.waiting import UNHURRIED_S

CHANGES = 100
_READERS = 8
_AGAIN_S = 0.1


@dataclass
class Seen:
    """What the clients have seen.

    Attributes:
        reads: how many were answered.
        older: what was wrong with each board that was older than the one before.
        changes: how often a board was another one than before.
        answered_by: the instances whose copies answered.
        again: how many reads no copy could answer; they were made again.
    """

    reads: int = 0
    older: list[str] = field(default_factory=list)
    changes: int = 0
    answered_by: set[str] = field(default_factory=set)
    again: int = 0


async def read_on(addresses: Sequence[str], path: str, reads: int) -> Seen:
    """Read a board whose best score only ever rises, at each address in turn, by several clients at a time.

    Args:
        addresses: `host:port` of those that are asked.
        path: of the board.
        reads: how many of all clients together; more while they have seen few changes.
    """
    seen = Seen()
    turned = [[*addresses[first:], *addresses[:first]] for first in range(len(addresses))]
    await asyncio.gather(
        *(_read(each, path, reads, seen) for each in itertools.islice(itertools.cycle(turned), _READERS))
    )
    return seen


async def _read(addresses: Sequence[str], path: str, reads: int, seen: Seen) -> None:
    position, best = "", 0.0
    until_s = time.monotonic() + UNHURRIED_S
    connections = [Connection(address) for address in addresses]
    for connection in itertools.cycle(connections):
        if seen.reads >= reads and (seen.changes >= CHANGES or time.monotonic() > until_s):
            break
        handed_back = f"&min_position={position}" if position else ""
        reply = await connection.get(f"{path}?limit=1{handed_back}")
        if reply.status == 503:
            seen.again += 1
            await asyncio.sleep(_AGAIN_S)
            continue
        assert reply.status == 200, reply
        seen.reads += 1
        seen.answered_by.add(reply.headers["x-served-by"])
        position = reply.headers["x-store-position"]
        score = float(json.loads(reply.body)[0]["score"])
        if score < best:
            seen.older.append(f"{score} of {reply.headers['x-served-by']} after {best}")
        seen.changes += score > best
        best = max(best, score)
    for connection in connections:
        connection.close()

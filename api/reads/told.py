"""How far the copies had read whose answers an instance has given: what it answers next is not older.

The answers of an instance move between copies: a peer answers while its own copy is behind, a standby while the active
one is away. The one that answers next may be some records behind the one before, and a reader would see a count go
back. Each answer tells how far its copy had read, so the instance remembers that by partition.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from api.cluster.connections import Reply
from runtime.copies.status import CopyStatus
from runtime.serving.position import Position
from runtime.serving.view import View

logger = logging.getLogger(__name__)

WITHIN_S: Final = 3.0
"""How long a copy may take to reach a position: the topic may have been created anew, and its offsets with it."""
LOOK_EVERY_S: Final = 0.005


class Told:
    """The highest position of each partition of a store that an instance has answered from.

    Args:
        view: the rows of this instance's copies.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._highest: dict[int, Position] = {}

    def of_copies(self, partitions: Iterable[int]) -> None:
        """Remember that this instance's copies answer."""
        for partition in partitions:
            status = self._view.status(partition)
            if status.topic_id:
                self.at(Position(status.topic_id, partition, status.position))

    def at(self, position: Position) -> None:
        """Remember that a copy answers which has come to a position."""
        held = self._highest.get(position.partition)
        if held is None or held.topic_id != position.topic_id or held.offset < position.offset:
            self._highest[position.partition] = position

    def is_ahead(self, partition: int, status: CopyStatus) -> bool:
        """Return whether this instance's copy answers, and is not as far as an answer that was given before.

        Args:
            partition: of the copy.
            status: what the instance can say about it.
        """
        told = self._highest.get(partition)
        is_behind = told is not None and told.offset > status.position and told.topic_id == status.topic_id
        return is_behind and status.can_answer

    def are_ahead(self, partitions: Iterable[int]) -> bool:
        """Return whether one of this instance's copies is not as far as an answer that was given before."""
        return any(self.is_ahead(each, self._view.status(each)) for each in partitions)

    def is_here(self, told: Position) -> bool:
        """Return whether this instance's copy answers, and is as far as what was told."""
        status = self._view.status(told.partition)
        return status.can_answer and status.topic_id == told.topic_id and status.position >= told.offset

    def ahead_of(self, positions: Iterable[Position]) -> dict[int, Position]:
        """Return what was told of partitions whose copies elsewhere are not as far, by partition.

        Args:
            positions: how far those copies have read.
        """
        both = ((position, self._highest.get(position.partition)) for position in positions)
        return {
            told.partition: told
            for position, told in both
            if told is not None and told.topic_id == position.topic_id and told.offset > position.offset
        }

    def positions_of(self, reply: Reply, name: bytes) -> list[Position]:
        """Return the positions that a peer tells with a reply; none of one of another version, which tells none.

        Args:
            reply: of the peer.
            name: the header that tells how far its copies had read, a comma-separated list.
        """
        texts, store = reply.headers.get(name), self._view.store.name
        try:
            return [Position.of_text(each, store) for each in texts.decode("latin-1").split(",")] if texts else []
        except ValueError as error:
            logger.warning("what a peer tells of how far its copies of %s have read says nothing: %s", store, error)
            return []

    def forget(self, told: Iterable[Position]) -> None:
        """Have what no copy comes to in time not waited for again."""
        for each in told:
            if self._highest.get(each.partition) == each:
                del self._highest[each.partition]

    async def reached(self, partitions: Iterable[int]) -> None:
        """Return when this instance's copies are as far as what was told, or have had long enough to be.

        What is not reached within `WITHIN_S` is forgotten: the copy answers all the same, and the next read does not
        wait.
        """
        waiting = [self._highest[each] for each in partitions if self.is_ahead(each, self._view.status(each))]
        await asyncio.gather(*map(self._reached, waiting))

    async def _reached(self, told: Position) -> None:
        if not await reach(self._view, told.partition, told.offset):
            self.forget([told])


async def reach(view: View, partition: int, position: int) -> bool:
    """Return when the copy has come to a position, or has had long enough to; and whether it has.

    Args:
        view: the rows of this instance's copies.
        partition: which partition.
        position: an offset of its topic partition.
    """
    try:
        async with asyncio.timeout(WITHIN_S):
            while view.status(partition).position < position:
                await asyncio.sleep(LOOK_EVERY_S)
    except TimeoutError:
        logger.warning("the copy of partition %d has not come to offset %d in time", partition, position)
        return False
    return True

"""The materializer: topic partitions → stores. It restores them and follows them, session after session with Kafka.

One consumer without a group reads everything, so that no rebalance ever stops it. What a session does is in
`runtime.copies.fill_session`, what is filled in `runtime.copies.copies`.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from runtime.copies.copies import Copies
from runtime.copies.fill_session import FillOptions, FillSession
from runtime.copies.republisher import Republisher
from runtime.errors import BrokerUnavailable, LeaderboardError, StateUnusable
from runtime.kafka.connection import KafkaConnection

logger = logging.getLogger(__name__)


class Materializer:
    """Fills the copies of this instance.

    Args:
        kafka: how to connect.
        copies: what is filled.
        republisher: publishes results again that their topic lacks; without one nobody does.
        options: how they are filled.
    """

    def __init__(
        self,
        kafka: KafkaConnection,
        copies: Copies,
        republisher: Republisher | None = None,
        options: FillOptions | None = None,
    ) -> None:
        self._kafka = kafka
        self._copies = copies
        self._republisher = republisher
        self._options = options or FillOptions()
        self._complained = False
        self._task: asyncio.Task[None] | None = None
        copies.trouble = f"Kafka at {kafka} has not answered yet"

    async def start(self) -> None:
        """Open what is on disk, which can answer at once, and begin to fill.

        Raises:
            StateUnusable: a store cannot be opened.
        """
        self._copies.open_kept()
        self._task = asyncio.create_task(self._run(), name="materializer")

    async def stop(self) -> None:
        """Stop filling. The stores stay open, and go on answering."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self) -> None:
        unwritten = False
        while True:
            try:
                if unwritten:
                    self._copies.reopen()
                    unwritten = False
                await FillSession(self._kafka, self._copies, self._republisher, self._options, self._resumed).run()
            except BrokerUnavailable as error:
                self._complain(error)
            except StateUnusable as error:
                self._complain(error)
                self._copies.state_trouble = str(error)
                unwritten = True
            except Exception as error:
                # A defect must not end the filling for good: reads would grow old without anybody noticing.
                logger.exception("filling stores failed; it begins again")
                self._copies.trouble = repr(error)
                # What was written may not have been told to all who follow: opened again, all of it is news.
                unwritten = True
            await asyncio.sleep(self._options.retry_after_s)

    def _resumed(self) -> None:
        self._copies.trouble = self._copies.state_trouble = ""
        if self._complained:
            self._complained = False
            logger.info("stores are filled again")

    def _complain(self, error: LeaderboardError) -> None:
        self._copies.trouble = str(error)
        if not self._complained:
            self._complained = True
            logger.warning("stores are not filled for now, and answer with what they have: %s", error)

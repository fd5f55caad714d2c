"""The partitions that the group has given to this instance: what is done for them, and what the group is told."""

import asyncio
import logging
import time
from collections.abc import Iterable

from app.instance.stream_task import StreamTask
from app.stream_waits import StreamWaits
from runtime.cluster.assignor import ACCEPTABLE_LAG_RECORDS, Tasks
from runtime.cluster.host_metadata import ClusterMap
from runtime.cluster.membership import Membership
from runtime.copies.copies import Copies
from runtime.copies.republisher import Republisher
from runtime.copies.status import CopyStatus
from runtime.errors import StateUnusable

logger = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.2
_DROP_AFTER_S = 600.0
"""How long a copy without a task is kept: a partition that comes back finds it warm."""


class HeldTasks:
    """Has the copies of the tasks' partitions filled. Everything happens in one event loop.

    Args:
        copies: what this instance holds.
        republisher: publishes again what the active copies know better than their topics.
        stream: the stream task.
    """

    def __init__(self, copies: Copies, republisher: Republisher, stream: StreamTask) -> None:
        self._copies = copies
        self._republisher = republisher
        self._stream = stream
        self._unheld_since: dict[int, float] = {}
        self._asked_for: ClusterMap | None = None
        self._stream_failed = False
        self._stream_waits = StreamWaits()

    def take(self, tasks: Tasks, *, agrees: bool) -> None:
        """Hold the copies of these tasks from now on.

        Args:
            tasks: as the group has given them.
            agrees: whether the settings here are those of the other instances.
        """
        self._copies.set_active(tasks.active)
        # With other settings than theirs, it would publish what it has made of their rows by its own.
        self._republisher.set_partitions(tasks.active if agrees else ())
        self._copies.assign(tasks.copies)

    def give_up_active(self) -> None:
        """Be active for nothing until there are tasks again: the group has given them to others.

        The copies stay as they are. They answer where nobody else does.
        """
        self._copies.set_active(())
        self._republisher.set_partitions(())

    def is_caught_up(self, partition: int) -> bool:
        """Return whether the copies of a partition are near enough to the ends of their topics to answer for them."""
        status = self._copies.task_status(partition)
        return status.can_answer and _lag_to_go_by(status) <= ACCEPTABLE_LAG_RECORDS

    def restored_copies(self) -> dict[int, int]:
        """Return the lag in records of each partition whose copies have all been filled once."""
        return {p: _lag_to_go_by(status) for p, status in self._copies.held.items() if status.can_answer}

    async def look_after(self, membership: Membership) -> None:
        """Tell the group when a warm-up copy has caught up or the stream fails; drop copies without a task for long.

        And tell the log for what a stream waits that does not get on. Until it is cancelled.
        """
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            self._tell_if_stream_fails(membership)
            self._stream_waits.look(self._stream.status, time.time())
            tasks, cluster = membership.tasks(), membership.current()
            if tasks is None:
                continue
            if cluster is not self._asked_for and any(self.is_caught_up(p) for p in tasks.warm_up):
                self._asked_for = cluster
                membership.request_rebalance()
            self._drop_unheld(tasks.copies, time.monotonic())

    def _tell_if_stream_fails(self, membership: Membership) -> None:
        """Ask for another assignment when the stream begins to keep failing here, and when it is worth a try again."""
        fails = self._stream.fails()
        if fails != self._stream_failed:
            self._stream_failed = fails
            if fails:
                _, reason = self._stream.failures()
                logger.warning("the stream keeps failing here (%s): another instance may take it over", reason)
            membership.request_rebalance()

    def _drop_unheld(self, wanted: Iterable[int], now_s: float) -> None:
        unheld = self._copies.held.keys() - set(wanted)
        self._unheld_since = {p: self._unheld_since.get(p, now_s) for p in unheld}
        for partition, since in self._unheld_since.items():
            if now_s - since > _DROP_AFTER_S:
                logger.info(
                    "dropping the copy of partition %d: it has had no task for %.0f s", partition, now_s - since
                )
                try:
                    self._copies.drop(partition)
                except StateUnusable as error:
                    logger.warning("the copy of partition %d was not deleted: %s", partition, error)


def _lag_to_go_by(status: CopyStatus) -> int:
    """Return a copy's lag; one that is not known could be any, so it has not caught up."""
    return status.lag if status.lag_is_known else ACCEPTABLE_LAG_RECORDS + 1

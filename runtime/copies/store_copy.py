"""One copy: a topic partition, the store that it fills, and how far it has come.

Between the consumer and the store. Records become changes here; the consumer that brings them is the materializer's.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from runtime.errors import InvalidRecord, StateUnusable
from runtime.kafka.inspected import Judged
from runtime.measures import CopyMeasures
from runtime.stores.protocol import Fill, StateStore

logger = logging.getLogger(__name__)

SLICE_S: Final = 0.002
"""The event loop is never held longer than this for one slice of records, the write of the slice apart."""

NO_TOPIC: Final = ""
"""In place of a topic's id: what the store has is whole, and its topic has to be read from the beginning."""

_WARN_EVERY_S: Final = 10.0


class Record(Protocol):
    """A record as aiokafka gives it."""

    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def timestamp(self) -> int | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes]]: ...


class UnusableRecords:
    """Counts the records that could not be used, and says so in the log, but not for each.

    Attributes:
        counts: how many, by topic and reason.
    """

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._silent_until_s = 0.0
        self._silent_count = 0

    def note(self, topic: str, partition: int, offset: int, error: InvalidRecord) -> None:
        """Count one record.

        Args:
            topic: where it lies, with `partition` and `offset`.
            partition: see `topic`.
            offset: see `topic`.
            error: what is wrong.
        """
        self.counts[topic, error.reason] += 1
        now_s = time.monotonic()
        if now_s < self._silent_until_s:
            self._silent_count += 1
            return
        logger.warning(
            "skipped a record: topic=%s partition=%d offset=%d: %s (and %d more since the last of these lines)",
            topic, partition, offset, error, self._silent_count,
        )  # fmt: skip
        self._silent_count = 0
        self._silent_until_s = now_s + _WARN_EVERY_S


@dataclass(frozen=True, slots=True)
class Shared:
    """What the copies of an instance share.

    Attributes:
        unusable: counts what cannot be used.
        now_ms: wall-clock time in milliseconds.
    """

    unusable: UnusableRecords
    now_ms: Callable[[], int]


class StoreCopy(ABC):
    """What all copies have in common. Subclasses turn records into changes.

    Args:
        name: of the store.
        topic: where the records come from.
        partition: of the topic, and of the store.
        store: what is filled.
        shared: see there.
        on_reset: called when the store is emptied or opened again.

    Attributes:
        position: the next offset to read. The store may remember an earlier one, to read some records again.
        end: the end of the topic partition as last seen; None before that.
        judged_from: every record from this offset to `position` has been looked at by this process.
        unusable: how many of those could not be used; some are counted again after a failure.
        epoch: grows when the filling begins again; records read before that are of no use any more.
        dropped: the store is closed; nothing is written any more.
        told_at_ms: when Kafka last told where the topic partition ends, wall-clock milliseconds.
        current_at_ms: when Kafka last told of an end that the copy has reached since, wall-clock milliseconds; 0 when
            it has not reached any.
    """

    def __init__(
        self, name: str, topic: str, partition: int, store: StateStore, shared: Shared, on_reset: Callable[[], None]
    ) -> None:
        self.name = name
        self.topic = topic
        self.partition = partition
        self.store = store
        self.position = store.fill.position if store.fill else 0
        self.end: int | None = None
        self.judged_from = self.position
        self.unusable = 0
        self.epoch = 0
        self.dropped = False
        self.told_at_ms = self.current_at_ms = 0
        self._target: int | None = None
        self._shared = shared
        self._on_reset = on_reset

    @property
    def fill(self) -> Fill | None:
        """How far the store says it is filled."""
        return self.store.fill

    @property
    def restored(self) -> bool:
        """Whether it has been filled to the end of its topic once, so that it can answer."""
        return self.store.fill is not None and self.store.fill.restored

    def restored_from(self, topic_id: str) -> bool:
        """Whether it was restored from this very topic, and not from one that had its name before."""
        return self.restored and self.store.fill is not None and self.store.fill.topic_id == topic_id

    @property
    def reached(self) -> bool:
        """Whether it has come to where its topic ended when this process first saw it."""
        return self._target is not None and self.position >= self._target

    @property
    def lag(self) -> int:
        """Records behind the end as last seen; 0 while no end has been seen."""
        return max(0, self.end - self.position) if self.end is not None else 0

    def measure(self) -> CopyMeasures:
        """Return what there is to measure of it."""
        try:
            disk_bytes = self.store.disk_bytes()
        except StateUnusable:
            # Whoever writes or reads the store says what is wrong with it.
            disk_bytes = None
        rows = self.store.fill.rows if self.store.fill else 0
        return CopyMeasures(self.name, self.partition, self.restored, self.lag, rows, disk_bytes)

    def judged(self) -> Judged:
        """Return the records that this process has looked at. Called from another thread as well."""
        # In this order: what is read meanwhile counts as unusable at worst, never as clean, and what is read of a new
        # topic at worst as read of the old one, which nobody asks for any more.
        topic_id = self.fill.topic_id if self.fill else ""
        begin, end = self.judged_from, self.position
        return Judged(self.topic, topic_id, self.partition, begin, end, unusable=self.unusable > 0)

    def why_begin_again(self, topic_id: str, begin: int, end: int, delete_retention_ms: int) -> BeginAgain | None:
        """Decide whether it can go on from where it is; see the function of this name."""
        fill = self.fill._replace(position=self.position) if self.fill else None
        return why_begin_again(fill, topic_id, begin, end, self._shared.now_ms(), delete_retention_ms)

    def rewind(self) -> None:
        """Go back to what the store remembers: what was read and not written is lost."""
        self.epoch += 1
        self.current_at_ms = 0
        self.position = self.store.fill.position if self.store.fill else 0
        self.judged_from = min(self.judged_from, self.position)
        self._discard()

    def begin(self, topic_id: str, position: int) -> None:
        """Empty the store; its filling begins at `position`."""
        self.epoch += 1
        self.current_at_ms = 0
        self.position = self.judged_from = position
        self._target = None
        self._discard()
        now_ms = self._shared.now_ms()
        self.store.wipe(Fill(topic_id, position, restored=False, current_at_ms=now_ms, begin=position))
        self._on_reset()

    def begin_after_loss(self, topic_id: str, position: int) -> None:
        """Begin to fill, at `position`, from a topic that has lost records which the store still has.

        What a table's topic has lost has to be produced again: a row that only some instances still had would make
        their answers differ.
        """
        self.begin(topic_id, position)

    def resume(self, end: int) -> None:
        """Go on filling from where the store is; `end` is the end of the topic partition now."""
        self._target = end if self._target is None else self._target
        self.end = end
        self.settle()

    def apply(self, records: Sequence[Record], first: int) -> int:
        """Write the changes that records make, for about `SLICE_S`.

        Args:
            records: consecutive records of the topic partition.
            first: the index of the one to begin with.

        Returns:
            The index of the next one; `len(records)` when all are done.
        """
        if self.dropped:
            return len(records)
        deadline_s = time.monotonic() + SLICE_S
        index = first
        while index < len(records):
            record = records[index]
            index += 1
            # What is read again after a new assignment was already used.
            if record.offset >= self.position:
                try:
                    self._use(record)
                except InvalidRecord as error:
                    self.unusable += 1
                    self._shared.unusable.note(self.topic, self.partition, record.offset, error)
                self.position = record.offset + 1
            if time.monotonic() > deadline_s:
                break
        self._commit()
        return index

    def skip_to(self, position: int) -> None:
        """Move over offsets that hold no record: transaction markers, or what compaction has removed."""
        if position > self.position and not self.dropped:
            self.position = position
            self._commit()

    def settle(self, keep_alive_ms: int = 0) -> None:
        """Record that the store is complete or still current, when that is news.

        Args:
            keep_alive_ms: renew the time at which the store was current when it is older than this.
        """
        fill = self.store.fill
        if fill is None or self.end is None or self.dropped:
            return
        is_older = self._shared.now_ms() - fill.current_at_ms > keep_alive_ms
        if (self.reached and not fill.restored) or (keep_alive_ms and self.lag == 0 and is_older):
            self._commit()

    @abstractmethod
    def begins_at(self, begin: int) -> Iterator[None]:
        """Take note of where the topic partition begins now: what lay before that is in it no more.

        Retention moves that, and deletes that an operator asks for. A copy that is filled later does not have what lay
        there, and two instances must not answer differently for good.

        Args:
            begin: the first offset of the topic partition.

        Yields:
            After about `SLICE_S` each, until it is done.
        """

    def tidy(self, delete_retention_ms: int) -> None:  # noqa: B027  # most have nothing to forget
        """Forget what nobody needs any more, a part of it; called from time to time.

        Args:
            delete_retention_ms: how long the topic keeps deletes that it has compacted.
        """

    def reopened(self, store: StateStore) -> None:
        """Go on with a store that was opened again; what was not committed is read again."""
        self.store = store
        self.rewind()
        self._on_reset()

    def drop(self) -> None:
        """Write nothing any more; the store is about to be closed."""
        self.epoch += 1
        self.dropped = True

    @abstractmethod
    def _use(self, record: Record) -> None:
        """Take one record into the changes of this slice; may raise `InvalidRecord`."""

    @abstractmethod
    def _commit(self) -> None:
        """Write the changes of this slice together with `_next_fill`, then tell whoever follows."""

    @abstractmethod
    def _discard(self) -> None:
        """Forget the changes that are not written."""

    def _next_fill(self, position: int) -> Fill:
        fill = self.store.fill
        if fill is None:
            raise RuntimeError("records before the filling began")
        return fill._replace(
            position=position,
            restored=fill.restored or self.reached,
            current_at_ms=self._shared.now_ms() if self.end is not None and self.lag == 0 else fill.current_at_ms,
        )


class BeginAgain(NamedTuple):
    """Why a store has to be filled anew.

    Attributes:
        reason: in words.
        topic_lost_records: whether the store is complete and the topic may not be any more.
    """

    reason: str
    topic_lost_records: bool = False


def why_begin_again(
    fill: Fill | None, topic_id: str, begin: int, end: int, now_ms: int, delete_retention_ms: int
) -> BeginAgain | None:
    """Decide whether a store can go on from where it is: None, or the reason why it has to be filled anew.

    Args:
        fill: how far the store is filled.
        topic_id: the topic's id now.
        begin: the first offset of the topic partition.
        end: the offset after its last.
        now_ms: wall-clock time.
        delete_retention_ms: how long the topic keeps deletes that it has compacted.
    """
    if fill is None:
        return BeginAgain("it is new")
    may_have_missed_deletes = now_ms - fill.current_at_ms > delete_retention_ms
    if fill.topic_id == NO_TOPIC:
        # What others have deleted meanwhile must not come back by it.
        keeps = fill.restored and not may_have_missed_deletes
        return BeginAgain("what it holds has to be compared with all of its topic", topic_lost_records=keeps)
    if fill.topic_id != topic_id:
        return BeginAgain("the topic was deleted and created again", topic_lost_records=fill.restored)
    if not begin <= fill.position <= end:
        outside = f"its position {fill.position} is outside of the topic partition, which has {begin} to {end}"
        return BeginAgain(outside, topic_lost_records=fill.restored)
    if fill.position < end and may_have_missed_deletes:
        return BeginAgain("it may have missed deletes: Kafka keeps them for less time than it was away")
    return None

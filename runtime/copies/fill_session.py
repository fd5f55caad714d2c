"""A session with Kafka in which stores are filled: it lasts as long as the broker answers.

Two loops share one consumer: `fill` writes records as they come, `upkeep` decides which partitions the consumer reads
and from where. A third one has rows deleted that have passed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError, RecordTooLargeError

from runtime.copies.copies import Copies
from runtime.copies.republisher import Republisher
from runtime.copies.store_copy import StoreCopy
from runtime.errors import BrokerUnavailable
from runtime.kafka.clients import reading
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.errors import kafka_errors, unavailable
from runtime.kafka.ids import TopicCatalog, TopicDescription
from runtime.kafka.topics import DELETE_RETENTION_MS

logger = logging.getLogger(__name__)

_REQUEST_TIMEOUT_MS: Final = 5_000
_POLL_TIMEOUT_MS: Final = 200
_BEGINS_TIMEOUT_S: Final = 1.0
_FETCHES_END_S: Final = 0.01
_FETCH_MAX_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class FillOptions:
    """How stores are filled.

    Attributes:
        max_records: the most records of one poll.
        upkeep_every_s: how often topics, ends and what is to be published again are looked after.
        retry_after_s: how long to wait before a broker that did not answer is tried again.
        fetch_wait_ms: how long the broker holds a fetch that finds nothing; also how long it may take until other
            partitions are read. New records do not wait for it.
        keep_alive_ms: how often a store that gets no records notes that it is current.
        delete_retention_ms: of a topic that does not tell.
    """

    max_records: int = 500
    upkeep_every_s: float = 1.0
    retry_after_s: float = 0.5
    fetch_wait_ms: int = 100
    keep_alive_ms: int = 60_000
    delete_retention_ms: int = DELETE_RETENTION_MS


class FillSession:
    """One session.

    Args:
        kafka: how to connect.
        copies: what is filled.
        republisher: publishes results again that their topic lacks; None when nobody does.
        options: how the copies are filled.
        on_resumed: called when every copy has been looked at, and they are being filled from then on.
    """

    def __init__(
        self,
        kafka: KafkaConnection,
        copies: Copies,
        republisher: Republisher | None,
        options: FillOptions,
        on_resumed: Callable[[], None],
    ) -> None:
        self._kafka = kafka
        self._copies = copies
        self._republisher = republisher
        self._options = options
        self._on_resumed = on_resumed
        self._assigned: dict[TopicPartition, StoreCopy] = {}
        self._out_of_range: set[TopicPartition] = set()
        self._unread: list[TopicPartition] = []
        self._leaderless: dict[TopicPartition, StoreCopy] = {}
        self._delete_retention_ms: dict[str, int] = {}

    async def run(self) -> None:
        """Fill until something is wrong, or until cancelled.

        Raises:
            BrokerUnavailable: Kafka does not answer.
            StateUnusable: a store cannot be written.
        """
        async with TopicCatalog(self._kafka) as catalog, self._consumer() as consumer:
            await self._upkeep(catalog, consumer)
            self._on_resumed()
            beside = [asyncio.create_task(self._fill(consumer), name="fill-stores")]
            if self._republisher is not None:
                beside.append(asyncio.create_task(self._republisher.let_rows_go(), name="let-rows-go"))
            for task in beside:
                task.add_done_callback(lambda _: self._copies.changed.set())
            try:
                while True:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self._options.upkeep_every_s):
                            await self._copies.changed.wait()
                    self._copies.changed.clear()
                    for task in beside:
                        if task.done():
                            await task
                    await self._upkeep(catalog, consumer)
            except BrokerUnavailable as error:
                # What has gone wrong with a store meanwhile counts more: then the stores have to be opened again.
                for trouble in [task.exception() for task in beside if task.done()]:
                    if trouble is not None and not isinstance(trouble, BrokerUnavailable):
                        raise trouble from error
                raise
            finally:
                for task in beside:
                    task.cancel()
                await asyncio.wait(beside)

    # Records to stores

    async def _fill(self, consumer: AIOKafkaConsumer) -> None:
        while True:
            polled = await self._poll(consumer)
            # As of now: while records are applied, a fetch may tell of others that are not among them.
            told = self._told(consumer)
            # All epochs before the first wait: while one copy takes its records, another may begin again.
            for copy, epoch, records in [
                (copy, copy.epoch, records)
                for topic_partition, records in polled.items()
                if (copy := self._assigned.get(topic_partition)) is not None
            ]:
                await _apply(copy, epoch, records)
            await self._observe(consumer)
            for copy, end, at_ms in told:
                copy.told_at_ms = at_ms
                if copy.position >= end:
                    copy.current_at_ms = at_ms
            self._copies.progressed()

    async def _poll(self, consumer: AIOKafkaConsumer) -> dict[TopicPartition, list[Any]]:
        async with kafka_errors(self._kafka):
            try:
                found: dict[TopicPartition, list[Any]] = await consumer.getmany(
                    timeout_ms=_POLL_TIMEOUT_MS, max_records=self._options.max_records
                )
                return found
            except OffsetOutOfRangeError as error:
                self._out_of_range |= set(error.args[0])
                self._copies.changed.set()
            except RecordTooLargeError as error:
                logger.warning("skipped a record that is larger than a fetch: %s", error)
        return {}

    def _told(self, consumer: AIOKafkaConsumer) -> list[tuple[StoreCopy, int, int]]:
        """Return of each copy where Kafka has said last that its topic partition ends, and when."""
        told = []
        assigned = consumer.assignment()
        for topic_partition, copy in self._assigned.items():
            if topic_partition in assigned:
                end = consumer.last_stable_offset(topic_partition)
                at_ms = consumer.last_poll_timestamp(topic_partition)
                if end is not None and end >= 0 and at_ms is not None:
                    told.append((copy, end, at_ms))
        return told

    async def _observe(self, consumer: AIOKafkaConsumer) -> None:
        """Take the ends that came with the last fetches, and move over offsets that hold no record."""
        assigned = consumer.assignment()
        for topic_partition, copy in self._assigned.items():
            end = consumer.last_stable_offset(topic_partition) if topic_partition in assigned else None
            if end is not None and end >= 0:
                copy.end = end
                if copy.position < end:
                    # Every record before the consumer's position has been applied above. Returns without waiting.
                    copy.skip_to(await consumer.position(topic_partition))

    # Which partitions, and from where

    async def _upkeep(self, catalog: TopicCatalog, consumer: AIOKafkaConsumer) -> None:
        described = await catalog.describe(self._copies.topic_names)
        if self._republisher is not None:
            described = await self._republisher.move(described, catalog.leaderless)
        copies = await self._copies.topics_described(described)
        await self._assign(catalog, consumer, described, copies)
        # What is not read for now is not known to be current, unless nobody can write there.
        for copy in (*self._assigned.values(), *self._leaderless.values()):
            copy.settle(self._options.keep_alive_ms)
        # No await from the assignment to here: a store that was emptied and is whole again holds no answer back.
        self._copies.progressed()
        await self._follow_begins(consumer)
        for copy in self._assigned.values():
            copy.tidy(await self._retention_ms(catalog, copy.topic))
        if self._republisher is not None:
            await self._republisher.look_after()

    async def _assign(
        self,
        catalog: TopicCatalog,
        consumer: AIOKafkaConsumer,
        described: dict[str, TopicDescription],
        copies: Sequence[StoreCopy],
    ) -> None:
        wanted = {TopicPartition(copy.topic, copy.partition): copy for copy in copies}
        # Who asks for their offsets waits for a leader, and with them all the others.
        self._leaderless = {at: copy for at, copy in wanted.items() if at in catalog.leaderless}
        unchecked = [
            topic_partition
            for topic_partition, copy in wanted.items()
            if topic_partition not in self._leaderless
            and (
                self._assigned.get(topic_partition) is not copy
                or topic_partition in self._out_of_range
                or copy.fill is None
                or copy.fill.topic_id != described[copy.topic].topic_id
            )
        ]
        are_noted = self._leaderless.keys() <= set(self._unread)
        if not unchecked and are_noted and wanted.keys() - self._leaderless.keys() == self._assigned.keys():
            return
        retention_ms = {copy.topic: await self._retention_ms(catalog, copy.topic) for copy in copies}
        offsets = await self._offsets(consumer, unchecked)
        unknown = [*self._leaderless, *(each for each in unchecked if each not in offsets)]
        await self._note_unread(unknown, are_all=wanted.keys() == set(unknown))
        # No await from here to the last seek: records that the loop beside reads belong to what is decided here.
        wanted = {
            topic_partition: copy
            for topic_partition, copy in wanted.items()
            if topic_partition not in unknown and not copy.dropped
        }
        if not offsets and wanted.keys() == self._assigned.keys():
            # To assign the same again would throw away what has been fetched.
            return
        for topic_partition in wanted.keys() & set(unchecked):
            copy = wanted[topic_partition]
            topic_id = described[copy.topic].topic_id
            if self._assigned.get(topic_partition) is not copy:
                copy.rewind()
            begin, end = offsets[topic_partition]
            again = copy.why_begin_again(topic_id, begin, end, retention_ms[copy.topic])
            if again is not None:
                level = logging.INFO if copy.fill is None else logging.WARNING
                where = (copy.name, copy.partition, begin)
                logger.log(level, "filling store %s/%d from offset %d: %s", *where, again.reason)
                start = copy.begin_after_loss if again.topic_lost_records else copy.begin
                start(topic_id, begin)
            copy.resume(end)
        consumer.assign(list(wanted))
        for topic_partition, copy in wanted.items():
            consumer.seek(topic_partition, copy.position)
        self._assigned = wanted
        self._out_of_range.clear()

    async def _note_unread(self, unknown: list[TopicPartition], *, are_all: bool) -> None:
        """Say why the offsets of these are not known; when these are all, there is nothing to read."""
        # Each upkeep asks for them again.
        if unknown and (are_all or unknown != self._unread):
            names = ", ".join(f"{topic}/{partition}" for topic, partition in unknown)
            if self._leaderless.keys() == set(unknown):
                why = BrokerUnavailable(f"Kafka at {self._kafka} has no leader for {names}")
            else:
                why = await unavailable(self._kafka, None, f"does not tell the offsets of {names}")
            if are_all:
                raise why
            logger.warning("these are not read for now: %s: %s", names, why)
        self._unread = unknown

    async def _follow_begins(self, consumer: AIOKafkaConsumer) -> None:
        """Tell the copies where their topic partitions begin now."""
        begins: dict[TopicPartition, int] = {}
        # Not by `kafka_errors`: one without a leader gives no answer, and the next upkeep asks again.
        with suppress(KafkaError, OSError, TimeoutError):
            async with asyncio.timeout(_BEGINS_TIMEOUT_S):
                begins = await consumer.beginning_offsets(list(self._assigned))
        for topic_partition, begin in begins.items():
            for _ in self._assigned[topic_partition].begins_at(begin):
                await asyncio.sleep(0)

    async def _offsets(
        self, consumer: AIOKafkaConsumer, topic_partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Return where these begin and end. Each is asked for alone: one without a leader is left out."""

        async def ask(topic_partition: TopicPartition) -> tuple[int, int] | None:
            # Not by `kafka_errors`: it would ask all brokers for the reason, and once for each partition.
            with suppress(KafkaError, OSError, TimeoutError):
                async with asyncio.timeout(_REQUEST_TIMEOUT_MS / 1000):
                    begins = await consumer.beginning_offsets([topic_partition])
                    ends = await consumer.end_offsets([topic_partition])
                    return begins[topic_partition], ends[topic_partition]
            return None

        answers = await asyncio.gather(*map(ask, topic_partitions))
        return {
            topic_partition: answer
            for topic_partition, answer in zip(topic_partitions, answers, strict=True)
            if answer is not None
        }

    async def _retention_ms(self, catalog: TopicCatalog, topic: str) -> int:
        if topic not in self._delete_retention_ms:
            told = await catalog.setting(topic, "delete.retention.ms")
            self._delete_retention_ms[topic] = self._options.delete_retention_ms if told is None else int(told)
        return self._delete_retention_ms[topic]

    @asynccontextmanager
    async def _consumer(self) -> AsyncIterator[AIOKafkaConsumer]:
        async with reading(
            self._kafka,
            # Where to go on is decided here: a store must never skip or repeat without knowing it.
            auto_offset_reset="none",
            request_timeout_ms=_REQUEST_TIMEOUT_MS,
            fetch_max_wait_ms=self._options.fetch_wait_ms,
            fetch_max_bytes=_FETCH_MAX_BYTES,
        ) as consumer:
            try:
                yield consumer
            finally:
                # A stop that lets the cancellation of its fetches out closes no connection: let them end first.
                consumer.unsubscribe()
                await asyncio.sleep(_FETCHES_END_S)


async def _apply(copy: StoreCopy, epoch: int, records: Sequence[Any]) -> None:
    done = 0
    while done < len(records) and copy.epoch == epoch:
        done = copy.apply(records, done)
        # Requests are answered between slices.
        await asyncio.sleep(0)

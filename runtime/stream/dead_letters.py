"""Dead letters: the records that could not be used, copied to a topic of their own exactly as they came, each once.

The instance with the stream writes them, from its stream thread. Whoever reads a range of an input topic tells whether
some of its records were unusable; only a range that has some, or that nobody has told of, is looked at again. How far a
topic partition has been dealt with is an offset of a consumer group, committed in one transaction with the letters. A
second writer, such as a process that was frozen, is fenced by Kafka before its transaction can commit.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import (
    CorruptRecordException,
    InvalidTimestampError,
    KafkaError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    ProducerFenced,
    RecordListTooLargeError,
    UnsupportedForMessageFormatError,
)
from aiokafka.structs import ConsumerRecord, OffsetAndMetadata

from runtime.declaration import Table, Topology
from runtime.errors import BrokerUnavailable, InvalidRecord, LeaderboardError
from runtime.kafka.clients import reading, stop_client
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.errors import kafka_errors, unavailable
from runtime.kafka.ids import TopicDescription, topic_ids
from runtime.kafka.inspected import Judged, with_judged
from runtime.kafka.offsets import committed_offsets, topic_offsets
from runtime.kafka.topics import create_missing, dead_letters_of
from runtime.table_records import parse_row

logger = logging.getLogger(__name__)

_REQUEST_TIMEOUT_MS: Final = 10_000
_TRANSACTION_TIMEOUT_MS: Final = 60_000
_POLL_TIMEOUT_MS: Final = 200
_MAX_RECORDS: Final = 500
_NEAR_OFFSETS: Final = 1_000
"""Records up to the next letter are read and passed over when there are no more than this, else skipped by a seek."""

_OFFSETS_AT_ONCE: Final = 500_000
_AT_ONCE_S: Final = 5.0
"""The stream thread looks after nothing else meanwhile."""

_LETTERS_AT_ONCE: Final = 500
_BYTES_AT_ONCE: Final = 16 << 20
_LARGEST_BYTES: Final = 64 << 20
_KEEP_ALIVE_S: Final = 3600.0
"""Kafka forgets the offsets of a group that commits nothing for days; then letters would be written again."""


_REFUSALS: Final = (
    MessageSizeTooLargeError,
    RecordListTooLargeError,
    CorruptRecordException,
    InvalidTimestampError,
    UnsupportedForMessageFormatError,
    PolicyViolationError,
)
"""What a broker says that will not take a record, however often it is sent."""


class _Refused(Exception):
    """The topic does not take some of these letters, which were sent in one transaction.

    Attributes:
        topic_id: of the input topic that they come from.
        letters: those of the transaction, of one topic partition.
    """

    def __init__(self, topic_id: str, letters: list[Letter], error: KafkaError) -> None:
        super().__init__(str(error) or type(error).__name__)
        self.topic_id = topic_id
        self.letters = letters


class Letter(NamedTuple):
    """A record that could not be used, and why."""

    record: ConsumerRecord[bytes, bytes]
    reason: str

    def headers(self) -> list[tuple[str, bytes]]:
        """Return where the record comes from and why it could not be used, as headers of its copy."""
        record = self.record
        headers = (record.topic, record.partition, record.offset, self.reason)
        names = ("topic", "partition", "offset", "reason")
        return [(name, str(value).encode()) for name, value in zip(names, headers, strict=True)]


FindUnusable = Callable[[Judged], Mapping[int, str]]
"""Returns the unusable events of a range: offset to reason."""


class DeadLetters:
    """Writes dead letters. Every method is called from one thread.

    Args:
        kafka: how to connect.
        application_id: names the consumer group and the transactions.
        topology: has the source and the tables whose records they are.
        stopped: whether to leave off; what is not written then is written by whoever comes next.

    Attributes:
        counts: the letters written, by topic and reason.
    """

    def __init__(
        self, kafka: KafkaConnection, application_id: str, topology: Topology, stopped: Callable[[], bool]
    ) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._kafka = kafka
        self._name = f"{application_id}-dead-letters"
        self._topology = topology
        self._tables = {table.topic: table for table in topology.tables}
        # Those of tables are beside those of the first source.
        self._letters_of = dict.fromkeys(self._tables, topology.events.invalid_topic) | {
            source.topic: source.invalid_topic for source in topology.sources
        }
        self._stopped = stopped
        self._judged: dict[TopicPartition, Judged] = {}
        self._positions: dict[TopicPartition, OffsetAndMetadata] = {}
        self._committed_at_s = -math.inf

    def note(self, ranges: Iterable[Judged]) -> None:
        """Take note of ranges that have been looked at; nothing is written yet."""
        for judged in ranges:
            self._judged = with_judged(self._judged, judged)

    def write(self, find_unusable: FindUnusable) -> bool:
        """Write letters of the ranges noted, for some seconds. What fails is tried again with the next call.

        Args:
            find_unusable: looks at a range of events; it may raise `LeaderboardError`.

        Returns:
            Whether there is more to do at once.
        """
        due = [judged for at, judged in self._judged.items() if self._position(at, judged.topic_id) < judged.end]
        if not due and time.monotonic() - self._committed_at_s < _KEEP_ALIVE_S:
            return False
        try:
            return asyncio.run(self._write(find_unusable))
        except LeaderboardError as error:
            logger.warning("dead letters are written later: %s", error)
            return False

    def _position(self, at: TopicPartition, topic_id: str) -> int:
        """Return the offset up to which a topic partition has been dealt with."""
        position = self._positions.get(at)
        return position.offset if position is not None and position.metadata == topic_id else 0

    async def _write(self, find_unusable: FindUnusable) -> bool:
        await create_missing(self._kafka, [dead_letters_of(source) for source in self._topology.sources])
        while not self._stopped():
            try:
                return await self._write_all(find_unusable)
            except _Refused as refused:
                await self._write_halves(refused)
        return False

    async def _write_all(self, find_unusable: FindUnusable) -> bool:
        """Write what there is; return whether something is left, since it takes too long for one call."""
        async with self._producer() as producer, _errors(self._kafka):
            # Only now: the producer's start has fenced every other, and ended its transaction.
            committed = await committed_offsets(self._kafka, self._name)
            # aiokafka would try for ever to commit an offset of a topic that was deleted.
            described = await topic_ids(self._kafka, {at.topic for at in (*self._judged, *committed)})
            self._positions = {at: each for at, each in committed.items() if _is_there(at, each.metadata, described)}
            there = {at: each for at, each in self._judged.items() if _is_there(at, each.topic_id, described)}
            ends = {at: OffsetAndMetadata(each.end, each.topic_id) for at, each in there.items()}
            positions = {at: self._position(at, each.topic_id) for at, each in there.items()}
            suspects = {at: each for at, each in there.items() if each.may_hold_unusable_from(positions[at])}
            # Of a topic that is old, most offsets may be those of records that retention has taken.
            begins = {
                topic: (await topic_offsets(self._kafka, topic, described[topic].partitions)).begin
                for topic in {at.topic for at in suspects}
            }
            ends |= {at: OffsetAndMetadata(positions[at], each.topic_id) for at, each in suspects.items()}
            until_s = time.monotonic() + _AT_ONCE_S
            for at, judged in suspects.items():
                first = max(positions[at], begins[at.topic][at.partition])
                reached = await self._write_range(producer, judged, first, find_unusable, until_s)
                if self._stopped():
                    return False
                ends[at] = OffsetAndMetadata(reached, judged.topic_id)
                if time.monotonic() > until_s:
                    break
            moved = {at: end for at, end in ends.items() if end.offset > self._position(at, end.metadata)}
            # aiokafka commits no empty offsets: of topics that have never had a record there are none.
            if offsets := self._positions | moved:
                async with _transaction(producer):
                    await producer.send_offsets_to_transaction(offsets, self._name)
            self._positions |= moved
            self._committed_at_s = time.monotonic()
            done = {at: each for at, each in there.items() if ends[at].offset == each.end}
            self._judged |= {at: _dealt_with(each) for at, each in done.items()}
            return len(done) < len(there)

    async def _write_range(
        self, producer: AIOKafkaProducer, judged: Judged, first: int, find_unusable: FindUnusable, until_s: float
    ) -> int:
        """Write the letters of a range from `first` on, until its end or until time is up; return how far it came."""
        for piece in judged.pieces_from(first, _OFFSETS_AT_ONCE):
            async with aclosing(self._letters(piece, find_unusable)) as groups:
                async for letters in groups:
                    await self._commit(producer, judged.topic_id, letters)
                    if time.monotonic() > until_s:
                        end: int = letters[-1].record.offset + 1
                        return end
            if time.monotonic() > until_s or self._stopped():
                return piece.end
        return judged.end

    async def _commit(self, producer: AIOKafkaProducer, topic_id: str, letters: list[Letter]) -> None:
        """Write letters of one topic partition, together with how far it has been dealt with."""
        last = letters[-1].record
        at = TopicPartition(last.topic, last.partition)
        end = OffsetAndMetadata(last.offset + 1, topic_id)
        try:
            async with _transaction(producer):
                # Its end waits for what was sent, and does not tell what became of it.
                for sent in [await self._send(producer, letter) for letter in letters]:
                    await sent
                await producer.send_offsets_to_transaction({at: end}, self._name)
        except _REFUSALS as error:
            raise _Refused(topic_id, letters, error) from error
        self._positions[at] = end
        self.counts.update((at.topic, letter.reason) for letter in letters)
        logger.warning("wrote %d dead letters: topic=%s partition=%d up to offset=%d", len(letters), *at, last.offset)

    async def _write_halves(self, refused: _Refused) -> None:
        """Write what can be written: a letter that the topic does not take must not keep the others back.

        Each half by a producer of its own: one that was refused a record has lost count of its records.
        """
        letters = refused.letters
        if len(letters) == 1:
            await self._pass_over(refused)
            return
        middle = len(letters) // 2
        for half in (letters[:middle], letters[middle:]):
            if self._stopped():
                return
            try:
                async with self._producer() as producer, _errors(self._kafka):
                    await self._commit(producer, refused.topic_id, half)
            except _Refused as smaller:
                await self._write_halves(smaller)

    async def _pass_over(self, refused: _Refused) -> None:
        record = refused.letters[0].record
        at, end = TopicPartition(record.topic, record.partition), OffsetAndMetadata(record.offset + 1, refused.topic_id)
        logger.error(
            "a dead letter is lost, raise max.message.bytes of %s or see its other settings: "
            "topic=%s partition=%d offset=%d: %s",
            self._letters_of[at.topic], *at, record.offset, refused,
        )  # fmt: skip
        async with self._producer() as producer, _errors(self._kafka), _transaction(producer):
            await producer.send_offsets_to_transaction({at: end}, self._name)

    async def _letters(self, judged: Judged, find_unusable: FindUnusable) -> AsyncGenerator[list[Letter], None]:
        """Yield the letters of a range, in groups that fit one transaction."""
        if judged.topic in self._tables:
            found = self._records(judged, None)
        else:
            found = self._records(judged, find_unusable(judged))
        group: list[Letter] = []
        size = 0
        async with aclosing(found):
            async for letter in found:
                group.append(letter)
                size += len(letter.record.value or b"")
                if len(group) >= _LETTERS_AT_ONCE or size >= _BYTES_AT_ONCE:
                    yield group
                    group, size = [], 0
        if group:
            yield group

    async def _records(self, judged: Judged, reasons: Mapping[int, str] | None) -> AsyncGenerator[Letter, None]:
        """Yield the unusable records of a range.

        Args:
            judged: the range.
            reasons: which they are, and why; None to look at each, in a table.
        """
        at = TopicPartition(judged.topic, judged.partition)
        wanted = sorted(reasons, reverse=True) if reasons is not None else None
        position = judged.begin
        moved_at_s = time.monotonic()
        async with reading(self._kafka, request_timeout_ms=_REQUEST_TIMEOUT_MS) as consumer:
            consumer.assign([at])
            consumer.seek(at, position)
            while position < judged.end and not self._stopped():
                if wanted is not None:
                    while wanted and wanted[-1] < position:
                        wanted.pop()
                    if not wanted:
                        return
                    if wanted[-1] > position + _NEAR_OFFSETS:
                        consumer.seek(at, wanted[-1])
                records = await consumer.getmany(at, timeout_ms=_POLL_TIMEOUT_MS, max_records=_MAX_RECORDS)
                for record in records.get(at, ()):
                    reason = (
                        _table_reason(self._tables[at.topic], record) if reasons is None else reasons.get(record.offset)
                    )
                    if reason is not None and record.offset < judged.end:
                        yield Letter(record, reason)
                before = position
                # Also past offsets that hold no record.
                position = await consumer.position(at)
                if position != before:
                    moved_at_s = time.monotonic()
                elif time.monotonic() - moved_at_s > _REQUEST_TIMEOUT_MS / 1000:
                    raise BrokerUnavailable(f"{at.topic} cannot be read from offset {position} on")
                end = consumer.highwater(at)
                if end is not None and position >= end:
                    # The topic was created anew meanwhile: it may never come to where the range ends.
                    return

    async def _send(self, producer: AIOKafkaProducer, letter: Letter) -> asyncio.Future[Any]:
        """Send a letter; the future tells whether the topic took it."""
        topic = self._letters_of[letter.record.topic]
        key, value, headers = letter.record.key, letter.record.value, letter.headers()
        sent: asyncio.Future[Any]
        if key is None and value is None:
            # aiokafka's `send` refuses such a record, though Kafka has them.
            batch = producer.create_batch()
            batch.append(timestamp=None, key=None, value=None, headers=headers)
            sent = await producer.send_batch(batch, topic, partition=0)
        else:
            sent = await producer.send(topic, value, key=key, headers=headers)
        return sent

    @asynccontextmanager
    async def _producer(self) -> AsyncIterator[AIOKafkaProducer]:
        producer = AIOKafkaProducer(
            **self._kafka.for_aiokafka(),
            transactional_id=self._name,
            request_timeout_ms=_REQUEST_TIMEOUT_MS,
            transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS,
            max_request_size=_LARGEST_BYTES,
            compression_type="lz4",
        )
        try:
            async with kafka_errors(self._kafka):
                try:
                    # aiokafka asks for a coordinator for ever, also where there will be none.
                    async with asyncio.timeout(_REQUEST_TIMEOUT_MS / 1000):
                        await producer.start()
                except TimeoutError as error:
                    what = "begins no transaction, see its transaction.state.log settings"
                    raise await unavailable(self._kafka, error, what) from error
            yield producer
        finally:
            await stop_client(producer.stop())


@asynccontextmanager
async def _transaction(producer: AIOKafkaProducer) -> AsyncIterator[None]:
    """Commit what the block sends. What it fails with leaves the transaction to the next producer, which aborts it."""
    async with asyncio.timeout(_TRANSACTION_TIMEOUT_MS / 1000):
        await producer.begin_transaction()
        try:
            yield
        except _REFUSALS:
            await producer.abort_transaction()
            raise
        await producer.commit_transaction()


@asynccontextmanager
async def _errors(kafka: KafkaConnection) -> AsyncIterator[None]:
    async with kafka_errors(kafka):
        try:
            yield
        except ProducerFenced as error:
            raise BrokerUnavailable("another instance has begun to write them") from error


def _dealt_with(judged: Judged) -> Judged:
    return replace(judged, begin=judged.end, unusable=False, unreadable=False)


def _is_there(at: TopicPartition, topic_id: str, described: Mapping[str, TopicDescription]) -> bool:
    topic = described.get(at.topic)
    return topic is not None and topic.topic_id == topic_id and at.partition < topic.partitions


def _table_reason(table: Table, record: ConsumerRecord[bytes, bytes]) -> str | None:
    try:
        parse_row(table, record.key, record.value)
    except InvalidRecord as error:
        return error.reason
    return None

"""Records as some producers make them and aiokafka's does not: any time, any bytes in a header's name, any codec."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import cramjam
from aiokafka import TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import NoError, NotLeaderForPartitionError, for_code
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.util import calc_crc32c, encode_varint

from runtime.kafka.connection import KafkaConnection

ZSTD: Final = 4
_CODECS: Final[Mapping[int, Callable[[bytes], Any]]] = {0: bytes, ZSTD: cramjam.zstd.compress}
_MAGIC: Final = 2
_TIMEOUT_MS: Final = 60_000


@dataclass(frozen=True)
class RawRecord:
    """One record.

    Attributes:
        value: as it is.
        timestamp: whatever the producer takes for milliseconds.
        key: as it is.
        headers: names and values.
    """

    value: bytes | None
    timestamp: int
    key: bytes | None = None
    headers: Sequence[tuple[bytes, bytes | None]] = ()

    def encoded(self, first_timestamp: int, number: int) -> bytes:
        """Return its bytes in a batch.

        Args:
            first_timestamp: of the batch.
            number: of the record in it.
        """
        body = b"\x00" + _varint(self.timestamp - first_timestamp) + _varint(number)
        body += _bytes(self.key) + _bytes(self.value) + _varint(len(self.headers))
        body += b"".join(_bytes(name) + _bytes(value) for name, value in self.headers)
        return _varint(len(body)) + body


def batch(records: Sequence[RawRecord], codec: int = 0) -> bytes:
    """Return records as one batch."""
    first = records[0].timestamp
    payload = b"".join(record.encoded(first, number) for number, record in enumerate(records))
    latest = max(record.timestamp for record in records)
    head = struct.pack(">hiqqqhii", codec, len(records) - 1, first, latest, -1, -1, -1, len(records))
    body = head + bytes(_CODECS[codec](payload))
    return struct.pack(">qiibI", 0, len(body) + 9, -1, _MAGIC, calc_crc32c(body)) + body


def send_raw(
    kafka: KafkaConnection, topic: str, partition: int, records: Sequence[RawRecord], *, codec: int = 0
) -> None:
    """Send records in one batch, and return when the broker has it."""
    asyncio.run(_send(kafka, TopicPartition(topic, partition), batch(records, codec)))


async def _send(kafka: KafkaConnection, at: TopicPartition, data: bytes) -> None:
    client = AIOKafkaClient(**kafka.for_aiokafka(), request_timeout_ms=_TIMEOUT_MS)
    await client.bootstrap()
    try:
        await client.set_topics([at.topic])
        request = ProduceRequest(
            transactional_id=None,
            required_acks=-1,
            timeout=_TIMEOUT_MS,
            topics=[(at.topic, [(at.partition, data)])],
        )
        async with asyncio.timeout(_TIMEOUT_MS / 1000):
            while (error := await _answer(client, at, request)) is NotLeaderForPartitionError:
                # A topic that was created just now.
                await client.force_metadata_update()
    finally:
        await client.close()
    assert error is NoError, error


async def _answer(client: AIOKafkaClient, at: TopicPartition, request: ProduceRequest) -> type[BaseException]:
    response = await client.send(client.cluster.leader_for_partition(at), request)
    ((_, ((_, code, *_),)),) = response.topics
    found: type[BaseException] = for_code(code)
    return found


def _varint(number: int) -> bytes:
    out = bytearray()
    encode_varint(number, out.append)
    return bytes(out)


def _bytes(part: bytes | None) -> bytes:
    return _varint(-1) if part is None else _varint(len(part)) + part

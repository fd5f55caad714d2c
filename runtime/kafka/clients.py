"""How clients of aiokafka are started and stopped; here is also what all of them need."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

from aiokafka import AIOKafkaConsumer

from runtime.kafka.any_records import read_any_header_names
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.errors import kafka_errors

_STOP_WITHIN_S: Final = 1.0

read_any_header_names()


async def stop_client(stop: Coroutine[Any, Any, None]) -> None:
    """Stop a client, whatever its brokers do, and whatever comes of it.

    Args:
        stop: its `stop` or `close`, called.

    aiokafka's stop can let the cancellation of its own tasks out, as if the caller's was cancelled. It waits for ever
    for a coordinator that a producer looks for. And over TLS uvloop waits half a minute for the end of a connection
    that an answer still reached.
    """
    stopping = asyncio.create_task(stop)
    await asyncio.wait([stopping], timeout=_STOP_WITHIN_S)
    stopping.cancel()
    await asyncio.gather(stopping, return_exceptions=True)


@asynccontextmanager
async def reading(
    kafka: KafkaConnection, *, auto_offset_reset: str = "earliest", **options: Any
) -> AsyncIterator[AIOKafkaConsumer]:
    """Open a consumer that is in no group and reads what is committed.

    Args:
        kafka: how to connect.
        auto_offset_reset: where to go on when an offset is gone: by default, what retention has taken is passed over.
        options: others of aiokafka's.

    Raises:
        BrokerUnavailable: Kafka cannot be reached.
    """
    consumer = AIOKafkaConsumer(
        **kafka.for_aiokafka(),
        group_id=None,
        enable_auto_commit=False,
        isolation_level="read_committed",
        auto_offset_reset=auto_offset_reset,
        **options,
    )
    try:
        async with kafka_errors(kafka):
            await consumer.start()
        yield consumer
    finally:
        await stop_client(consumer.stop())

"""How clients of aiokafka are stopped; whoever starts one gets here, so here is also what all of them need."""

from __future__ import annotations

import asyncio
from typing import Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from runtime.kafka.any_records import read_any_header_names

_STOP_WITHIN_S: Final = 1.0

read_any_header_names()


async def stop_client(client: AIOKafkaConsumer | AIOKafkaProducer) -> None:
    """Stop a client, whatever its brokers do, and whatever comes of it.

    aiokafka's stop can let the cancellation of its own tasks out, as if the caller's was cancelled. It waits for ever
    for a coordinator that a producer looks for. And over TLS uvloop waits half a minute for the end of a connection
    that an answer still reached.
    """
    stopping = asyncio.create_task(client.stop())
    await asyncio.wait([stopping], timeout=_STOP_WITHIN_S)
    stopping.cancel()
    await asyncio.gather(stopping, return_exceptions=True)

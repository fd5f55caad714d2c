"""How Spark's Kafka source and sink connect, and how long their clients wait: no longer than those of Python here.

Kafka's own defaults let a server that takes a connection and says nothing hold up everything for half a minute each
time it is asked, three times in a row, before another of the list is tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from runtime.kafka.connection import KafkaConnection
from runtime.records import LARGEST_BYTES

_REQUEST_MS: Final = 10_000
"""For one request to one server; then its connection is given up and another server is asked."""

_CONNECT_MS: Final = {"socket.connection.setup.timeout.ms": "5000", "socket.connection.setup.timeout.max.ms": "10000"}
"""For a connection that nobody refuses and nobody takes."""

_DELIVERY_MS: Final = 30_000
_POLL_MS: Final = 30_000
_BATCH_BYTES: Final = 128 * 1024
"""Of the results of a backlog that go together; no result waits until there are as many."""
_OFFSET_TRIES: Final = 2
"""Of Spark's own, around what the client has tried."""


def read_options(kafka: KafkaConnection) -> dict[str, str]:
    """Return the options of Spark's source, but for what is read."""
    own = {"kafkaConsumer.pollTimeoutMs": str(_POLL_MS), "fetchOffset.numRetries": str(_OFFSET_TRIES)}
    # Kafka's admin client gives up a call to a server that says nothing, but seldom the connection, and then asks the
    # same server again: its limits for the two end in the same millisecond.
    idle = {"connections.max.idle.ms": str(_REQUEST_MS)}
    return _prefixed(_client(kafka) | idle) | own


def write_options(kafka: KafkaConnection, linger_ms: int = 0) -> dict[str, str]:
    """Return the options of Spark's sink, but for where it writes.

    Args:
        kafka: where the brokers are.
        linger_ms: how long a record may wait for others that go with it, in milliseconds.
    """
    limits = {
        "max.block.ms": str(_all_servers_ms(kafka)),
        "delivery.timeout.ms": str(_DELIVERY_MS),
        "linger.ms": str(linger_ms),
        "batch.size": str(_BATCH_BYTES),
        "max.request.size": str(LARGEST_BYTES),
    }
    return _prefixed(_client(kafka) | limits)


def _client(kafka: KafkaConnection) -> dict[str, str]:
    return {
        **kafka.for_java(),
        **_CONNECT_MS,
        "request.timeout.ms": str(_REQUEST_MS),
        "default.api.timeout.ms": str(_all_servers_ms(kafka)),
        # Those of the list are asked again when none is left of the brokers that they told of.
        "metadata.recovery.strategy": "rebootstrap",
    }


def _all_servers_ms(kafka: KafkaConnection) -> int:
    """Return how long a call may take: each server of the list may be silent, and the last one needs its time, too."""
    servers = kafka.bootstrap_servers.count(",") + 1
    return _REQUEST_MS * (servers + 1)


def _prefixed(settings: Mapping[str, str]) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in settings.items()}

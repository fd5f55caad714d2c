"""Topic ids: what tells a topic from another of the same name that was created after it was deleted.

Kafka's Metadata request has them from version 10 on, aiokafka's own stops at 5; here is version 12 in aiokafka's terms.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from io import BytesIO
from typing import Any, Final, NamedTuple, Self

from aiokafka import TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError, for_code
from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.admin import DescribeConfigsRequest
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Schema, TaggedFields

from runtime.errors import BrokerUnavailable
from runtime.kafka.clients import stop_client
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.errors import kafka_errors

_REQUEST_TIMEOUT_MS: Final = 5_000
_TOPIC_RESOURCE: Final = 2
_NOBODY: Final = -1


class TopicDescription(NamedTuple):
    """A topic as it exists.

    Attributes:
        topic_id: a UUID in its canonical form.
        partitions: how many it has.
    """

    topic_id: str
    partitions: int


async def topic_ids(kafka: KafkaConnection, names: Iterable[str]) -> dict[str, TopicDescription]:
    """Return the topics of these names that exist.

    Args:
        kafka: how to connect.
        names: which topics; those that do not exist are absent from the answer.

    Raises:
        BrokerUnavailable: Kafka cannot be reached or did not answer in time.
    """
    async with TopicCatalog(kafka) as catalog:
        return await catalog.describe(names)


class TopicCatalog:
    """Asks a broker about topics; an async context manager.

    Args:
        kafka: how to connect.

    Attributes:
        leaderless: the partitions without a leader, of the topics that were described last.

    Raises:
        BrokerUnavailable: from every method, and on entering: Kafka cannot be reached or did not answer in time.
    """

    def __init__(self, kafka: KafkaConnection) -> None:
        self.leaderless: frozenset[TopicPartition] = frozenset()
        self._kafka = kafka
        self._client = AIOKafkaClient(**kafka.for_aiokafka(), request_timeout_ms=_REQUEST_TIMEOUT_MS)

    async def __aenter__(self) -> Self:
        try:
            async with kafka_errors(self._kafka):
                await self._client.bootstrap()
        except BrokerUnavailable:
            await stop_client(self._client.close())
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await stop_client(self._client.close())

    async def describe(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        """Return the topics of these names that exist."""
        response = await self._send(_MetadataRequest(list(names)))
        found: dict[str, TopicDescription] = {}
        leaderless: set[TopicPartition] = set()
        for error_code, name, topic_id, _, partitions, *_ in response.topics:
            error = for_code(error_code)
            if error is UnknownTopicOrPartitionError:
                continue
            if error_code:
                raise BrokerUnavailable(f"Kafka cannot describe topic {name}: {error.__name__}")
            found[name] = TopicDescription(str(topic_id), len(partitions))
            leaderless |= {TopicPartition(name, number) for _, number, leader, *_ in partitions if leader == _NOBODY}
        self.leaderless = frozenset(leaderless)
        return found

    async def setting(self, topic: str, name: str) -> str | None:
        """Return the value of a topic's setting, its own or the broker's; None when Kafka does not tell."""
        return (await self.settings([topic], [name])).get(topic, {}).get(name)

    async def settings(self, topics: Iterable[str], names: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return those of some settings that Kafka tells, of each of some topics; see `setting`."""
        response = await self._send(DescribeConfigsRequest([(_TOPIC_RESOURCE, topic, list(names)) for topic in topics]))
        return {
            topic: {name: value for name, value, *_ in entries if value is not None}
            for _, _, _, topic, entries in response.resources
        }

    async def _send(self, request: Request[Any]) -> Any:
        """Ask a broker, and each of the others once while none answers: one that is gone stays known for a while."""
        async with kafka_errors(self._kafka):
            first = self._client.get_random_node()
            if first is None:
                raise BrokerUnavailable(f"Kafka at {self._kafka} names no broker")
            others = {broker.nodeId for broker in self._client.cluster.brokers()} - {first}
            *nodes, last = (first, *others)
            try:
                for node in nodes:
                    with suppress(KafkaError):
                        return await self._client.send(node, request)
                return await self._client.send(last, request)
            except NotImplementedError as error:  # as aiokafka says that a broker knows no version of a request
                raise BrokerUnavailable(f"Kafka at {self._kafka} is too old: it has to be 3.1 or later") from error


class _Uuid(AbstractType[uuid.UUID]):  # type: ignore[misc]  # aiokafka has no types
    @classmethod
    def encode(cls, value: uuid.UUID) -> bytes:
        return value.bytes

    @classmethod
    def decode(cls, data: BytesIO) -> uuid.UUID:
        return uuid.UUID(bytes=data.read(16))


class _MetadataResponse_v12(Response):  # type: ignore[misc]  # noqa: N801  # aiokafka's way to name them
    API_KEY = 3
    API_VERSION = 12
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("rack", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", CompactString("utf-8")),
                ("topic_id", _Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("topic_authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _MetadataRequest_v12(RequestStruct):  # type: ignore[misc]  # noqa: N801
    FLEXIBLE_VERSION = True
    API_KEY = 3
    API_VERSION = 12
    RESPONSE_TYPE = _MetadataResponse_v12
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(("topic_id", _Uuid), ("name", CompactString("utf-8")), ("tags", TaggedFields)),
        ),
        ("allow_auto_topic_creation", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class _MetadataRequest(Request[_MetadataRequest_v12]):  # type: ignore[misc]
    API_KEY = 3

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def build(self, request_struct_class: type[_MetadataRequest_v12]) -> _MetadataRequest_v12:
        topics: list[tuple[uuid.UUID, str, dict[int, bytes]]] = [(uuid.UUID(int=0), name, {}) for name in self._names]
        return request_struct_class(topics, False, False, {})

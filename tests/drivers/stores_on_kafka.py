"""The stores of one instance on a real broker: topics of its own, a producer, a materializer, queries."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from runtime.serving.queries import Queries
from topology.leaderboard.records import Board

from runtime.copies.fill_session import FillOptions
from runtime.copies.materializer import FilledFrom, Materializer, Republish
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.ids import topic_ids
from runtime.kafka.partitioner import partition_for
from runtime.kafka.topics import TopicSpec, create_missing
from runtime.serving.rendered_view import RenderedView
from runtime.stores.directory import StateDirectory
from runtime.stores.protocol import Stores
from tests.drivers.eventually import eventually
from tests.drivers.stores import names_and_scores

QUICK = FillOptions(upkeep_every_s=0.1, retry_after_s=0.1, lacking_for_s=0.2)


class StoreTopics:
    """The three topics that fill the stores, of one test alone, and a producer for them.

    Args:
        kafka: how to connect.
        partitions: of each topic.
    """

    def __init__(self, kafka: KafkaConnection, partitions: int = 4) -> None:
        prefix = f"stores-{uuid.uuid4()}-"
        self.names = FilledFrom(f"{prefix}high-scores", f"{prefix}players", f"{prefix}products")
        self.kafka = kafka
        self.partitions = partitions
        self._producer: AIOKafkaProducer | None = None

    async def create(self, *names: str) -> None:
        """Create these topics, or all."""
        compacted = {"cleanup.policy": "compact,delete"}  # "delete" allows to truncate
        wanted = names or (self.names.high_scores, self.names.players, self.names.products)
        specs = [TopicSpec(name, self.partitions, compacted) for name in wanted]
        await create_missing(self.kafka, specs)

    async def delete(self, name: str) -> None:
        """Delete a topic and return when it is gone."""
        async with administration(self.kafka) as admin:
            await admin.delete_topics([name])

        async def gone() -> bool:
            return await topic_ids(self.kafka, [name]) == {}

        await eventually(gone)
        # A producer would go on with the offsets and the metadata of the old topic.
        await self.close()

    async def name(self, topic: str, names: dict[int, str | None]) -> None:
        """Create, rename or delete (None) rows of a table."""
        for row_id, name in names.items():
            value = None if name is None else json.dumps({"id": row_id, "name": name}).encode()
            await self.send(topic, str(row_id).encode(), value, partition_for(row_id, self.partitions))

    async def board(self, product_id: int, board: Board | None) -> None:
        """Publish a board, or a delete."""
        value = None if board is None else board.to_json()
        key = str(product_id).encode()
        await self.send(self.names.high_scores, key, value, partition_for(product_id, self.partitions))

    async def send(self, topic: str, key: bytes | None, value: bytes | None, partition: int) -> None:
        """Publish anything, and return when the broker has it."""
        if self._producer is None:
            self._producer = AIOKafkaProducer(**self.kafka.for_aiokafka())
            await self._producer.start()
        await self._producer.send_and_wait(topic, value, key, partition)

    async def close(self) -> None:
        """Close the producer; the next record opens another."""
        if self._producer is not None:
            await self._producer.stop()
            self._producer = None


class StoresOnKafka:
    """The stores of a started instance.

    Attributes:
        materializer: fills the stores.
        stores: what is filled.
        view: follows the materializer.
        queries: asks the view.
    """

    def __init__(
        self, topics: StoreTopics, stores: Stores, republish: Republish | None, options: FillOptions, places: int
    ) -> None:
        self.stores = stores
        self.view = RenderedView(
            self.stores.opened("leader-boards"), self.stores.opened("players"), self.stores.opened("products")
        )
        self.materializer = Materializer(
            topics.kafka,
            self.stores,
            self.view,
            places=places,
            republish=republish,
            topics=topics.names,
            options=options,
        )
        self.queries = Queries(self.view, self.materializer)

    @property
    def caught_up(self) -> bool:
        """Whether every partition that it holds is."""
        held = self.materializer.held
        return bool(held) and all(status.caught_up for status in held.values())

    def get(self, product_id: int, limit: int = 3) -> list[tuple[str, float]] | None:
        """Return a board as names and scores, or None when there is none to show."""
        rendered = self.queries.get(product_id, limit)
        return None if rendered is None else names_and_scores(json.loads(rendered.body))


@asynccontextmanager
async def running(
    topics: StoreTopics,
    where: Path | Stores,
    partitions: range | None = None,
    republish: Republish | None = None,
    options: FillOptions = QUICK,
    places: int = 20,
) -> AsyncIterator[StoresOnKafka]:
    """Run the stores of an instance that holds all partitions, or these; in a state directory, or in given stores."""
    stores = StateDirectory(where, "app") if isinstance(where, Path) else where
    instance = StoresOnKafka(topics, stores, republish, options, places)
    await instance.materializer.start()
    instance.materializer.assign(range(topics.partitions) if partitions is None else partitions)
    try:
        yield instance
    finally:
        await instance.materializer.stop()
        instance.stores.close()


@asynccontextmanager
async def administration(kafka: KafkaConnection) -> AsyncIterator[AIOKafkaAdminClient]:
    """Open an administration client."""
    admin = AIOKafkaAdminClient(**kafka.for_aiokafka())
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()

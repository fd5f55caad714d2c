"""The stores of one instance on a real broker: topics of its own, a producer, a materializer, a view."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from runtime.copies.copies import Copies, names_of
from runtime.copies.fill_session import FillOptions
from runtime.copies.materializer import Materializer
from runtime.copies.republisher import Publish, Republisher
from runtime.copies.result_copy import ResultRecord
from runtime.declaration import Topology
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.ids import topic_ids
from runtime.kafka.partitioner import partition_for
from runtime.kafka.topics import TopicSpec, create_missing
from runtime.results import Result
from runtime.serving.rendered_view import RenderedView
from runtime.serving.views import views_of
from runtime.stores.directory import StateDirectory
from runtime.stores.memory import MemoryStores
from runtime.stores.protocol import StateStores
from tests.drivers.eventually import eventually
from tests.drivers.readings import PEAKS, SENSORS, STATIONS, names_and_levels, readings
from tests.drivers.stores import value_of

QUICK = FillOptions(upkeep_every_s=0.1, retry_after_s=0.1)
_LACKING_FOR_S = 0.2


class StoreTopics:
    """The three topics that fill the stores, of one test alone, and a producer for them.

    Args:
        kafka: how to connect.
        partitions: of each topic.

    Attributes:
        peaks: the topic of the results.
        sensors: the topic of a table, as is `stations`.
        stations: see `sensors`.
    """

    def __init__(self, kafka: KafkaConnection, partitions: int = 4) -> None:
        self._prefix = f"stores-{uuid.uuid4()}-"
        self.peaks = self.topology().store(PEAKS).topic
        self.sensors, self.stations = (f"{self._prefix}{table}" for table in (SENSORS, STATIONS))
        self.kafka = kafka
        self.partitions = partitions
        self._producer: AIOKafkaProducer | None = None

    def topology(self, kept: int = 20) -> Topology:
        """Return the topology on these topics."""
        return readings(kept, self._prefix)

    def stores(self) -> MemoryStores:
        """Return stores in memory for it."""
        return MemoryStores(names_of(self.topology()))

    async def create(self, *names: str) -> None:
        """Create these topics, or all."""
        compacted = {"cleanup.policy": "compact,delete"}  # "delete" allows to truncate
        wanted = names or (self.peaks, self.sensors, self.stations)
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

    async def name(self, topic: str, names: Mapping[int, str | None]) -> None:
        """Create, rename or delete (None) rows of a table."""
        for row_id, name in names.items():
            value = None if name is None else json.dumps({"id": row_id, "name": name}).encode()
            await self.send(topic, str(row_id).encode(), value, partition_for(row_id, self.partitions))

    async def station(self, station_id: int, result: Result | None) -> None:
        """Publish the readings of a station, or a delete."""
        if result is None:
            home = partition_for(station_id, self.partitions)
            await self.send(self.peaks, str(station_id).encode(), None, home)
        else:
            await self.publish([self.record(station_id, result)])

    def record(self, station_id: int, result: Result) -> ResultRecord:
        """Return the record of a result, for the partition where it belongs."""
        home = partition_for(station_id, self.partitions)
        return ResultRecord(self.peaks, home, str(station_id).encode(), value_of(result), result.made.to_headers())

    async def publish(self, records: Sequence[ResultRecord]) -> int:
        """Publish results of one topic partition; return the offset of the last."""
        *_, last = [await self.send(each.topic, each.key, each.value, each.partition, each.headers) for each in records]
        return last

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int,
        headers: Sequence[tuple[str, bytes]] = (),
        timestamp_ms: int | None = None,
    ) -> int:
        """Publish anything, and return its offset when the broker has it."""
        if self._producer is None:
            self._producer = AIOKafkaProducer(**self.kafka.for_aiokafka())
            await self._producer.start()
        sent = await self._producer.send_and_wait(topic, value, key, partition, timestamp_ms, headers)
        return int(sent.offset)

    async def close(self) -> None:
        """Close the producer; the next record opens another."""
        if self._producer is not None:
            await self._producer.stop()
            self._producer = None


class StoresOnKafka:
    """The stores of a started instance.

    Attributes:
        copies: what is held.
        materializer: fills the copies.
        stores: what is filled.
        view: follows the copies.
    """

    def __init__(
        self,
        kafka: KafkaConnection,
        topology: Topology,
        stores: StateStores,
        publish: Publish | None,
        options: FillOptions,
    ) -> None:
        self.stores = stores
        self.copies = Copies(topology, stores)
        view = views_of(self.copies)[PEAKS]
        assert isinstance(view, RenderedView)
        self.view = view
        self._republisher = None if publish is None else Republisher(self.copies, publish, _LACKING_FOR_S)
        self.materializer = Materializer(kafka, self.copies, self._republisher, options)

    def publish_for(self, partitions: Iterable[int]) -> None:
        """Have what the topics lack of these partitions published again."""
        assert self._republisher is not None, "it was given no way to publish"
        self._republisher.set_partitions(partitions)

    @property
    def caught_up(self) -> bool:
        """Whether every partition that it holds is."""
        held = self.copies.held
        return bool(held) and all(status.caught_up for status in held.values())

    def get(self, station_id: int, limit: int = 3) -> list[tuple[str, float]] | None:
        """Return a row as names and levels, or None when there is none to show."""
        rendered = self.view.get(station_id, limit)
        return None if rendered is None else names_and_levels(json.loads(rendered.body))


@asynccontextmanager
async def running(
    topics: StoreTopics,
    where: Path | StateStores,
    partitions: range | None = None,
    publish: Publish | None = None,
    options: FillOptions = QUICK,
    kept: int = 20,
) -> AsyncIterator[StoresOnKafka]:
    """Run the stores of an instance that holds all partitions, or these; in a state directory, or in given stores."""
    topology = topics.topology(kept)
    stores = StateDirectory(where, "app", names_of(topology)) if isinstance(where, Path) else where
    instance = StoresOnKafka(topics.kafka, topology, stores, publish, options)
    await instance.materializer.start()
    instance.copies.assign(range(topics.partitions) if partitions is None else partitions)
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

"""The materializer against a real broker: restore, tail, faults."""

import asyncio
import gc
import itertools
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import NewPartitions, RecordsToDelete
from aiokafka.errors import KafkaTimeoutError

from app.java.broker import Broker
from runtime.copies.copies import Copies, names_of
from runtime.copies.producer import ResultProducer
from runtime.copies.result_copy import ResultRecord
from runtime.errors import BrokerUnavailable, StateUnusable
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.ids import TopicDescription
from runtime.kafka.partitioner import partition_for
from runtime.records import NOT_AN_ID
from runtime.results import Made, Result
from runtime.serving.view import Range
from runtime.stores.memory import MemoryStores
from runtime.stores.protocol import NO_ENTRIES, Fill, StateStore
from tests.drivers.eventually import eventually, measured
from tests.drivers.ports import free_port
from tests.drivers.readings import PEAKS, names_and_levels, result
from tests.drivers.stores import value_of
from tests.drivers.stores_on_kafka import QUICK, StoresOnKafka, StoreTopics, administration, running
from tests.drivers.topic_reader import all_records
from tests.waiting import UNHURRIED_S

logger = logging.getLogger(__name__)

ROW = result((3, 4000), (2, 2000))
SHOWN = [("Isar", 4000.0), ("Main", 2000.0)]


@asynccontextmanager
async def result_producer(topics: StoreTopics) -> AsyncIterator[ResultProducer]:
    """The service's own producer of results."""
    producer = ResultProducer(topics.kafka)
    try:
        yield producer
    finally:
        await producer.close()


@pytest.fixture
async def topics(broker: Broker) -> AsyncIterator[StoreTopics]:
    topics = StoreTopics(broker.connection)
    await topics.create()
    await topics.name(topics.sensors, {1: "Elbe", 2: "Main", 3: "Isar"})
    await topics.name(topics.stations, {1: "Ulm", 6: "Linz"})
    await topics.station(1, ROW)
    yield topics
    await topics.close()


async def test_it_restores_and_follows(topics: StoreTopics, tmp_path: Path) -> None:
    async with running(topics, tmp_path) as instance:
        await eventually(lambda: instance.caught_up)
        assert instance.get(1) == SHOWN
        assert instance.copies.tables_caught_up
        assert instance.copies.tables[topics.sensors].changes().added == 3
        await topics.name(topics.sensors, {3: "Iller"})
        await eventually(lambda: instance.get(1) == [("Iller", 4000.0), ("Main", 2000.0)])
        await topics.station(1, result((1, 9000), generation=2))
        await eventually(lambda: instance.get(1) == [("Elbe", 9000.0)])
        await topics.station(1, None)
        await eventually(lambda: instance.get(1) is None)


async def test_a_record_is_served_within_milliseconds(topics: StoreTopics, tmp_path: Path) -> None:
    async with running(topics, tmp_path) as instance:
        await eventually(lambda: instance.caught_up)
        levels = itertools.count(5000)

        async def median_ms() -> float:
            delays_ms = []
            for level in itertools.islice(levels, 50):
                await topics.station(1, result((3, level), generation=level))
                sent_s = time.perf_counter()
                while instance.get(1) != [("Isar", float(level))]:
                    await asyncio.sleep(0)
                delays_ms.append((time.perf_counter() - sent_s) * 1000)
            logger.info("after the acknowledgement: p50 %.2f ms, worst %.2f ms", sorted(delays_ms)[25], max(delays_ms))
            return sorted(delays_ms)[25]

        assert await measured(median_ms, below=10, times=10) < 10


async def test_a_restart_answers_at_once_and_goes_on_from_its_position(
    topics: StoreTopics, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(topics, tmp_path) as instance:
        await eventually(lambda: instance.caught_up)
    await topics.station(6, result((2, 9000)))
    caplog.clear()
    async with running(topics, tmp_path) as instance:
        home = partition_for(1, 4)
        assert instance.view.status(home).can_answer, "before Kafka was asked"
        assert not instance.copies.held[home].lag_is_known, "so nobody takes it for caught up"
        assert instance.get(1) == SHOWN
        await eventually(lambda: instance.caught_up)
        assert instance.copies.held[home].lag_is_known
        assert instance.get(6) == [("Main", 9000.0)]
        assert "filling store" not in caplog.text


async def test_a_restart_has_not_caught_up_before_it_has_read_the_tables(topics: StoreTopics, tmp_path: Path) -> None:
    async with running(topics, tmp_path) as instance:
        await eventually(lambda: instance.caught_up)
    home, of_isar = partition_for(1, 4), partition_for(3, 4)
    async with AIOKafkaProducer(**topics.kafka.for_aiokafka()) as producer:
        for sensor_id in range(1_000, 21_000):
            row = f'{{"id":{sensor_id},"name":"Naab"}}'.encode()
            await producer.send(topics.sensors, row, str(sensor_id).encode(), of_isar)
        await producer.flush()
    await topics.name(topics.sensors, {3: "Iller"})
    async with running(topics, tmp_path) as instance:
        assert instance.view.status(home).can_answer
        await eventually(lambda: instance.copies.held[home].lag_is_known)
        assert instance.get(1) == [("Iller", 4000.0), ("Main", 2000.0)]


async def test_a_wiped_directory_is_restored(topics: StoreTopics, tmp_path: Path) -> None:
    for attempt in ("one", "two"):
        async with running(topics, tmp_path / attempt) as instance:
            assert not instance.view.status(partition_for(1, 4)).can_answer
            await eventually(lambda: instance.caught_up)
            assert instance.get(1) == SHOWN


async def test_partitions_come_and_go(topics: StoreTopics, tmp_path: Path) -> None:
    home, other = partition_for(1, 4), (partition_for(1, 4) + 1) % 4
    async with running(topics, tmp_path, range(home, home + 1)) as instance:
        await eventually(lambda: instance.caught_up)
        assert set(instance.copies.held) == {home}
        assert "no copy" in instance.view.status(other).reason
        instance.copies.assign([other])
        await eventually(lambda: instance.view.status(other).can_answer)
        # Not wanted any more, and filled until it is dropped.
        instance.copies.assign([other])
        await topics.station(1, result((1, 1), generation=2))
        await eventually(lambda: instance.get(1) == [("Elbe", 1.0)])
        instance.copies.drop(home)
        assert instance.get(1) is None
        assert not instance.view.status(home).can_answer
        await topics.station(1, result((1, 2), generation=2))
        instance.copies.assign([home])
        await eventually(lambda: instance.get(1) == [("Elbe", 2.0), ("Elbe", 1.0)])


async def test_a_missing_topic_is_named_and_waited_for(broker: Broker, tmp_path: Path) -> None:
    topics = StoreTopics(broker.connection)
    await topics.create(topics.peaks, topics.stations)
    async with running(topics, tmp_path, range(5)) as instance:
        await eventually(lambda: topics.sensors in instance.view.status(0).reason)
        assert not instance.view.status(0).can_answer
        await topics.create(topics.sensors)
        await eventually(lambda: instance.caught_up)
        assert instance.view.status(4).reason == f"topic {topics.peaks} has no partition 4"


async def test_results_that_their_topic_has_lost_are_published_on_it_again(topics: StoreTopics, tmp_path: Path) -> None:
    async with running(topics, tmp_path / "old", range(5), publish=topics.publish) as instance:
        await eventually(lambda: instance.caught_up)
        instance.publish_for(range(4))
        await topics.delete(topics.peaks)
        missing = f"missing topics: {topics.peaks}"
        await eventually(lambda: instance.view.status(4).reason == missing)
        await topics.create()
        await topics.station(6, result((2, 9000)))
        await eventually(lambda: instance.caught_up and instance.get(6) == [("Main", 9000.0)])
        assert instance.get(1) == SHOWN
        async with running(topics, tmp_path / "new") as restored:
            await eventually(lambda: restored.caught_up and restored.get(1) == SHOWN)
            assert restored.get(6) == [("Main", 9000.0)]


async def test_a_table_that_is_created_again_is_read_anew(topics: StoreTopics, tmp_path: Path) -> None:
    async with running(topics, tmp_path) as instance:
        await eventually(lambda: instance.caught_up)
        await instance.view.warm_up()
        await topics.delete(topics.sensors)
        await topics.create()
        await topics.name(topics.sensors, {2: "Mosel"})
        await eventually(lambda: instance.caught_up and instance.get(1) == [("Mosel", 2000.0)])


async def test_results_of_a_topic_created_again_while_away_give_way_to_its_own(
    topics: StoreTopics, tmp_path: Path
) -> None:
    async with running(topics, tmp_path) as instance:
        await eventually(lambda: instance.caught_up)
    await topics.delete(topics.peaks)
    await topics.create()
    await topics.station(1, result((2, 5), generation=9))
    async with running(topics, tmp_path) as instance:
        await eventually(lambda: instance.caught_up and instance.get(1) == [("Main", 5.0)])


async def test_a_truncated_topic_is_read_anew(topics: StoreTopics, tmp_path: Path) -> None:
    async with running(topics, tmp_path) as instance:
        await eventually(lambda: instance.caught_up)
    home = partition_for(1, 4)
    for level in range(10):
        await topics.station(1, result((2, level), generation=2))
    async with administration(topics.kafka) as admin:
        await admin.delete_records({TopicPartition(topics.peaks, home): RecordsToDelete(before_offset=10)})
    async with running(topics, tmp_path) as instance:
        await eventually(lambda: instance.caught_up)
        assert instance.get(1) == [("Main", 9.0)]


async def test_rows_that_their_topic_has_lost_are_gone_at_every_instance(
    topics: StoreTopics, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = partition_for(3, 4)
    lost = [sensor for sensor in (1, 2, 3) if partition_for(sensor, 4) == home]
    shown = [entry for entry in SHOWN if entry[0] != "Isar" and not (entry[0] == "Main" and 2 in lost)] or None

    def shows(instance: StoresOnKafka) -> bool:
        return instance.caught_up and instance.get(1) == shown

    async with running(topics, tmp_path / "running") as one:
        await eventually(lambda: one.caught_up)
        async with running(topics, tmp_path / "stopped"):
            await eventually(lambda: one.caught_up)
        async with administration(topics.kafka) as admin:
            await admin.delete_records({TopicPartition(topics.sensors, home): RecordsToDelete(before_offset=-1)})
        await eventually(lambda: one.get(1) == shown)
        said = f"before offset {len(lost)} of partition {home}: {len(lost)} rows are gone"
        await eventually(lambda: said in caplog.text)
        for directory in ("stopped", "new"):
            async with running(topics, tmp_path / directory) as other:
                await eventually(partial(shows, other))
        assert one.copies.tables[topics.sensors].changes().deleted == len(lost)
        await topics.name(topics.sensors, {3: "Isar"})
        await eventually(lambda: ("Isar", 4000.0) in (one.get(1) or []))


async def test_results_whose_records_kafka_has_deleted_are_published_again(topics: StoreTopics, tmp_path: Path) -> None:
    home = partition_for(1, 4)
    async with running(topics, tmp_path / "one", publish=topics.publish) as one:
        one.publish_for(range(4))
        await eventually(lambda: one.caught_up)
        async with administration(topics.kafka) as admin:
            await admin.delete_records({TopicPartition(topics.peaks, home): RecordsToDelete(before_offset=1)})
        async with running(topics, tmp_path / "new") as other:
            await eventually(lambda: other.get(1) == SHOWN)
            assert one.get(1) == SHOWN


async def test_a_table_that_gets_partitions_goes_on_answering(topics: StoreTopics, tmp_path: Path) -> None:
    async with running(topics, tmp_path) as instance:
        await eventually(lambda: instance.caught_up)
        async with administration(topics.kafka) as admin:
            await admin.create_partitions({topics.sensors: NewPartitions(6)})
        await eventually(lambda: len(instance.stores.opened(topics.sensors)) == 6)
        answered = []

        async def rename_is_seen() -> bool:
            answered.append(instance.view.status(partition_for(1, 4)).can_answer)
            return instance.get(1) == [("Isar", 4000.0), ("Main", 2000.0), ("Naab", 1.0)]

        await topics.close()
        await topics.send(topics.sensors, b"9", b'{"id":9,"name":"Naab"}', 5)
        await topics.station(1, result((9, 1)))
        await eventually(rename_is_seen)
        assert all(answered)


async def test_the_newest_row_of_a_sensor_counts_in_whichever_partition_it_lies(
    topics: StoreTopics, tmp_path: Path
) -> None:
    now_ms, home = time.time_ns() // 1_000_000, partition_for(3, 4)
    elsewhere = (home + 1) % 4

    async def row(name: str | None, partition: int, later_ms: int) -> None:
        value = None if name is None else b'{"id":3,"name":"%s"}' % name.encode()
        await topics.send(topics.sensors, b"3", value, partition, timestamp_ms=now_ms + later_ms)

    def shows(instance: StoresOnKafka, shown: list[tuple[str, float]]) -> bool:
        return instance.caught_up and instance.get(1) == shown

    async with running(topics, tmp_path / "one") as one:
        await eventually(lambda: one.caught_up)
        for name, partition, later_ms, shown in [
            ("Iller", elsewhere, 10_000, [("Iller", 4000.0), ("Main", 2000.0)]),
            ("Older", home, 5_000, [("Iller", 4000.0), ("Main", 2000.0)]),
            (None, home, 20_000, [("Main", 2000.0)]),
            ("Isar", elsewhere, 30_000, SHOWN),
        ]:
            await row(name, partition, later_ms)
            await eventually(partial(shows, one, shown))
            async with running(topics, tmp_path / f"filled after {later_ms}") as other:
                await eventually(partial(shows, other, shown))
        changes = one.copies.tables[topics.sensors].changes()
        assert (changes.added, changes.deleted) == (4, 1)


@pytest.mark.parametrize("partitions", [6, 2], ids=["more", "fewer"])
async def test_results_move_when_their_topic_has_other_partitions(
    topics: StoreTopics, tmp_path: Path, partitions: int
) -> None:
    rows = {station: [("Elbe", float(station))] for station in range(100, 130)}
    for station in rows:
        await topics.name(topics.stations, {station: f"Station {station}"})
        await topics.station(station, result((1, station)))

    def shown(instance: StoresOnKafka) -> dict[int, list[tuple[str, float]]]:
        found = instance.view.rows(range(instance.view.partition_count), Range(100), 3)
        return {station: names_and_levels(json.loads(body)) for station, body in found}

    async with result_producer(topics) as producer:
        # It knows the topic as it was.
        await producer.publish([topics.record(1, ROW)])
        async with (
            running(topics, tmp_path / "one", range(0, 6, 2), publish=producer.publish) as one,
            running(topics, tmp_path / "other", range(1, 6, 2), publish=producer.publish) as other,
        ):
            await eventually(lambda: one.caught_up and other.caught_up and shown(one) | shown(other) == rows)
            for instance, its_partitions in ((one, range(0, 6, 2)), (other, range(1, 6, 2))):
                instance.publish_for(its_partitions)
            if partitions > topics.partitions:
                async with administration(topics.kafka) as admin:
                    await admin.create_partitions({topics.peaks: NewPartitions(partitions)})
            else:
                await topics.delete(topics.peaks)
                topics.partitions = partitions
                await topics.create(topics.peaks)
            await eventually(lambda: {one.view.partition_count, other.view.partition_count} == {partitions})
            await eventually(lambda: one.caught_up and other.caught_up and shown(one) | shown(other) == rows)
            assert not shown(one).keys() & shown(other).keys()
            assert one.view.count(range(6)) + other.view.count(range(6)) == len(rows) + 1
            # An instance that has nothing finds each result where it belongs.
            async with running(topics, tmp_path / "new", range(partitions)) as instance:
                await eventually(lambda: instance.caught_up and shown(instance) == rows)


async def test_bad_records_and_transactions_stop_nothing(topics: StoreTopics, tmp_path: Path) -> None:
    home = partition_for(1, 4)
    for value in (b"", b"[]", b"\xff", b'{"generation":1}', b"x" * 900_000):
        await topics.send(topics.peaks, b"1", value, home)
    await topics.send(topics.sensors, b"two", b"5", 0)
    producer = AIOKafkaProducer(**topics.kafka.for_aiokafka(), transactional_id=topics.sensors)
    await producer.start()
    for aborted in (True, False):
        await producer.begin_transaction()
        name = b'{"id":3,"name":"Aborted"}' if aborted else b'{"id":2,"name":"Committed"}'
        await producer.send_and_wait(topics.sensors, name, b"3" if aborted else b"2", partition_for(3, 4))
        await (producer.abort_transaction() if aborted else producer.commit_transaction())
    await producer.stop()
    async with running(topics, tmp_path) as instance:
        await eventually(lambda: instance.caught_up)
        assert instance.get(1, 1) == [("Isar", 4000.0)]
        counts = instance.copies.unusable.counts
        assert sum(count for (topic, _), count in counts.items() if topic == topics.peaks) == 5
        assert counts[topics.sensors, NOT_AN_ID] == 1
        assert instance.copies.tables[topics.sensors].lag == 0


async def test_a_late_result_is_published_over_by_the_active_instance(topics: StoreTopics, tmp_path: Path) -> None:
    published: list[ResultRecord] = []

    async def publish(records: Sequence[ResultRecord]) -> int:
        published.extend(records)
        return await topics.publish(records)

    late = Result(Made(1), ROW.values[1:])
    async with running(topics, tmp_path / "active", publish=publish) as active:
        active.publish_for(range(4))
        await eventually(lambda: active.caught_up)
        await topics.station(1, late)
        await eventually(lambda: published != [])
        assert published == [topics.record(1, ROW)], "with what says of what it is made"
    async with running(topics, tmp_path / "other", publish=publish) as other:
        await eventually(lambda: other.caught_up)
        assert other.get(1) == SHOWN


async def test_a_partition_that_takes_no_result_keeps_none_from_the_others(topics: StoreTopics, tmp_path: Path) -> None:
    first, second = sorted((1, 6), key=lambda station: partition_for(station, 4))
    published = asyncio.Event()

    async def publish(records: Sequence[ResultRecord]) -> int:
        if any(record.key == b"%d" % first for record in records):
            raise BrokerUnavailable("its partition has no leader")
        last = await topics.publish(records)
        published.set()
        return last

    async with running(topics, tmp_path, publish=publish) as instance:
        await topics.station(6, ROW)
        await eventually(lambda: instance.caught_up and instance.get(6) == SHOWN)
        for station in (first, second):
            await topics.station(station, Result(Made(1), ROW.values[1:]))
        instance.publish_for(range(4))
        async with asyncio.timeout(UNHURRIED_S):
            await published.wait()


Partitions = Collection[TopicPartition]
Ask = Callable[[AIOKafkaConsumer, Partitions], Awaitable[dict[TopicPartition, int]]]


class Leaderless(set[TopicPartition]):
    """Partitions whose offsets no broker tells, as when they have no leader.

    Attributes:
        asked: how often they were asked for.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.asked = 0
        for name in ("beginning_offsets", "end_offsets"):
            monkeypatch.setattr(AIOKafkaConsumer, name, self._unless_leaderless(getattr(AIOKafkaConsumer, name)))

    def _unless_leaderless(self, ask: Ask) -> Ask:
        async def asked(
            consumer: AIOKafkaConsumer, partitions: Collection[TopicPartition]
        ) -> dict[TopicPartition, int]:
            if not self.isdisjoint(partitions):
                self.asked += 1
                raise KafkaTimeoutError
            return await ask(consumer, partitions)

        return asked


async def test_a_partition_without_a_leader_keeps_no_other_from_being_filled(
    topics: StoreTopics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    leaderless = Leaderless(monkeypatch)
    home, other = partition_for(1, 4), partition_for(6, 4)
    for was_filled in (False, True):
        level, generation = 5000.0 + was_filled, 2 + was_filled
        leaderless.add(TopicPartition(topics.peaks, other))
        await topics.station(6, result((2, level), generation=generation))
        async with running(topics, tmp_path) as instance:
            await eventually(lambda: instance.copies.task_status(home).caught_up)
            assert instance.get(1) == SHOWN
            tried = leaderless.asked
            await eventually(lambda tried=tried: leaderless.asked > tried + 3)  # type: ignore[misc]
            status = instance.copies.task_status(other)
            assert (status.can_answer, status.caught_up, status.lag_is_known) == (was_filled, False, False)
            assert instance.copies.task_status(home).caught_up
            leaderless.clear()
            await eventually(lambda: instance.caught_up)
            assert instance.get(6) == [("Main", level)]
    assert "stores are not filled" not in caplog.text
    assert caplog.text.count("these are not read for now") == 2, "once in each session"


async def test_a_table_is_not_caught_up_while_one_of_its_partitions_has_no_leader(
    topics: StoreTopics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaderless = Leaderless(monkeypatch)
    home = partition_for(1, 4)
    for was_filled in (False, True):
        leaderless.add(TopicPartition(topics.sensors, partition_for(3, 4)))
        await topics.name(topics.sensors, {3: f"Isar {was_filled}"})
        await topics.station(1, result((3, 5000), generation=2 + was_filled))
        async with running(topics, tmp_path) as instance:
            await eventually(lambda: instance.copies.held.keys() == set(range(4)))
            end = 2 + was_filled
            await eventually(lambda end=end: instance.copies.held[home].position == end)  # type: ignore[misc]
            status = instance.copies.held[home]
            assert (status.can_answer, status.caught_up, status.lag_is_known) == (was_filled, False, False)
            assert not instance.copies.tables_caught_up
            leaderless.clear()
            await eventually(lambda: instance.caught_up)
            assert instance.get(1) == [(f"Isar {was_filled}", 5000.0)]


async def test_what_was_cut_is_read_again_when_more_is_kept(topics: StoreTopics, tmp_path: Path) -> None:
    whole = result(*((2, level) for level in range(9, 3, -1)))
    async with running(topics, tmp_path, kept=2) as instance:
        await topics.station(6, Result(Made(1), whole.values[1:]))
        await topics.station(6, whole)
        await eventually(lambda: instance.caught_up and instance.get(6, 10) == [("Main", 9.0), ("Main", 8.0)])
    async with running(topics, tmp_path) as instance:
        assert instance.view.status(partition_for(6, 4)).can_answer
        await eventually(lambda: instance.caught_up)
        assert instance.get(6, 10) == [("Main", float(level)) for level in range(9, 3, -1)]


async def test_a_late_result_read_just_before_the_end_is_not_forgotten(topics: StoreTopics, tmp_path: Path) -> None:
    published = asyncio.Event()

    async def publish(records: Sequence[ResultRecord]) -> int:
        last = await topics.publish(records)
        published.set()
        return last

    async with running(topics, tmp_path) as instance:
        await eventually(lambda: instance.caught_up)
        await topics.station(1, Result(Made(1), ROW.values[1:]))
        await topics.station(6, result((1, 5)))
        await eventually(lambda: instance.get(6) is not None)
    async with running(topics, tmp_path, publish=publish) as instance:
        instance.publish_for(range(4))
        async with asyncio.timeout(UNHURRIED_S):
            await published.wait()


async def test_a_result_for_a_partition_that_is_not_there_yet_is_published_later(topics: StoreTopics) -> None:
    record = topics.record(1, ROW)._replace(partition=4)
    async with result_producer(topics) as producer:
        with pytest.raises(BrokerUnavailable, match=r"result 1 could not be published on .*-peaks-by.* no partition 4"):
            await producer.publish([record])
        async with administration(topics.kafka) as admin:
            await admin.create_partitions({topics.peaks: NewPartitions(6)})

        async def published() -> bool:
            try:
                await producer.publish([record])
            except BrokerUnavailable:
                return False
            return True

        await eventually(published)


async def test_many_records_are_published_together_in_their_order(topics: StoreTopics) -> None:
    home = partition_for(1, 4)
    keys = [b"%d" % station for station in range(2_000)]
    async with result_producer(topics) as producer:
        first = await producer.publish([topics.record(1, ROW)])
        last = await producer.publish([ResultRecord(topics.peaks, home, key, None, []) for key in keys])
        assert last == first + len(keys)
        with pytest.raises(BrokerUnavailable, match=r"result 7 could not be published on .* no partition 9"):
            await producer.publish([ResultRecord(topics.peaks, 9, b"7", None, [])])
    found = [record for record in await all_records(topics.kafka, topics.peaks) if record.partition == home]
    assert [(record.offset, record.key) for record in found if record.value is None] == [*enumerate(keys, first + 1)]


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
async def test_a_producer_that_cannot_start_leaves_nothing_open() -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    producer = ResultProducer(KafkaConnection("127.0.0.1:1"))
    with pytest.raises(BrokerUnavailable, match="result 1 could not be published on peaks"):
        await producer.publish([ResultRecord("peaks", 0, b"1", value_of(ROW), [])])
    await producer.close()
    del producer
    gc.collect()
    assert complaints == []


async def test_a_partition_dropped_while_the_topics_are_looked_at_stays_dropped(broker: Broker) -> None:
    topics = StoreTopics(broker.connection)
    copies = Copies(topics.topology(), topics.stores())
    copies.assign(range(4))
    described = {name: TopicDescription(name, 4) for name in copies.topic_names}
    looking = asyncio.create_task(copies.topics_described(described))
    while 2 not in copies.held:
        await asyncio.sleep(0)
    copies.drop(3)
    assert {copy.partition for copy in await looking if copy.name == PEAKS} == {0, 1, 2}
    assert list(copies.held) == [0, 1, 2]


async def test_reads_go_on_without_the_broker_and_filling_goes_on_after_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    with Broker(tmp_path / "broker", port) as own:
        topics = StoreTopics(own.connection)
        await topics.create()
        await topics.name(topics.sensors, {2: "Main", 3: "Isar"})
        await topics.name(topics.stations, {1: "Ulm"})
        await topics.station(1, ROW)
        async with running(topics, tmp_path / "state") as instance:
            await eventually(lambda: instance.caught_up)
        await topics.close()
    home = partition_for(1, 4)
    # 1. A start without a broker answers from what is on disk.
    async with running(topics, tmp_path / "state") as instance:
        assert instance.view.status(home).can_answer
        await eventually(lambda: "does not answer" in instance.view.status(home).reason)
        assert instance.get(1) == SHOWN
        # 2. The broker comes, and is killed, and comes again.
        for level in (5000, 6000):
            own = Broker(tmp_path / "broker", port)
            await asyncio.to_thread(own.start)
            await eventually(lambda: instance.caught_up)
            await topics.station(1, result((3, level), generation=level))
            await eventually(lambda level=level: instance.get(1) == [("Isar", float(level))])  # type: ignore[misc]
            await topics.close()
            await asyncio.to_thread(own.kill)
            await eventually(lambda: instance.view.status(home).reason != "")
            assert instance.view.status(home).can_answer
            assert instance.get(1) == [("Isar", float(level))]
        # 3. One line each time, not one a try.
        lines = [record for record in caplog.records if record.name.startswith("runtime")]
        assert len([line for line in lines if "not filled" in line.getMessage()]) == 3


class FullDisk(MemoryStores):
    """Stores whose disk is full while `full` is set."""

    def __init__(self, topics: StoreTopics) -> None:
        super().__init__(names_of(topics.topology()))
        self.full = False

    def open(self, name: str, partition: int) -> StateStore:
        store = super().open(name, partition)
        write = store.write

        def write_or_fail(
            changes: Mapping[bytes, bytes | None], fill: Fill, entries: Mapping[bytes, bool] = NO_ENTRIES
        ) -> None:
            if self.full:
                raise StateUnusable("no space left on device")
            write(changes, fill, entries)

        store.write = write_or_fail  # type: ignore[method-assign]
        return store

    def reopen(self, name: str, partition: int) -> StateStore:
        if self.full:
            raise StateUnusable("no space left on device")
        return super().reopen(name, partition)


async def test_a_full_disk_is_named_and_nothing_is_lost(topics: StoreTopics) -> None:
    stores = FullDisk(topics)
    async with running(topics, stores) as instance:
        await eventually(lambda: instance.caught_up)
        stores.full = True
        await topics.station(1, result((1, 9000), (3, 1), generation=2))
        await eventually(lambda: "no space left" in instance.view.status(partition_for(1, 4)).reason)
        assert instance.get(1) == SHOWN
        stores.full = False
        await eventually(lambda: instance.caught_up)
        assert instance.get(1) == [("Elbe", 9000.0), ("Isar", 1.0)]


async def test_a_copy_that_has_no_leader_in_another_session_is_known_to_be_as_far_as_it_was(
    topics: StoreTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores, leaderless = FullDisk(topics), Leaderless(monkeypatch)
    home, other = partition_for(1, 4), partition_for(6, 4)
    async with running(topics, stores, options=replace(QUICK, keep_alive_ms=1)) as instance:
        await eventually(lambda: instance.caught_up)
        stores.full = True
        leaderless.add(TopicPartition(topics.peaks, other))
        await topics.station(1, result((1, 9000), generation=2))
        await eventually(lambda: "no space left" in instance.view.status(home).reason)
        stores.full = False
        await eventually(lambda: leaderless.asked > 0 and instance.get(1) == [("Elbe", 9000.0)])
        status = instance.copies.held[other]
        assert status.can_answer
        assert status.lag_is_known, "so it stays active, and the instance ready"
        before, asked = stores.opened(PEAKS)[other].fill, leaderless.asked
        await eventually(lambda: leaderless.asked > asked + 3)
        assert stores.opened(PEAKS)[other].fill == before, "nobody knows whether it is current"


class DiskFullForSensors(FullDisk):
    """While the disk is full, every store can be opened again except those of sensors."""

    def __init__(self, topics: StoreTopics) -> None:
        super().__init__(topics)
        self.tries = 0
        self._sensors = topics.sensors

    def reopen(self, name: str, partition: int) -> StateStore:
        if name == self._sensors:
            self.tries += 1
            return super().reopen(name, partition)
        return MemoryStores.reopen(self, name, partition)


async def test_stores_that_are_opened_again_answer_meanwhile(topics: StoreTopics) -> None:
    stores = DiskFullForSensors(topics)
    async with running(topics, stores) as instance:
        await eventually(lambda: instance.caught_up)
        stores.full = True
        await topics.station(1, result((1, 9000), generation=2))
        answered: list[bool] = []

        async def asked_until_tried_thrice() -> bool:
            answered.append(instance.view.status(partition_for(1, 4)).can_answer)
            return stores.tries >= 3

        await eventually(asked_until_tried_thrice)
        assert instance.get(1) == SHOWN
        stores.full = False
        async with asyncio.timeout(UNHURRIED_S):
            while not instance.caught_up:
                answered.append(instance.view.status(partition_for(1, 4)).can_answer)
                await asyncio.sleep(0)
        assert all(answered)
        assert instance.get(1) == [("Elbe", 9000.0)]


class WatchedWrites(MemoryStores):
    """Stores of results that note each write of records: how many, and in which turn of the event loop."""

    def __init__(self, topics: StoreTopics) -> None:
        super().__init__(names_of(topics.topology()))
        self.turn = 0
        self.noted: list[tuple[int, int]] = []
        for partition in range(4):
            self._watch(self.open(PEAKS, partition))

    def _watch(self, store: StateStore) -> None:
        write = store.write

        def noted(
            changes: Mapping[bytes, bytes | None], fill: Fill, entries: Mapping[bytes, bool] = NO_ENTRIES
        ) -> None:
            if changes:
                self.noted.append((len(changes), self.turn))
            write(changes, fill, entries)

        store.write = noted  # type: ignore[method-assign]

    async def count_turns(self) -> None:
        """Run beside what is watched; requests would have these turns."""
        while True:
            self.turn += 1
            await asyncio.sleep(0)


async def test_the_event_loop_is_not_held_up_by_a_restore(topics: StoreTopics, monkeypatch: pytest.MonkeyPatch) -> None:
    # A clock of its own, by which a record takes half a millisecond: the machine may be as busy as it likes.
    clock = SimpleNamespace(monotonic=itertools.count(0, 0.0005).__next__)
    monkeypatch.setattr("runtime.copies.store_copy.time", clock)
    producer = AIOKafkaProducer(**topics.kafka.for_aiokafka(), linger_ms=5)
    await producer.start()
    of = result(*((sensor, 1000 - sensor) for sensor in range(20)))
    records = [topics.record(station, of) for station in range(10, 5_010)]
    sent = [
        await producer.send(each.topic, each.value, each.key, each.partition, headers=each.headers) for each in records
    ]
    await asyncio.gather(*sent)
    await producer.stop()
    stores = WatchedWrites(topics)
    counting = asyncio.create_task(stores.count_turns())
    async with running(topics, stores) as instance:
        await eventually(lambda: instance.caught_up)
    counting.cancel()
    held, turns = zip(*stores.noted, strict=True)
    assert sum(held) == 5_001, "all results, and the one that every test begins with"
    assert max(held) <= 5, "a slice of records ends after 2 ms"
    assert len(set(turns)) == len(turns), "the loop has a turn between any two slices"

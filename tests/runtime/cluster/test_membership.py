"""The group with a real broker: what members learn, and how soon, when others come, stop, die and freeze."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
from aiokafka import AIOKafkaConsumer

from app.java.broker import Broker
from runtime.cluster.assignor import Tasks
from runtime.cluster.host_metadata import ClusterMap, HostInfo
from runtime.cluster.membership import Membership, MembershipSettings
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.topics import TopicSpec, create_missing
from tests.drivers import member_process
from tests.drivers.eventually import eventually as wait
from tests.drivers.eventually import measured
from tests.drivers.ports import free_port

SESSION_TIMEOUT_MS = 60_000
"""Of members in the process of the tests, which stands still for some seconds when the machine is busy."""
QUICK_SESSION_TIMEOUT_MS = 2000
"""Of those that are killed or frozen."""
eventually = partial(wait, deadline_s=30.0)
PARTITIONS = 4


class Instance:
    """A membership, and an instance around it that restores whatever it is given at once."""

    def __init__(self, kafka: KafkaConnection, group: str, port: int, settings: MembershipSettings) -> None:
        self.info = HostInfo("host", port)
        self.copies: dict[int, int] = {}
        self.checkpoint = ""
        self.stream_fails = False
        self.has_stream = False
        self.stream_ends = True
        self.stream_epoch = 0
        self.seen: list[tuple[float, Tasks, ClusterMap]] = []
        self.membership = Membership(
            kafka,
            group,
            self.info,
            copies=lambda: self.copies,
            has_stream=lambda: self.has_stream,
            stream_epoch=lambda: self.stream_epoch,
            has_stream_standby=lambda: self.tasks.stream_standby > 0,
            stream_fails=lambda: self.stream_fails,
            checkpoint=lambda: self.checkpoint,
            on_tasks=self._on_tasks,
            settings=settings,
        )

    def _on_tasks(self, tasks: Tasks, cluster: ClusterMap) -> None:
        self.seen.append((time.monotonic(), tasks, cluster))
        self.copies = dict.fromkeys(tasks.copies, 0)
        if tasks.stream:
            self.has_stream, self.stream_epoch = True, tasks.stream_epoch
        elif self.stream_ends and tasks.stream_epoch >= self.stream_epoch:
            # What was assigned before this instance took it over is none of its business.
            self.has_stream = False
        if tasks.warm_up:
            self.membership.request_rebalance()

    def take_stream_over(self) -> None:
        """Have the stream, and tell the group later."""
        self.has_stream, self.stream_epoch = True, self.membership.current().stream_epoch + 1
        self.membership.request_rebalance()

    @property
    def tasks(self) -> Tasks:
        return self.membership.tasks() or Tasks()


class Group:
    """Instances in one group, which all stop in the end."""

    def __init__(self, kafka: KafkaConnection, topic: str, name: str = "") -> None:
        self.kafka = kafka
        self.topic = topic
        self.name = name or f"membership-{uuid.uuid4()}"
        self.instances: list[Instance] = []

    async def join(self, port: int, fingerprint: str = "", checkpoint: str = "") -> Instance:
        settings = MembershipSettings(session_timeout_ms=SESSION_TIMEOUT_MS, topic=self.topic, fingerprint=fingerprint)
        instance = Instance(self.kafka, self.name, port, settings)
        instance.checkpoint = checkpoint
        self.instances.append(instance)
        await instance.membership.start()
        return instance

    async def stop(self, instance: Instance) -> None:
        self.instances.remove(instance)
        await instance.membership.stop()

    def agrees(self, hosts: int) -> bool:
        """Whether all have one map, of as many hosts, in which each partition is active once and so is the stream."""
        maps = {instance.membership.current() for instance in self.instances}
        if len(maps) != 1:
            return False
        (cluster,) = maps
        active = sorted(partition for host in cluster.hosts for partition in host.active)
        streams = sum(host.runs_stream for host in cluster.hosts)
        return len(cluster.hosts) == hosts and active == list(range(PARTITIONS)) and streams == 1

    def balanced(self, hosts: int) -> bool:
        counts = [len(instance.tasks.active) for instance in self.instances]
        warming_up = any(instance.tasks.warm_up for instance in self.instances)
        return self.agrees(hosts) and max(counts) - min(counts) <= 1 and not warming_up


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    name = f"membership-{uuid.uuid4()}"
    asyncio.run(create_missing(broker.connection, [TopicSpec(name, PARTITIONS)]))
    return name


@asynccontextmanager
async def new_group(kafka: KafkaConnection, topic: str, name: str = "") -> AsyncIterator[Group]:
    group = Group(kafka, topic, name)
    try:
        yield group
    finally:
        await asyncio.gather(*(instance.membership.stop() for instance in group.instances))


@pytest.fixture
async def group(broker: Broker, topic: str) -> AsyncIterator[Group]:
    async with new_group(broker.connection, topic) as made:
        yield made


@contextmanager
def member_in_a_process(group: Group, port: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(Path(member_process.__file__)), group.kafka.bootstrap_servers, group.name]
    command += [f"host:{port}", group.topic, str(QUICK_SESSION_TIMEOUT_MS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


async def test_one_instance_alone_gets_everything(group: Group) -> None:
    instance = await group.join(7001)
    assert "not a member" in (instance.membership.reason() or "")
    assert instance.membership.current().hosts == ()
    await eventually(lambda: group.agrees(1), "it is active for all partitions")
    assert instance.tasks == Tasks(active=frozenset(range(PARTITIONS)), stream=True, stream_epoch=1)
    assert instance.membership.reason() is None


async def test_three_in_one_process_share_the_tasks_and_have_the_same_map(group: Group) -> None:
    instances = [await group.join(port) for port in (7001, 7002, 7003)]
    await eventually(lambda: group.balanced(3), "three instances in balance")
    cluster = instances[0].membership.current()
    assert [host.info for host in cluster.hosts] == [instance.info for instance in instances]
    assert cluster.partitions == PARTITIONS
    for instance in instances:
        [host] = (host for host in cluster.hosts if host.info == instance.info)
        assert (host.active, host.standby, host.runs_stream, host.stream_standby) == (
            instance.tasks.active,
            instance.tasks.standby,
            instance.tasks.stream,
            instance.tasks.stream_standby,
        )
    assert sorted(host.stream_standby for host in cluster.hosts) == [0, 0, 1]
    await eventually(
        lambda: all(i.seen and i.seen[-1][1:] == (i.tasks, cluster) for i in instances),
        "all have been handed their tasks",
    )


async def test_one_that_joins_is_active_only_for_what_it_has_caught_up_on(group: Group) -> None:
    first = await group.join(7001)
    await eventually(lambda: group.agrees(1), "the first is alone")
    second = await group.join(7002)
    await eventually(lambda: group.balanced(2), "both in balance")
    beginning = second.seen[0][1]
    assert not beginning.active
    assert second.tasks.active <= beginning.copies
    assert first.tasks.stream


async def test_when_one_stops_the_others_take_over_at_once(group: Group) -> None:
    instances = [await group.join(port) for port in (7001, 7002, 7003)]
    await eventually(lambda: group.balanced(3), "three instances in balance")
    leaving = next(instance for instance in instances if instance.tasks.stream)
    waiting = next(instance for instance in instances if instance.tasks.stream_standby)
    epoch = leaving.stream_epoch
    await group.stop(leaving)
    # Before its session has timed out: nobody waits for that.
    await eventually(lambda: group.agrees(2), "two instances have everything")
    assert waiting.tasks.stream, "the stream standby takes the stream"
    assert waiting.tasks.stream_epoch == epoch + 1
    assert "left" in (leaving.membership.reason() or "")


async def test_one_that_stops_while_it_joins_leaves_nothing_behind(group: Group) -> None:
    await group.join(7001)
    await eventually(lambda: group.agrees(1), "the first is alone")
    others = {task for task in asyncio.all_tasks() if not task.done()}
    for delay_s in (0, 0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.2):
        instance = await group.join(7002)
        instance.membership.request_rebalance()
        await asyncio.sleep(delay_s)
        await group.stop(instance)
        gc.collect()
    # The group would wait for a member that is left until its session has timed out, a minute after it joined.
    await eventually(lambda: group.agrees(1), "no member is left that the group waits for")
    # The first one's rebalances renew three tasks of aiokafka's.
    await eventually(lambda: len(asyncio.all_tasks() - others) <= 3, "no task of theirs is left")


async def test_when_one_is_killed_the_others_take_over_after_its_session(group: Group) -> None:
    await group.join(7002)
    most_s = QUICK_SESSION_TIMEOUT_MS / 1000 + 2

    async def takes_s() -> float:
        with member_in_a_process(group, 7001) as process:
            third = await group.join(7003)
            await eventually(lambda: group.agrees(3), "three instances")
            process.kill()
            took_s = await eventually(lambda: group.agrees(2), "two instances have everything")
        await group.stop(third)
        return took_s

    assert await measured(takes_s, below=most_s, times=3) < most_s


async def test_one_that_was_frozen_longer_than_its_session_comes_back_and_takes_nothing(group: Group) -> None:
    with member_in_a_process(group, 7001) as process:
        assert process.stdout is not None
        line = await asyncio.to_thread(process.stdout.readline)
        assert line == "generation 1, 1 hosts, stream True\n"
        instance = await group.join(7002)
        await eventually(lambda: group.agrees(2), "two instances")
        process.send_signal(signal.SIGSTOP)
        await eventually(lambda: group.agrees(1) and instance.tasks.stream, "the other one has taken over")
        process.send_signal(signal.SIGCONT)
        await eventually(lambda: group.agrees(2), "it is back")
        assert instance.tasks.stream, "the stream stays where it has been moved"


async def test_a_stream_standby_that_takes_over_before_the_group_knows_keeps_the_stream(group: Group) -> None:
    first, second = [await group.join(port) for port in (7001, 7002)]
    await eventually(lambda: group.balanced(2), "two instances in balance")
    holder, standby = (first, second) if first.tasks.stream else (second, first)
    epoch = holder.stream_epoch
    assert (standby.tasks.stream_standby, standby.tasks.stream_epoch) == (1, epoch)
    standby.take_stream_over()
    await eventually(lambda: group.agrees(2) and standby.tasks.stream, "the group gives it the stream")
    await eventually(lambda: not holder.has_stream, "whoever had it says so no more")
    assert standby.tasks.stream_epoch == epoch + 1
    assert holder.tasks == replace(holder.tasks, stream=False, stream_standby=1, stream_epoch=epoch + 1)


async def test_a_stream_that_only_ends_somewhere_does_not_come_back_there(group: Group) -> None:
    first, second = [await group.join(port) for port in (7001, 7002)]
    await eventually(lambda: group.balanced(2), "two instances in balance")
    # By its address the first would win whenever both say that they have the stream equally.
    if second.tasks.stream:
        first.take_stream_over()
        await eventually(lambda: group.agrees(2) and first.tasks.stream, "the first has the stream")
    first.stream_ends = False
    second.take_stream_over()
    await eventually(lambda: group.agrees(2) and second.tasks.stream, "the second has the stream")
    assert first.has_stream
    generation = first.membership.current().generation
    first.membership.request_rebalance()
    await eventually(
        lambda: group.agrees(2) and first.membership.current().generation > generation, "there is another assignment"
    )
    assert second.tasks.stream


async def test_what_changes_at_a_member_spreads_when_it_asks_for_a_rebalance(group: Group) -> None:
    first = await group.join(7001, checkpoint="a")
    second = await group.join(7002, checkpoint="a")
    await eventually(lambda: group.balanced(2), "two instances in balance")
    streaming, other = (first, second) if first.tasks.stream else (second, first)
    generation = other.membership.current().generation
    streaming.checkpoint = "b"
    streaming.membership.request_rebalance()
    await eventually(lambda: other.membership.reason() is not None, "the other one disagrees now")
    assert other.membership.reason() == (
        f"the checkpoint here is a, but b at {streaming.info}, which runs the stream:"
        " give every instance the same checkpoint URI"
    )
    assert streaming.membership.reason() is None
    assert other.membership.current().generation > generation
    other.checkpoint = "b"
    other.membership.request_rebalance()
    await eventually(lambda: other.membership.reason() is None, "they agree again")
    await eventually(lambda: group.balanced(2), "nothing has moved")


async def test_an_instance_with_other_settings_is_told_and_does_not_get_the_stream(group: Group) -> None:
    first = await group.join(7002, fingerprint="DEPTH=10")
    await eventually(lambda: group.agrees(1), "the first is alone")
    other = await group.join(7001, fingerprint="DEPTH=20")
    told = (
        "the settings here are DEPTH=20, but DEPTH=10 at host:7002, which runs the stream: give every instance the same"
    )
    await eventually(lambda: other.membership.reason() == f"{told} settings", "it is told")
    assert first.tasks.stream
    assert first.membership.reason() is None


async def test_two_that_advertise_one_address_are_both_told_and_the_first_goes_on(group: Group) -> None:
    first = await group.join(7001)
    await eventually(lambda: group.agrees(1), "the first is alone")
    second = await group.join(7001)
    told = "2 instances advertise host:7001: give each an address of its own"
    await eventually(lambda: second.membership.reason() == told, "the second is told")
    await eventually(lambda: first.membership.warning() == told, "the first is told")
    assert first.membership.reason() is None
    assert first.tasks.active == frozenset(range(PARTITIONS))
    assert second.tasks == Tasks(stream_epoch=1)


async def test_a_rebalance_changes_no_tasks_while_it_lasts(group: Group) -> None:
    instances = [await group.join(port) for port in (7001, 7002)]
    await eventually(lambda: group.balanced(2), "two instances in balance")
    before = [instance.tasks for instance in instances]
    counts = [len(instance.seen) for instance in instances]
    instances[0].copies[0] = 1
    instances[0].membership.request_rebalance()
    await eventually(lambda: all(len(i.seen) > n for i, n in zip(instances, counts, strict=True)), "assigned again")
    for instance, tasks, count in zip(instances, before, counts, strict=True):
        assert all(seen == tasks for _, seen, _ in instance.seen[count:])


async def test_a_group_that_another_program_uses_is_named_as_the_reason_once(
    broker: Broker, topic: str, group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    # The product has it say nothing, in a process that has set up its log lines.
    caplog.set_level(logging.WARNING, "aiokafka")
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=broker.bootstrap_servers, group_id=group.name)
    await consumer.start()
    try:
        instance = await group.join(7001)
        await eventually(lambda: "another program" in (instance.membership.reason() or ""), "it says why")
        await eventually(lambda: caplog.text.count("Attempt to join group failed") >= 3, "it has tried again")
        assert [r.name for r in caplog.records].count("runtime.cluster.membership") == 1
        assert "another program" in (instance.membership.reason() or "")
    finally:
        await consumer.stop()
    await eventually(lambda: group.agrees(1), "it joins when the other one has gone")
    await eventually(lambda: instance.membership.reason() is None, "it is ready")


async def test_a_topic_that_does_not_exist_is_named_as_the_reason(broker: Broker) -> None:
    topic = f"membership-{uuid.uuid4()}"
    async with new_group(broker.connection, topic) as group:
        instance = await group.join(7001)
        await eventually(lambda: topic in (instance.membership.reason() or ""), "it names the topic")
        await create_missing(broker.connection, [TopicSpec(topic, PARTITIONS)])
        await eventually(lambda: group.agrees(1), "it joins when the topic exists")


async def test_while_kafka_is_away_the_map_stays_and_one_line_tells(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "runtime.cluster.membership")
    port = free_port()
    with Broker(tmp_path, port) as first_broker:
        await create_missing(first_broker.connection, [TopicSpec("boards", PARTITIONS)])
    broker = Broker(tmp_path, port)
    async with new_group(broker.connection, "boards") as group:
        instances = [await group.join(port) for port in (7001, 7002)]
        await eventually(lambda: "does not answer" in caplog.text or "no use" in caplog.text, "the outage is told")
        assert not any(instance.membership.current().hosts for instance in instances)
        try:
            await asyncio.to_thread(broker.start)
            await eventually(lambda: group.balanced(2), "it joins when Kafka is there")
            await eventually(lambda: all(i.membership.warning() is None for i in instances), "no trouble is left")
            cluster = instances[0].membership.current()
            caplog.clear()
            await asyncio.to_thread(broker.kill)
            await eventually(lambda: all(i.membership.warning() for i in instances), "the outage is noticed")
            assert [instance.membership.current() for instance in instances] == [cluster, cluster]
            assert [instance.membership.reason() for instance in instances] == [None, None]
            await asyncio.to_thread(broker.start)
            await eventually(lambda: all(i.membership.warning() is None for i in instances), "it is over")
            await eventually(lambda: group.balanced(2), "the same tasks again")
            told = [record.message for record in caplog.records if record.name == "runtime.cluster.membership"]
            assert sum("does not answer" in line for line in told) == len(instances), told
            instances[0].membership.request_rebalance()
            generation = cluster.generation
            await eventually(
                lambda: group.agrees(2) and generation < instances[1].membership.current().generation,
                "a rebalance reaches the other one as before",
            )
        finally:
            await asyncio.to_thread(broker.stop)


async def test_after_an_error_that_nobody_foresaw_it_joins_again(
    group: Group, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    instance = await group.join(7001)
    await eventually(lambda: group.agrees(1), "it has joined")
    generation = instance.membership.current().generation
    with monkeypatch.context() as patch:
        patch.setattr(AIOKafkaConsumer, "end_offsets", Mock(side_effect=AssertionError("unforeseen")))
        await eventually(lambda: "unforeseen" in (instance.membership.warning() or ""), "it is told")
    assert [each.levelname for each in caplog.records if each.exc_info] == ["ERROR"]
    await eventually(lambda: instance.membership.current().generation > generation, "it has joined again")
    await eventually(lambda: instance.membership.warning() is None, "all is well")


async def test_when_it_cannot_even_leave_it_joins_again_all_the_same(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = await group.join(7001)
    await eventually(lambda: group.agrees(1), "it has joined")
    generation = instance.membership.current().generation
    stop, left = AIOKafkaConsumer.stop, asyncio.Event()

    async def stop_and_fail(consumer: AIOKafkaConsumer) -> None:
        await stop(consumer)
        left.set()
        raise AssertionError("unforeseen")

    with monkeypatch.context() as patch:
        patch.setattr(AIOKafkaConsumer, "stop", stop_and_fail)
        patch.setattr(AIOKafkaConsumer, "end_offsets", Mock(side_effect=AssertionError("unforeseen")))
        await eventually(left.is_set, "it has left")
    await eventually(lambda: instance.membership.current().generation > generation, "it has joined again")


async def test_it_stops_soon_when_kafka_is_away(free_tcp_port: int) -> None:
    async def takes_s() -> float:
        async with new_group(KafkaConnection(f"127.0.0.1:{free_tcp_port}"), "boards") as group:
            instance = await group.join(7001)
            await eventually(lambda: instance.membership.warning() is not None, "the outage is noticed")
            start = time.monotonic()
            await group.stop(instance)
            return time.monotonic() - start

    assert await measured(takes_s, below=2, times=3) < 2

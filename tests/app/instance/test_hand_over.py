"""The stream passes from one instance to the next, over real connections: who begins when, and who waits for whom."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import Mock

import pytest

from api.cluster import followed as followed_module
from api.cluster.followed import Followed
from api.cluster.stream_link import StreamLink
from api.http.auth import Tokens
from api.main import create_app
from app.instance import hand_over
from app.instance.hand_over import HandOver
from app.instance.stream_task import StreamTask
from app.server.http_server import HttpServer
from runtime.cluster.host_metadata import ClusterMap, HostInfo, HostMetadata
from runtime.stream.status import StreamStatus
from tests.drivers.declared import boards_view, components_of
from tests.drivers.eventually import eventually
from tests.drivers.http_instance import free_host

pytestmark = pytest.mark.anyio

EPOCH = 3
TOKENS = Tokens(peer=("a-token-of-peers-0123456789",))
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n6\r\nworks\n\r\n"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hand_over, "_LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(hand_over, "_ASK_AGAIN_AFTER_S", 0.02)
    monkeypatch.setattr(followed_module, "_EVERY_S", 0.05)


@dataclass
class Group:
    """A group as one of its members sees it."""

    map: ClusterMap
    asked: int = 0

    def current(self) -> ClusterMap:
        return self.map

    def request_rebalance(self) -> None:
        self.asked += 1


@dataclass
class Thread:
    """A stream thread that does nothing."""

    begun: bool = False
    warm: bool = False
    works: bool = True
    lost_its_jvm: bool = False
    wanted: int = 0
    status: StreamStatus = field(default_factory=StreamStatus)
    prepare: Any = field(default_factory=Mock)
    request_stop: Any = field(default_factory=Mock)
    join: Any = field(default_factory=Mock)

    def start(self) -> None:
        self.begun = True

    def warm_up(self) -> None:
        self.wanted += 1


@dataclass
class Instance:
    """What an instance has of the stream."""

    group: Group
    thread: Thread
    stream: StreamTask
    followed: Followed
    link: StreamLink
    hand_over: HandOver

    @classmethod
    def of(cls, holder: HostInfo, checkpoint_uri: str = "file:///checkpoint") -> Instance:
        """Return one that goes by a map in which `holder` runs the stream."""
        group, thread = Group(map_of(holder)), Thread()
        stream = StreamTask(lambda: thread)  # type: ignore[arg-type,return-value]  # in place of one
        followed = Followed(lambda: stream.held)
        link = StreamLink(components_of(boards_view({}), cluster=group.current, host=free_host(), tokens=TOKENS))
        membership: Any = group
        return cls(group, thread, stream, followed, link, HandOver(stream, membership, link, followed, checkpoint_uri))


def map_of(holder: HostInfo, epoch: int = EPOCH) -> ClusterMap:
    return ClusterMap((HostMetadata(holder, runs_stream=True),), 4, stream_epoch=epoch)


@asynccontextmanager
async def running(instance: Instance) -> AsyncIterator[Instance]:
    task = asyncio.create_task(instance.hand_over.run())
    yield instance
    assert not task.done(), task
    task.cancel()
    await asyncio.wait([task])
    await instance.stream.stop()


@asynccontextmanager
async def standby(holder: HostInfo, place: int = 1, uri: str = "file:///checkpoint") -> AsyncIterator[Instance]:
    """Have an instance wait to take over from a holder."""
    instance = Instance.of(holder, uri)
    instance.stream.assign(stream=False, standby=place, epoch=EPOCH)
    await eventually(lambda: instance.thread.prepare.called)
    async with running(instance):
        yield instance


@asynccontextmanager
async def served(followed: Followed) -> AsyncIterator[HostInfo]:
    """Serve the stream of an instance to whoever follows."""
    host = free_host()
    components = components_of(
        boards_view({}), cluster=lambda: map_of(host), host=host, tokens=TOKENS, followed=followed
    )
    server = HttpServer(create_app(components), host.host, host.port)
    await server.start()
    yield host
    components.stopping.begin()
    await server.stop()


class Holder:
    """Something that answers as a holder does, and ends as a process does."""

    def __init__(self) -> None:
        self.host = free_host()
        self.asked = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Holder:
        self._server = await asyncio.start_server(self._answer, self.host.host, self.host.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End: nothing listens any more, and the connections break."""
        assert self._server is not None
        self._server.close()
        self.break_off()

    def break_off(self) -> None:
        """Break the connections, and go on listening."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers = []

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.readline():
            self.asked += 1
            writer.write(ANSWER)
        self._writers.append(writer)


async def has_begun(instance: Instance) -> None:
    await eventually(lambda: instance.thread.begun)
    assert (instance.stream.epoch, instance.group.asked) == (EPOCH + 1, 1)


async def test_who_follows_begins_when_the_holder_says_so() -> None:
    followed = Followed(lambda: True)
    async with served(followed) as host, standby(host) as instance:
        await eventually(lambda: followed.count > 0)
        assert not instance.thread.begun
        followed.over()
        await has_begun(instance)


async def test_who_follows_begins_when_the_holder_has_ended() -> None:
    async with Holder() as holder, standby(holder.host) as instance:
        await eventually(lambda: instance.thread.wanted > 0)
        holder.end()
        await has_begun(instance)


@pytest.mark.parametrize("uri", ["s3a://bucket/checkpoint", "gs://bucket/checkpoint"])
async def test_where_numbers_are_no_fence_only_the_holder_itself_says_so(uri: str) -> None:
    async with Holder() as holder, standby(holder.host, uri=uri) as instance:
        await eventually(lambda: instance.thread.wanted > 0)
        followed_again = instance.link.follow = Mock(side_effect=instance.link.follow)  # type: ignore[method-assign]
        holder.end()
        await eventually(lambda: followed_again.call_count >= 2)
        assert not instance.thread.begun
    followed = Followed(lambda: True)
    async with served(followed) as host, standby(host, uri=uri) as instance:
        await eventually(lambda: followed.count > 0)
        followed.over()
        await has_begun(instance)


async def test_a_holder_that_breaks_the_connection_and_listens_is_followed_again() -> None:
    async with Holder() as holder, standby(holder.host) as instance:
        for times in (1, 2, 3):
            await eventually(lambda times=times: holder.asked >= times)  # type: ignore[misc]
            holder.break_off()
        await eventually(lambda: holder.asked >= 4)
        assert not instance.thread.begun


async def test_who_was_frozen_while_the_holder_ended_leaves_it_to_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hand_over, "_STOOD_STILL_S", 0.3)
    async with Holder() as holder, standby(holder.host) as instance:
        await eventually(lambda: instance.thread.wanted > 0)
        followed_again = instance.link.follow = Mock(side_effect=instance.link.follow)  # type: ignore[method-assign]
        holder.end()
        # Nothing else in this process goes on meanwhile.
        time.sleep(0.6)  # noqa: ASYNC251  # it is frozen
        await eventually(lambda: followed_again.call_count >= 2)
        assert not instance.thread.begun


async def test_a_holder_that_was_never_reached_is_not_taken_for_one_that_has_ended() -> None:
    async with standby(free_host()) as instance:
        follow = instance.link.follow = Mock(side_effect=instance.link.follow)  # type: ignore[method-assign]
        await eventually(lambda: follow.call_count >= 3)
        assert not instance.thread.begun


async def test_only_the_first_standby_follows() -> None:
    followed = Followed(lambda: True)
    async with served(followed) as host, standby(host, place=2) as second, standby(host) as first:
        await eventually(lambda: followed.count == 1)
        followed.over()
        await has_begun(first)
        assert not second.thread.begun


async def test_what_the_group_has_decided_meanwhile_counts() -> None:
    followed, other = Followed(lambda: True), Followed(lambda: True)
    async with served(followed) as host, served(other) as next_host, standby(host) as instance:
        await eventually(lambda: followed.count > 0)
        instance.group.map = map_of(next_host, EPOCH + 1)
        await eventually(lambda: other.count > 0 and not followed.count)
        followed.over()
        assert not instance.thread.begun
        other.over()
        await eventually(lambda: instance.thread.begun)
        assert instance.stream.epoch == EPOCH + 2


async def test_an_answer_of_the_group_that_knows_nothing_of_a_take_over_does_not_end_it() -> None:
    followed = Followed(lambda: True)
    async with served(followed) as host, standby(host) as instance:
        await eventually(lambda: followed.count > 0)
        followed.over()
        await has_begun(instance)
        assert not instance.stream.assign(stream=False, standby=1, epoch=EPOCH)
        assert instance.stream.held
        assert instance.stream.assign(stream=True, standby=0, epoch=EPOCH + 1)
        assert instance.stream.assign(stream=False, standby=1, epoch=EPOCH + 2), "the group knows, and has decided"
        await eventually(lambda: instance.thread.request_stop.called)


@pytest.mark.parametrize("epoch", [0, EPOCH + 1])
async def test_a_leader_that_knows_no_epochs_or_a_higher_one_is_obeyed(epoch: int) -> None:
    instance = Instance.of(free_host())
    instance.stream.take_over(EPOCH + 1)
    assert instance.stream.assign(stream=False, standby=0, epoch=epoch)
    await instance.stream.stop()


async def test_spark_is_warmed_up_once_the_stream_works_elsewhere() -> None:
    works = False
    followed = Followed(lambda: True, lambda: works)
    async with served(followed) as host, standby(host) as instance:
        await eventually(lambda: followed.count > 0)
        assert not instance.thread.wanted
        works = True
        await eventually(lambda: instance.thread.wanted > 0)


async def test_a_stop_waits_for_a_standby_that_is_warming_up() -> None:
    holder = Instance.of(free_host())
    async with served(holder.followed) as host, standby(host) as instance:
        holder.stream.assign(stream=True, standby=0, epoch=EPOCH)
        await eventually(lambda: holder.thread.begun and holder.followed.count > 0)
        assert holder.followed.nobody_is_ready
        stop = asyncio.create_task(holder.hand_over.end())
        done, _ = await asyncio.wait([stop], timeout=0.3)
        assert not done
        assert holder.stream.held
        instance.thread.warm = True
        await asyncio.wait_for(stop, 10)
        assert holder.thread.join.called
        await has_begun(instance)


@pytest.mark.parametrize(
    ("place", "works", "within_s"),
    [(1, True, 0.5), (2, True, 1000.0), (1, False, 1000.0)],
    ids=["for one who never gets ready", "for nobody", "while nobody warms up yet"],
)
async def test_a_stop_does_not_wait_for_ever(
    place: int, within_s: float, monkeypatch: pytest.MonkeyPatch, *, works: bool
) -> None:
    monkeypatch.setattr(hand_over, "READY_WITHIN_S", within_s)
    holder = Instance.of(free_host())
    holder.thread.works = works
    async with served(holder.followed) as host, standby(host, place=place):
        holder.stream.assign(stream=True, standby=0, epoch=EPOCH)
        await eventually(lambda: holder.thread.begun and holder.followed.count == (place == 1))
        await asyncio.wait_for(holder.hand_over.end(), 10)
        assert not holder.stream.held


@pytest.mark.parametrize(
    ("lost", "is_followed", "given_up"), [(True, True, True), (True, False, False), (False, True, False)]
)
async def test_a_stream_without_a_jvm_is_handed_over_where_somebody_follows(
    lost: bool,
    is_followed: bool,
    given_up: bool,
) -> None:
    holder = Instance.of(free_host())
    holder.stream.assign(stream=True, standby=0, epoch=EPOCH)
    await eventually(lambda: holder.thread.begun)
    looking = asyncio.create_task(holder.hand_over.give_up_without_jvm())
    async with served(holder.followed) as host, standby(host, place=1 if is_followed else 2) as instance:
        await eventually(lambda: (holder.followed.count > 0) == is_followed)
        holder.thread.lost_its_jvm = lost
        if given_up:
            await has_begun(instance)
            await eventually(lambda: holder.group.asked == 1)
        else:
            await asyncio.wait([looking], timeout=0.5)
        assert holder.stream.held is not given_up
        assert instance.thread.begun is given_up
    looking.cancel()
    await asyncio.wait([looking])
    await holder.stream.stop()


async def test_who_connects_anew_just_when_the_stream_ends_is_told_and_not_once_it_is_back() -> None:
    here = True
    followed = Followed(lambda: here)
    async with served(followed) as host:
        here = False
        followed.over()
        async with standby(host) as instance:
            await has_begun(instance)
        here = True
        async with standby(host) as instance:
            await eventually(lambda: followed.count > 0)
            done, _ = await asyncio.wait([asyncio.create_task(has_begun(instance))], timeout=0.5)
            assert not done


async def test_an_instance_without_the_stream_says_so_and_others_than_peers_are_not_told() -> None:
    async with served(Followed()) as host:
        reader, writer = await asyncio.open_connection(host.host, host.port)
        request = "GET /internal/stream HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{}\r\n"
        peer = f"x-leaderboard-hop: 1\r\nauthorization: Bearer {TOKENS.peer[0]}\r\n"
        writer.write(request.format(peer).encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 409")
        writer.close()
        for headers, status in (("", b"404"), ("x-leaderboard-hop: 1\r\n", b"401")):
            reader, writer = await asyncio.open_connection(host.host, host.port)
            writer.write(request.format(headers).encode())
            assert (await reader.readline()).split()[1] == status
            writer.close()

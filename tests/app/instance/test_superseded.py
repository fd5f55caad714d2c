"""A stream whose checkpoint another driver works on: it is given up where the group knows of no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import Mock

import pytest

from api.cluster.followed import Followed
from app.instance import hand_over
from app.instance.hand_over import HandOver
from app.instance.stream_task import StreamTask
from runtime.cluster.host_metadata import ClusterMap
from tests.drivers.eventually import eventually

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def looking(*, superseded: bool) -> AsyncIterator[tuple[StreamTask, Any]]:
    """Have a stream of epoch 3 looked after in a group; yield both."""
    group: Any = Mock(current=Mock(return_value=ClusterMap((), 4, generation=4)))
    thread = Mock(begun=True, superseded=superseded)
    stream = StreamTask(lambda: thread)
    stream.assign(stream=True, standby=0, epoch=3)
    await eventually(lambda: stream.status is not None)
    task = asyncio.create_task(HandOver(stream, group, Mock(), Followed(), "file:///x").give_up_superseded())
    yield stream, group
    task.cancel()
    await asyncio.wait([task])
    await stream.stop()


@pytest.mark.parametrize(
    ("superseded", "generations", "given_up"), [(True, 1, True), (True, 0, False), (False, 1, False)]
)
async def test_it_is_given_up_when_an_assignment_since_knows_of_nobody(
    *, superseded: bool, generations: int, given_up: bool
) -> None:
    async with looking(superseded=superseded) as (stream, group):
        seen = group.current.call_count
        await eventually(lambda: group.current.call_count >= seen + 2)
        group.current.return_value = ClusterMap((), 4, generation=4 + generations)
        if given_up:
            await eventually(lambda: group.request_rebalance.called)
            assert not stream.held
        else:
            seen = group.current.call_count
            await eventually(lambda: group.current.call_count >= seen + 5)
            assert stream.held


async def test_the_group_is_asked_when_it_does_not_say_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hand_over, "_GROUP_IS_ASKED_AFTER_S", 0.01)
    async with looking(superseded=True) as (stream, group):
        await eventually(lambda: group.request_rebalance.called)
        seen = group.current.call_count
        await eventually(lambda: group.current.call_count >= seen + 3)
        assert group.request_rebalance.call_count == 1
        assert stream.held

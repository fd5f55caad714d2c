"""What an instance tells of its stream while it holds the task."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from app.instance import held_tasks
from app.instance.held_tasks import HeldTasks
from app.instance.stream_task import StreamTask
from runtime.copies.copies import Copies
from runtime.copies.republisher import Republisher
from runtime.stream.status import StreamState, StreamStatus
from tests.drivers.eventually import eventually

pytestmark = pytest.mark.anyio


class Stream:
    """A stream task that says what it is given."""

    def __init__(self, status: StreamStatus, *, fails: bool = False) -> None:
        self.status = status
        self._fails = fails

    def fails(self) -> bool:
        return self._fails

    def failures(self) -> tuple[int, str]:
        return 3, "the JVM does not start"


class Group:
    """A group that has given nothing yet."""

    def __init__(self) -> None:
        self.asked = 0

    def tasks(self) -> None:
        return None

    def current(self) -> None:
        return None

    def request_rebalance(self) -> None:
        self.asked += 1


@pytest.mark.parametrize(
    ("stream", "said", "asked"),
    [
        (
            Stream(StreamStatus(state=StreamState.STARTING, waits_for="Spark's JVM to start", waits_since_s=0.0)),
            "the stream does not get on: it has waited for ",
            0,
        ),
        (
            Stream(StreamStatus(state=StreamState.ERROR, error="the JVM does not start"), fails=True),
            "the stream keeps failing here (the JVM does not start): another instance may take it over",
            1,
        ),
    ],
)
async def test_a_stream_that_does_not_get_on_is_said_once(
    stream: Stream, said: str, asked: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_tasks, "_LOOK_EVERY_S", 0.001)
    tasks = HeldTasks(cast("Copies", None), cast("Republisher", None), cast("StreamTask", stream))
    group = Group()
    looking = asyncio.create_task(tasks.look_after(cast("Any", group)))
    await eventually(lambda: caplog.messages != [], "it is said")
    await asyncio.sleep(0.02)
    looking.cancel()
    assert [message.startswith(said) for message in caplog.messages] == [True]
    assert group.asked == asked

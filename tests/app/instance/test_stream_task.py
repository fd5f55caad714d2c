"""The stream task: there is a stream thread while the instance has the task, whatever making one ran into."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from app.errors import SetupError
from app.instance.stream_task import StreamTask
from runtime.stream.status import StreamState, StreamStatus
from runtime.stream.thread import StreamThread
from tests.drivers.eventually import eventually
from tests.drivers.stream_threads import stream_thread_without_kafka

pytestmark = pytest.mark.anyio

NO_JAVA = SetupError("no java on PATH", "install it")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.instance.stream_task._TRY_AGAIN_AFTER_S", 0.05)


def makes(outcomes: list[Exception | StreamThread]) -> Callable[[], StreamThread]:
    """Return what comes to each of these in turn."""

    def make() -> StreamThread:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return make


def ended(thread: StreamThread) -> bool:
    return thread.status.state is StreamState.STOPPED


@pytest.mark.parametrize("trouble", [NO_JAVA, OSError("cannot fork"), RuntimeError("unforeseen")])
async def test_a_stream_that_cannot_start_is_tried_again(
    tmp_path: Path, trouble: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    outcomes: list[Exception | StreamThread] = [trouble, trouble, stream_thread_without_kafka(tmp_path)]
    task = StreamTask(makes(outcomes))
    task.assign(stream=True, standby=0, epoch=1)
    await eventually(lambda: task.status is not None)
    said = [record.getMessage() for record in caplog.records if record.name == "app.instance.stream_task"]
    assert said == [f"the stream cannot start: {trouble}"]
    assert bool(caplog.records[0].exc_info) == isinstance(trouble, RuntimeError)
    await task.stop()
    assert not task.held


async def test_how_often_a_stream_could_not_start_is_told_with_the_reason_while_that_is_so() -> None:
    task = StreamTask(makes([NO_JAVA] * 100))
    assert task.failures() == (0, "")
    task.assign(stream=True, standby=0, epoch=1)
    try:
        await eventually(lambda: task.failures() == (2, str(NO_JAVA)))
        assert task.trouble() == str(NO_JAVA)
    finally:
        await task.stop()
    assert (task.failures(), task.trouble()) == ((0, ""), None)


async def test_a_stream_that_is_not_wanted_any_more_is_not_tried_again(tmp_path: Path) -> None:
    outcomes: list[Exception | StreamThread] = [NO_JAVA, stream_thread_without_kafka(tmp_path)]
    task = StreamTask(makes(outcomes))
    task.assign(stream=True, standby=0, epoch=1)
    await eventually(lambda: len(outcomes) == 1)
    await asyncio.wait_for(task.stop(), 10)
    assert len(outcomes) == 1
    assert not task.held


async def test_what_a_stop_leaves_behind_is_waited_for_in_the_end(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        thread = stream_thread_without_kafka(tmp_path, f"127.0.0.1:{silent.getsockname()[1]}")
        task = StreamTask(lambda: thread)
        task.assign(stream=True, standby=0, epoch=1)
        await eventually(lambda: task.status is not None and task.status.state is StreamState.STARTING)
        await task.stop()
        assert not ended(thread), "it waits for Kafka"
    await task.end()
    assert ended(thread)


async def test_where_no_stream_can_be_made_for_minutes_another_instance_should_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = False

    def make() -> StreamThread:
        if go_on:
            return stream_thread_without_kafka(tmp_path)
        raise NO_JAVA

    task = StreamTask(make)
    task.assign(stream=True, standby=0, epoch=1)
    assert not task.fails()
    monkeypatch.setattr("app.instance.stream_task.KEEPS_AFTER_S", 0.05)
    await eventually(task.fails)
    go_on = True
    await eventually(lambda: task.status is not None)
    assert not task.fails(), "it could be made"
    await task.stop()
    assert task.fails(), "nor does it come back here at once"
    monkeypatch.setattr("app.instance.stream_task._FAILS_FOR_S", 0.05)
    await eventually(lambda: not task.fails())


@pytest.mark.parametrize("keeps_failing", [True, False])
async def test_a_stream_that_keeps_failing_is_told_and_remembered(*, keeps_failing: bool) -> None:
    thread = Mock(status=StreamStatus(keeps_failing=keeps_failing))
    task = StreamTask(lambda: thread)
    task.assign(stream=True, standby=0, epoch=1)
    await eventually(lambda: task.status is not None)
    assert task.fails() is keeps_failing
    await task.stop()
    assert task.fails() is keeps_failing


async def test_the_epoch_is_that_with_which_the_stream_came_and_stays_when_it_has_left() -> None:
    task = StreamTask(makes([NO_JAVA] * 100))
    task.assign(stream=False, standby=1, epoch=2)
    assert (task.standby, task.epoch) == (1, 0)
    task.assign(stream=True, standby=0, epoch=3)
    assert (task.standby, task.epoch) == (0, 3)
    task.assign(stream=False, standby=2, epoch=4)
    assert (task.standby, task.epoch) == (2, 3)
    await task.stop()
    assert (task.standby, task.epoch) == (0, 3)


class _Warm:
    """A stream thread that does nothing but note what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.begun = self.warm = False
        self.status = StreamStatus()

    def prepare(self) -> None:
        self.told.append("prepare")

    def start(self) -> None:
        self.begun = True
        self.told.append("start")

    def request_stop(self) -> None:
        self.told.append("request_stop")

    def join(self) -> None:
        self.told.append("join")


async def test_a_standby_waits_and_begins_on_the_thread_that_is_warm() -> None:
    threads = [_Warm(), _Warm(), _Warm()]
    made = iter(threads)
    task = StreamTask(lambda: next(made))  # type: ignore[arg-type,return-value]  # in place of threads
    first, second, third = threads
    task.assign(stream=False, standby=1, epoch=1)
    await eventually(lambda: first.told == ["prepare"])
    assert (task.held, task.status, task.trouble(), task.ready) == (False, None, None, False)
    first.warm = True
    await eventually(lambda: task.ready)
    task.take_over(2)
    await eventually(lambda: task.status is not None)
    assert (first.told, task.held, task.epoch) == (["prepare", "start"], True, 2)

    # The group takes the stream away, and names it a standby: on a new thread, since the old one's Spark has ended.
    assert task.assign(stream=False, standby=2, epoch=3)
    await eventually(lambda: second.told == ["prepare"])
    assert ("join" in first.told, task.held) == (True, False)
    # No standby any more.
    task.assign(stream=False, standby=0, epoch=3)
    await eventually(lambda: second.told == ["prepare", "request_stop", "join"])
    task.assign(stream=True, standby=0, epoch=4)
    await eventually(lambda: third.told == ["start"])
    await task.stop()


async def test_a_standby_that_cannot_have_a_thread_says_so() -> None:
    task = StreamTask(makes([NO_JAVA] * 100))
    task.assign(stream=False, standby=1, epoch=1)
    await eventually(lambda: task.failures() == (1, str(NO_JAVA)))
    assert not task.held
    await task.stop()
    assert task.failures() == (0, "")


async def test_a_stream_that_was_given_up_does_not_come_back_by_an_assignment_of_before() -> None:
    task = StreamTask(Mock)
    assert task.assign(stream=True, standby=0, epoch=3)
    await eventually(lambda: task.status is not None)
    await task.give_up()
    assert not task.assign(stream=True, standby=0, epoch=3), "the group does not know yet"
    assert not task.held
    assert task.assign(stream=True, standby=0, epoch=4), "it was given anew"
    await task.stop()

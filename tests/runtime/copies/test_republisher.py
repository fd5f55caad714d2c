"""Windows that are let go are deleted from their topics a few at a time, and again where Kafka did not take it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

import pytest

from runtime.copies import republisher
from runtime.copies.republisher import Republisher
from runtime.copies.result_copy import ResultRecord
from runtime.errors import BrokerUnavailable
from tests.drivers.eventually import eventually
from tests.runtime.copies.test_windows import STORE, Windows
from tests.waiting import UNHURRIED_S

MANY = 450
"""More than are deleted at once."""


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have windows looked for without a pause."""
    monkeypatch.setattr(republisher, "_LOOK_FOR_PASSED_EVERY_S", 0.01)


@pytest.fixture
def driver() -> Windows:
    """Return copies with `MANY` windows that are let go, and one that is not."""
    windows = Windows()
    for number in range(MANY):
        windows.count(f"page {number}", 5 * (number % 3), 1)
    windows.count("kept", 100, 1)
    windows.tell(100)
    return windows


async def _until(
    done: Callable[[], bool], windows: Windows, publish: Callable[[Sequence[ResultRecord]], Awaitable[int]]
) -> None:
    """Have windows deleted by `publish` until something holds."""
    keeper = Republisher(windows.copies, publish)
    keeper.set_partitions(windows.all_partitions)
    task = asyncio.create_task(keeper.let_rows_go())
    try:
        async with asyncio.timeout(UNHURRIED_S):
            await eventually(done)
    finally:
        task.cancel()


class Topic:
    """The result topic: what is published comes back to the copies when they read."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self.sizes: list[int] = []
        self.keys: list[bytes] = []
        self._unread: list[ResultRecord] = []

    async def publish(self, records: Sequence[ResultRecord]) -> int:
        """Take records, of one partition."""
        assert len({record.partition for record in records}) == 1
        self.sizes.append(len(records))
        self.keys += [record.key for record in records]
        self._unread += records
        asyncio.get_running_loop().call_soon(self.read)
        return self._windows.copy(STORE, records[0].partition).position + len(records) - 1

    def read(self) -> None:
        """Have the copies read what has been published."""
        for record in self._unread:
            self._windows.publish_again(record)
        self._unread.clear()


async def test_windows_are_deleted_a_few_at_a_time_and_each_once(driver: Windows) -> None:
    topic = Topic(driver)
    await _until(lambda: driver.views[STORE].count(driver.all_partitions) == 1, driver, topic.publish)
    assert driver.of("kept") == [(100, 1)]
    assert max(topic.sizes) == 100
    assert sum(topic.sizes) == len(set(topic.keys)) == MANY


async def test_what_kafka_does_not_take_is_deleted_later(driver: Windows) -> None:
    topic = Topic(driver)
    refusals: Iterator[int] = iter(range(5))

    async def publish(records: Sequence[ResultRecord]) -> int:
        if next(refusals, None) is not None:
            raise BrokerUnavailable("its partition has no leader")
        return await topic.publish(records)

    await _until(lambda: driver.views[STORE].count(driver.all_partitions) == 1, driver, publish)
    assert next(refusals, None) is None
    assert len(set(topic.keys)) == MANY


async def test_a_window_that_comes_late_goes_as_well(driver: Windows) -> None:
    topic = Topic(driver)
    await _until(lambda: driver.views[STORE].count(driver.all_partitions) == 1, driver, topic.publish)
    driver.count("page 1", 0, 1)
    await _until(lambda: driver.of("page 1") is None, driver, topic.publish)

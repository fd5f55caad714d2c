"""Spark is kept warm until the stream begins: when that is wanted, again when it fails or its JVM has ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from runtime.errors import QueryFailed
from runtime.stream import warm_up
from runtime.stream.stopping import Stopped
from runtime.stream.warm_up import Warmth
from tests.waiting import wait_until


class Steps:
    """Warming up one store, as told: what is raised at each time, None where it works."""

    def __init__(self, *outcomes: BaseException | None) -> None:
        self.done = 0
        self._outcomes = list(outcomes)

    def run(self) -> None:
        self.done += 1
        outcome = self._outcomes.pop(0) if self._outcomes else None
        if outcome is not None:
            raise outcome


@pytest.fixture(autouse=True)
def _in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_PAUSE_S", "_AGAIN_AFTER_S", "_LOOK_EVERY_S"):
        monkeypatch.setattr(warm_up, name, 0.001)


@contextmanager
def kept(warmth: Warmth, *stores: Steps, lives: Callable[[], bool] = lambda: True) -> Iterator[threading.Thread]:
    steps: Any = stores
    thread = threading.Thread(target=warmth.keep, args=(steps, lives))
    thread.start()
    try:
        yield thread
    finally:
        warmth.left.set()
        thread.join()


def test_nothing_is_warmed_up_before_it_is_wanted() -> None:
    warmth, first, second = Warmth(), Steps(), Steps()
    with kept(warmth, first, second) as thread:
        thread.join(0.05)
        assert (first.done, warmth.there) == (0, False)
        warmth.wanted.set()
        wait_until(lambda: warmth.there, "it is warm")
        assert (first.done, second.done) == (1, 1)
        thread.join(0.05)
        assert (first.done, second.done) == (1, 1), "once is enough"
    assert not warmth.there


def test_what_fails_is_tried_again_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    warmth, steps = Warmth(), Steps(QueryFailed("no room"), QueryFailed("no room"), None)
    warmth.wanted.set()
    with kept(warmth, steps):
        wait_until(lambda: warmth.there, "it is warm")
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said == ["Spark could not be warmed up for a take-over: no room"]


@pytest.mark.parametrize("error", [OSError("no room"), ZeroDivisionError(), asyncio.CancelledError()])
def test_what_nobody_foresaw_is_said_and_tried_again(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    warmth, steps = Warmth(), Steps(error, None)
    warmth.wanted.set()
    with kept(warmth, steps):
        wait_until(lambda: warmth.there, "it is warm")
    (said,) = (record for record in caplog.records if record.levelname == "WARNING")
    assert repr(error) in said.getMessage()
    assert said.exc_info


def test_a_jvm_that_has_ended_is_made_anew() -> None:
    lives = False
    warmth, steps = Warmth(), Steps()
    warmth.wanted.set()
    with kept(warmth, steps, lives=lambda: lives):
        wait_until(lambda: steps.done >= 3, "it is warmed up again and again")
        lives = True
        wait_until(lambda: warmth.there, "it is warm")


def test_it_leaves_the_work_at_hand_when_the_stream_begins() -> None:
    warmth, steps = Warmth(), Steps(Stopped())
    warmth.wanted.set()
    with kept(warmth, steps, Steps()) as thread:
        thread.join(10)
        assert not thread.is_alive()
    assert not warmth.there

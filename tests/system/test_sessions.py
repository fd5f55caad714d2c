"""Sessions over HTTP by a clock that the test sets: when one is there, what late events do, and when it is let go."""

from __future__ import annotations

import json
import re
import time
from itertools import count
from pathlib import Path

import pytest

from app.java.broker import Broker
from runtime.windows import Session, time_text
from tests.drivers.counted import Counted
from tests.drivers.instance import Instance
from tests.waiting import wait_until
from topology.sessions import SESSIONS

pytestmark = pytest.mark.system

STORE = SESSIONS.stores[0]
HOUR_MS = 3_600_000
BROWSER = "b1"
BESIDE = next(
    name
    for name in (f"beside {number}" for number in count())
    if STORE.partition_for(name, STORE.partitions) == STORE.partition_for(BROWSER, STORE.partitions)
)
"""What is let go of both is let go in the order of time."""
AGAIN_S = 0.2


class Scene:
    """An instance, and the time that its events say it is."""

    def __init__(self, world: Counted, instance: Instance) -> None:
        self.world = world
        self.instance = instance

    def act(self, browser: str, *times_ms: int) -> None:
        """Have a browser do something at some times, in milliseconds from 1970."""
        for at_ms in times_ms:
            self.world.send(json.dumps({"browserHash": browser}), partition=0, at_ms=at_ms)

    def tell_time(self, at_ms: int) -> None:
        """Have stream time come to an instant, and wait until it is told to the copies."""
        self.act("clock", at_ms)
        told = self.world.told_ms
        wait_until(lambda: told() == at_ms, lambda: f"{at_ms} is told: {told()}", every_s=AGAIN_S)

    def sessions(self, browser: str = BROWSER) -> dict[str, tuple[str, int]] | int:
        """Return the sessions of a browser: when each ends, and its actions, by its begin; or the status."""
        answer = self.instance.get(f"/stores/{STORE.name}/keys/{browser}")
        if answer.status_code != 200:
            return answer.status_code
        return {row["windowStart"]: (row["windowEnd"], row["actions"]) for row in answer.json()}

    def until_served(self, expected: dict[str, tuple[str, int]] | int, browser: str = BROWSER) -> None:
        """Wait until these are the sessions of a browser."""

        def served() -> bool:
            return self.sessions(browser) == expected

        wait_until(served, lambda: f"{self.sessions(browser)}, to be {expected}", every_s=AGAIN_S)

    def late(self) -> float:
        """Return how many rows have come too late."""
        (found,) = re.findall(r"^leaderboard_late_rows_total (.*)$", self.instance.get("/metrics").text, re.MULTILINE)
        return float(found)


def test_a_session_is_there_from_the_end_of_its_grace_to_the_end_of_its_keep(tmp_path: Path) -> None:
    window = STORE.window
    assert isinstance(window, Session)
    with Broker(tmp_path / "kafka") as broker:
        world = Counted(broker.connection, SESSIONS)
        with Instance(tmp_path / "instance", broker.bootstrap_servers, TOPOLOGY="sessions") as instance:
            see_by_the_clock(Scene(world, instance), window)


def see_by_the_clock(scene: Scene, window: Session) -> None:
    """Have time go on from a first event, and look at the sessions right at each time that matters."""
    scene.instance.wait_for_real_time()
    begin_ms = int(time.time() * 1000) - 3 * HOUR_MS
    end_ms = begin_ms + 10_000 + window.gap_ms
    there_ms = end_ms + window.grace_ms + 1
    scene.act(BROWSER, begin_ms + 10_000, begin_ms)
    scene.act(BESIDE, begin_ms + 9_999)
    for at_ms in (end_ms, end_ms + 1, there_ms - 1):
        scene.tell_time(at_ms)
        assert scene.sessions() == 404, at_ms - end_ms
    scene.tell_time(there_ms)
    first = {time_text(begin_ms): (time_text(end_ms), 2)}
    scene.until_served(first)

    # One that comes late begins another session while it is not older than the grace allows.
    late, other_ms = scene.late(), begin_ms + 20_000
    scene.act(BROWSER, begin_ms + 9_999)
    wait_until(lambda: scene.late() == late + 1, lambda: f"{scene.late()} too late, before {late}", every_s=AGAIN_S)
    scene.act(BROWSER, other_ms)
    other_end_ms = other_ms + window.gap_ms
    scene.tell_time(other_end_ms + window.grace_ms + 1)
    other = {time_text(other_ms): (time_text(other_end_ms), 1)}
    scene.until_served({**first, **other})

    scene.tell_time(end_ms + window.keep_ms - 1)
    scene.until_served(404, BESIDE)
    assert scene.sessions() == {**first, **other}
    scene.tell_time(end_ms + window.keep_ms)
    scene.until_served(other)
    scene.tell_time(end_ms + window.keep_ms + 1)
    assert scene.sessions() == other
    scene.tell_time(other_end_ms + window.keep_ms)
    scene.until_served(404)

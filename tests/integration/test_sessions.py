"""Sessions on a real broker and real Spark: they are those of all events, also when the checkpoint is lost."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from app.java.broker import Broker
from runtime.windows import STREAM_TIME_KEY, WindowKey, ms_of
from tests.drivers.counted import Counted, merged
from tests.drivers.paced_topologies import Event, ended, sessions
from tests.drivers.raw_records import RawRecord, send_raw
from tests.drivers.stream_process import StreamProcess, running
from tests.waiting import wait_until


class Scene:
    """The topics, what was sent, and what is published."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.world = Counted(broker.connection, sessions(name))
        self.store = self.world.topology.stores[0]
        self.begin_ms = int(time.time() * 1000) - 3_600_000
        self.events: list[Event] = []

    def send(self, *events: tuple[str, float], partition: int = 0, too_late: bool = False) -> None:
        """Send events: whose, and how many seconds after the first they were."""
        said = [Event(key, self.begin_ms + round(after_s * 1000)) for key, after_s in events]
        records = [RawRecord(each.key.encode(), each.at_ms) for each in said]
        send_raw(self.world.kafka, self.world.source, partition, records)
        self.events += [] if too_late else said

    def rows(self) -> dict[WindowKey, tuple[int, int]]:
        """Return what a copy holds that has read the topic."""
        held = merged(self.store, [each for each in self.world.records() if each.key != STREAM_TIME_KEY])
        parse = self.store.row_key.parse
        values = {parse(key): result.values for key, result in held.items()}
        return {key: (ms_of(each["windowEnd"]), each["count"]) for key, each in values.items()}

    def until_told(self) -> None:
        """Wait until it is told on the topic how far the events have come."""
        newest_ms = max(each.at_ms for each in self.events)
        told = self.world.told_ms
        wait_until(
            lambda: told() == newest_ms, lambda: f"stream time is told: {told()}, to be {newest_ms}", every_s=0.2
        )

    def written(self) -> list[bytes]:
        """Return the keys of the results on the topic, in order."""
        return [each.key for each in self.world.records() if each.key != STREAM_TIME_KEY]

    def until_exact(self) -> None:
        """Wait until the sessions are published that have ended, and no others."""
        wait_until(
            lambda: self.rows() == ended(self.events), lambda: f"exact: {self.rows()}, to be {ended(self.events)}",
            every_s=0.2,
        )  # fmt: skip


@pytest.mark.system
def test_sessions_are_exact_live_and_after_a_restart_and_when_the_checkpoint_is_lost(
    broker: Broker, tmp_path: Path
) -> None:
    scene = Scene(broker, "ended")
    checkpoint = tmp_path / "checkpoint"
    stream = StreamProcess(
        "tests.drivers.paced_topologies:sessions", "ended", broker.bootstrap_servers, tmp_path / "own", checkpoint
    )
    # A partition that is far ahead makes none of the others late.
    scene.send(("a", 1000), ("b", 1010), partition=0)
    scene.send(("a", 0), ("a", 30), ("b", 1), ("a", 60.001), ("a", 980), partition=1)
    with running(stream):
        stream.until_running()
        # What waited has been read: nothing else has to come for the sessions that have ended.
        assert scene.rows() == ended(scene.events)
        assert len(scene.rows()) == 3
        # Who is killed before they are written finds how far it was read.
        (noted,) = checkpoint.rglob("newest-event")
        assert int(noted.read_text()) == max(each.at_ms for each in scene.events)
        # Sessions that are open go on, also with an event that is late, but not too late.
        scene.send(("a", 1020), ("b", 1005), ("c", 1030), partition=1)
        scene.send(("c", 1075), partition=0)
        scene.until_exact()
        scene.send(("b", 900), ("a", 500), partition=0, too_late=True)
        scene.send(("d", 1120), partition=0)
        scene.until_exact()
        stream.kill()
    scene.send(("d", 1140), ("e", 1100), partition=0)
    with running(stream):
        scene.until_exact()
        stream.until_running()
        scene.send(("d", 1170), partition=1)
        scene.send(("f", 1175), partition=1)
        scene.until_exact()
        scene.until_told()
        stream.kill()
    before, written = scene.rows(), scene.written()
    shutil.rmtree(checkpoint)
    with running(stream):
        stream.until_running()
        assert stream.status["generation"] == 2
        assert scene.rows() == before
        assert sorted(scene.written()) == sorted(written), "nothing is written again"
        # The session that was open has all of its events.
        scene.send(("f", 1300), partition=1)
        scene.until_exact()
        assert scene.rows()[WindowKey("d", scene.begin_ms + 1_120_000)][1] == 3
        stream.stop()


@pytest.mark.system
def test_another_version_of_a_store_has_the_sessions_that_had_ended_before_it(broker: Broker, tmp_path: Path) -> None:
    scene = Scene(broker, "again")
    first, second = (
        StreamProcess(
            f"tests.drivers.paced_topologies:{topology}", "again", broker.bootstrap_servers, tmp_path / topology,
            tmp_path / "checkpoint",
        )
        for topology in ("sessions", "sessions_of_version_2")
    )  # fmt: skip
    scene.send(("a", 0), ("a", 30), ("b", 1), ("a", 1000), ("c", 1100))
    with running(first):
        first.until_running()
        scene.until_exact()
        scene.until_told()
        first.stop()
    with running(second):
        second.until_running()
        newest = {each.key: dict(each.headers).get("version") for each in scene.world.records()}
        del newest[STREAM_TIME_KEY]
        assert [*newest.values()] == [b"2"] * 3
        scene.until_exact()
        second.stop()

"""Another version of a store on a real broker and real Spark: what earlier ones left goes when it has caught up."""

from __future__ import annotations

from pathlib import Path

from app.java.broker import Broker
from runtime.results import delete_headers
from runtime.stream.status import StreamState
from tests.drivers.counted import Counted
from tests.drivers.stream_process import StreamProcess, running
from tests.drivers.word_topologies import long_words, word_count, words_in, words_in_windows
from tests.waiting import wait_until


def _stream(broker: Broker, topology: str, name: str, directory: Path) -> StreamProcess:
    return StreamProcess(
        f"tests.drivers.word_topologies:{topology}", name, broker.bootstrap_servers, directory / topology,
        directory / "checkpoint",
    )  # fmt: skip


def test_rows_that_another_version_does_not_have_are_gone_when_it_has_caught_up(broker: Broker, tmp_path: Path) -> None:
    world = Counted(broker.connection, word_count("versions"))
    world.send("a hello b", "hello a kafka", "summit")
    with running(_stream(broker, "word_count", "versions", tmp_path)) as stream:
        stream.until_running()
        world.until_counted(words_in)
        stream.stop()
    # Of words without events that Kafka still has, nothing is left to make a row of.
    world.take()
    world.send("b kafka c", "hello")
    (store,) = long_words("versions").stores
    with running(_stream(broker, "long_words", "versions", tmp_path)) as stream:
        # In real time, so it has caught up.
        stream.until_running()
        assert world.counts(store) == {"kafka": 1, "hello": 1}
        assert _deleted(world) == {"a", "b", "summit"}
        world.send("a hello d hello")
        wait_until(lambda: world.counts(store) == {"kafka": 1, "hello": 3}, "it goes on", every_s=0.2)
        stream.stop()
    assert [path.name for path in (tmp_path / "checkpoint").glob("*-v*")] == ["counts-store-v2"]
    tombstones = _tombstones(world)
    with running(_stream(broker, "long_words", "versions", tmp_path)) as stream:
        stream.until_running()
        stream.stop()
    assert _tombstones(world) == tombstones == 3, "they are deleted once"
    assert world.counts(store) == {"kafka": 1, "hello": 3}


def _deleted(world: Counted) -> set[str]:
    """Return the keys whose last record deletes results of earlier versions."""
    last = {record.key.decode(): record for record in world.records()}
    return {key for key, each in last.items() if each.value is None and list(each.headers) == delete_headers(2)}


def _tombstones(world: Counted) -> int:
    return sum(record.value is None for record in world.records())


def test_windows_of_another_length_are_refused_under_the_same_version(broker: Broker, tmp_path: Path) -> None:
    world = Counted(broker.connection, words_in_windows("lengths"))
    world.send(f"{1_764_061_200_000} a b", at_ms=1_764_061_200_000)
    with running(_stream(broker, "words_in_windows", "lengths", tmp_path)) as stream:
        stream.until_running()
        stream.stop()
    written = len(world.records())
    with running(_stream(broker, "words_in_longer_windows", "lengths", tmp_path)) as stream:
        status = stream.until(lambda each: each["state"] == StreamState.ERROR.value, "it is refused")
        assert status["failures"] == {}, "it is not tried again"
        has, noted = "windows of 15 s every 5 s", "windows of 10 s every 5 s"
        assert status["error"] == f"store counts-store has {has}, and its results {noted}: raise its version"
        stream.stop()
    assert len(world.records()) == written

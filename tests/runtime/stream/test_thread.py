"""The stream thread as its owner sees it while Kafka does not answer."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from aiokafka import TopicPartition

from runtime import Key, Text
from runtime.errors import GenerationOutdated, TopicChanged
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.ids import TopicDescription
from runtime.kafka.inspected import Judged
from runtime.spark.query import BatchReport
from runtime.spark.session import SparkSettings
from runtime.stream.freshness import Freshness
from runtime.stream.status import StreamState
from runtime.stream.store_stream import StoreStream
from runtime.stream.thread import StreamSettings, StreamThread
from runtime.stream.upkeep import Upkeep
from runtime.stream.work import Work
from tests.drivers.stream_threads import TOWNS, VISITS, NoTables, stream_thread_without_kafka
from tests.drivers.word_topologies import products_and_kinds
from tests.waiting import wait_until


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_thread_that_was_not_waited_for_ends_before_the_next_begins(tmp_path: Path, silent: str) -> None:
    first = stream_thread_without_kafka(tmp_path / "first", silent)
    first.start()
    wait_until(lambda: first.status.waits_for is not None, "it asks for the topics")
    assert first.status.waits_for == "Kafka to describe the topics"
    first.request_stop()
    first.join(0.1)
    assert not ended(first), "it waits for Kafka"

    second = stream_thread_without_kafka(tmp_path / "second")
    second.start()
    wait_until(lambda: second.status.error is not None, "it has found that there is no Kafka")
    assert ended(first)
    second.request_stop()
    second.join()
    assert ended(second)


def test_a_thread_that_is_stopped_before_its_turn_never_begins(tmp_path: Path, silent: str) -> None:
    first, second = stream_thread_without_kafka(tmp_path, silent), stream_thread_without_kafka(tmp_path)
    first.start()
    wait_until(lambda: first.status.state is StreamState.STARTING, "it asks for the topics")
    second.start()
    second.request_stop()
    first.request_stop()
    wait_until(lambda: ended(second), "both have ended")
    assert ended(first)
    assert second.status.error is None


def test_copies_of_a_table_that_was_created_anew_are_waited_for_until_they_are_of_the_new_one(tmp_path: Path) -> None:
    stream = only_stream(stream_thread_without_kafka(tmp_path, tables=(tables := TablesCreatedAnew())))
    stream._choice._await_tables({TOWNS: TopicDescription("new", 1)})  # noqa: SLF001
    assert tables.told == ["old", "old", "new"]


def test_copies_are_not_waited_for_when_their_topic_is_another_one_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = only_stream(stream_thread_without_kafka(tmp_path, tables=TablesCreatedAnew()))
    monkeypatch.setattr(stream.topics, "look", Mock(side_effect=TopicChanged("topic towns was deleted")))
    with pytest.raises(TopicChanged):
        stream._choice._await_tables({TOWNS: TopicDescription("of a moment ago", 1)})  # noqa: SLF001


def test_copies_of_a_table_that_no_rows_are_made_with_are_not_waited_for(tmp_path: Path) -> None:
    shown_only = replace(VISITS, stores=[replace(VISITS.stores[0], rows=None, key=Key("text", Text))])
    settings = StreamSettings(
        shown_only, SparkSettings(KafkaConnection("localhost:1"), (), tmp_path, tmp_path), "v", ""
    )
    stream = only_stream(StreamThread(settings, NoTables()))
    stream._choice._await_tables({})  # noqa: SLF001


class LooksAtTowns(Upkeep):
    looks_at = (TOWNS,)


class TablesThatCome(NoTables):
    """Tables that are whole when somebody has asked for that often enough."""

    asked = 0

    def caught_up(self) -> bool:
        self.asked += 1
        return self.asked == 3


def test_tables_that_an_upkeep_alone_looks_at_are_waited_for(tmp_path: Path) -> None:
    shown_only = replace(VISITS.stores[0], rows=None, key=Key("text", Text))
    looked_at = replace(VISITS, stores=[shown_only], upkeep=LooksAtTowns)
    settings = StreamSettings(looked_at, SparkSettings(KafkaConnection("localhost:1"), (), tmp_path, tmp_path), "v", "")
    stream = only_stream(StreamThread(settings, tables := TablesThatCome()))
    stream._choice._await_tables({})  # noqa: SLF001
    assert tables.asked == 3


def test_each_store_of_a_topology_has_a_stream_and_one_of_them_writes_dead_letters(tmp_path: Path) -> None:
    second = replace(VISITS.stores[0], name="other-store", topic="others")
    several = replace(VISITS, stores=[*VISITS.stores, second])
    settings = StreamSettings(several, SparkSettings(KafkaConnection("localhost:1"), (), tmp_path, tmp_path), "v", "")
    thread = StreamThread(settings, NoTables(), {"other-store": (freshness := Freshness())})
    streams = thread._streams  # noqa: SLF001
    assert [stream.name for stream in streams] == ["visits-store", "other-store"]
    assert [stream._letters is not None for stream in streams] == [True, False]  # noqa: SLF001
    assert streams[1].freshness is freshness
    assert streams[0].freshness is not freshness
    assert thread.status.state is StreamState.CREATED


def test_two_stores_that_one_query_makes_have_one_stream(tmp_path: Path) -> None:
    both = products_and_kinds("both")
    settings = StreamSettings(both, SparkSettings(KafkaConnection("localhost:1"), (), tmp_path, tmp_path), "v", "")
    freshness = {"products-store": Freshness(), "kinds-store": Freshness()}
    stream = only_stream(StreamThread(settings, NoTables(), freshness))
    assert stream.name == "products-store"
    freshness["products-store"].generation, freshness["kinds-store"].generation = 3, 4
    assert stream.freshness.generation == 4


def test_a_report_is_held_to_the_checkpoint_once_its_batch_was_run(tmp_path: Path) -> None:
    stream = only_stream(stream_thread_without_kafka(tmp_path))
    at = TopicPartition("visits", 0)
    work: Any = SimpleNamespace(
        log=SimpleNamespace(ends_of=lambda _: {at: 9}),
        topic_ids={"visits": "id"},
        spark=SimpleNamespace(counts_state=True),
    )
    waits = BatchReport(3, 0, 0, 0, 0, begin={at: 5}, positions={at: 5}, duration_s=0.1, was_run=False)
    # An event has come since it was told, and the batch was planned.
    stream.count(work, waits)
    stream.count(work, waits._replace(positions={at: 9}, was_run=True))
    with pytest.raises(GenerationOutdated, match="the checkpoint says"):
        stream.count(work, waits._replace(was_run=True))


def test_results_of_a_later_generation_have_another_one_begin_if_they_are_there(tmp_path: Path) -> None:
    tables = TablesCreatedAnew()
    stream = only_stream(stream_thread_without_kafka(tmp_path, tables=tables))
    stream.freshness = freshness = Freshness()
    published = Mock(return_value=0)
    work: Any = SimpleNamespace(generation=SimpleNamespace(number=4))
    work.look_for_newer = lambda: Work.check_newest(work, published())
    for of_results, looks in [(4, 0), (5, 1), (5, 1), (5, 1)]:
        # They went with a topic that was created anew.
        freshness.generation = of_results
        assert stream.plan(work, {}) is None
        assert published.call_count == looks
    published.return_value = freshness.generation = 6
    with pytest.raises(GenerationOutdated, match="results of generation 6 are published, it is 4"):
        stream.plan(work, {})


def test_what_retention_has_taken_before_it_was_committed_asks_for_another_generation(tmp_path: Path) -> None:
    stream = only_stream(stream_thread_without_kafka(tmp_path))
    at, other = TopicPartition("visits", 0), TopicPartition("visits", 1)
    choice, work = stream._choice, Mock()  # noqa: SLF001
    choice._topics = Mock(events=lambda: SimpleNamespace(begin={at: 7, other: 0}))  # noqa: SLF001
    for committed in (None, {at: 7}, {other: 5}, {at: 9, other: 0}):
        work.log.done.return_value = None if committed is None else SimpleNamespace(ends=committed)
        choice.check_kept(work)
    work.log.done.return_value = SimpleNamespace(ends={at: 6})
    with pytest.raises(GenerationOutdated, match="partition 0 of visits begins at 7, and was read to 6"):
        choice.check_kept(work)


def only_stream(thread: StreamThread) -> StoreStream:
    (stream,) = thread._streams  # noqa: SLF001
    return stream


class TablesCreatedAnew(NoTables):
    """Tables that are whole, at first as they were before their topic was created anew."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def caught_up(self) -> bool:
        return True

    def judged(self) -> Iterable[Judged]:
        self.told.append("new" if len(self.told) == 2 else "old")
        return [Judged(TOWNS, self.told[-1], 0, 0, 1, unusable=False)]


def ended(thread: StreamThread) -> bool:
    return thread.status.state is StreamState.STOPPED

"""The look at some events on a real broker, and the boards of a stream that begins with it."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import random
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from pyspark.sql import DataFrame

from app.java.broker import Broker
from runtime.errors import QueryFailed
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.ids import TopicDescription, topic_ids
from runtime.kafka.topics import create_missing, outputs_of
from runtime.stream import store_stream
from runtime.stream.plan import Next, Plan
from runtime.stream.thread import StreamThread
from runtime.stream.turn import Turn
from runtime.stream.work import Work
from tests.drivers.faults_topics import Topics
from tests.drivers.periods import NAMES, DatedScores, period
from tests.drivers.producer import Inputs
from tests.drivers.raw_records import RawRecord, send_raw
from tests.drivers.stream_threads import SmallTables, running, settings_of
from tests.drivers.topic_reader import read_topic
from tests.waiting import UNHURRIED_S, wait_until
from topology.leaderboard import first_look, period_upkeep, upkeep
from topology.leaderboard.board import leaderboard
from topology.leaderboard.first_look import FirstLook, SeenEvents, Which
from topology.leaderboard.period_query import narrowed
from topology.leaderboard.periods import ALL, Periods
from topology.leaderboard.query import above_floor
from topology.leaderboard.topics import HIGH_SCORES, MODERATION, PERIOD_BOARDS, PLAYERS, PRODUCTS, SCORE_EVENTS
from topology.leaderboard.upkeep import LeaderboardUpkeep

EVENTS = 320
PARTITIONS = 4
SHARE = EVENTS // PARTITIONS // 8
"""Of a partition, so many of the newest are looked at."""
FEW = Which(most=SHARE * PARTITIONS, pieces=1)
DEPTH = 2
DAY_MS = 86_400_000
NS = 1_795_622_429_884_000_000
"""A time in nanoseconds, which Spark cannot read as one in milliseconds."""


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inputs]:
    """A broker of its own with empty topics, where some hundred events are a long backlog."""
    monkeypatch.setattr(first_look, "_FROM_EVENTS", EVENTS)
    monkeypatch.setattr(LeaderboardUpkeep, "first_look", lambda _, kafka, topics: FirstLook(kafka, topics, which=FEW))
    with Broker(tmp_path / "kafka") as broker:
        inputs = Inputs(broker.connection)
        inputs.create_topics()
        yield inputs


def looked(kafka: KafkaConnection, which: Which = FEW, boards: Sequence[str] = (HIGH_SCORES,)) -> SeenEvents | None:
    """Look until everything has been seen that there is to see."""
    topics = asyncio.run(topic_ids(kafka, [SCORE_EVENTS, *boards]))
    with FirstLook(kafka, topics, boards, which) as look:
        wait_until(look._looked.done, "it has looked")  # noqa: SLF001  # taking it would end it
        return look.take()


def send(inputs: Inputs, scores: list[float]) -> None:
    """Send scores of player and product 1, the same number to each partition, in this order."""
    for partition in range(PARTITIONS):
        inputs.scores([(score, 1, 1) for score in scores[partition::PARTITIONS]], partition)


def test_the_newest_of_each_partition_are_seen(inputs: Inputs) -> None:
    send(inputs, [float(score) for score in range(EVENTS)])
    newest = looked(inputs.kafka)
    assert newest is not None
    assert sorted(newest.events["score"].to_pylist()) == [float(score) for score in range(EVENTS * 7 // 8, EVENTS)]
    assert newest.begin == dict.fromkeys(range(PARTITIONS), EVENTS // PARTITIONS - SHARE)


def test_some_are_seen_from_all_over_the_backlog_each_of_them_once(inputs: Inputs) -> None:
    # Each partition is one batch, which comes whole for each piece of it.
    send(inputs, [float(score) for score in range(EVENTS)])
    some = looked(inputs.kafka, Which(most=EVENTS // 8, pieces=5))
    assert some is not None
    # Two of each fifth of 80, those of the last partition the farthest from its end.
    offsets = {
        partition: [80 - 16 * piece - 4 * partition - each for piece in range(5) for each in (1, 2)]
        for partition in range(PARTITIONS)
    }
    expected = sorted(4 * offset + partition for partition, of in offsets.items() for offset in of)
    assert sorted(map(int, some.events["score"].to_pylist())) == expected
    assert some.begin == {partition: 14 - 4 * partition for partition in range(PARTITIONS)}
    assert some.still_there(some.begin)
    assert not some.still_there({**some.begin, 1: 11})


def test_what_was_aborted_or_cannot_be_used_is_not_seen(inputs: Inputs, monkeypatch: pytest.MonkeyPatch) -> None:
    # Where a transaction has ended, no record is the last.
    monkeypatch.setattr(first_look, "_WITHIN_S", math.inf)
    send(inputs, [1.0] * EVENTS)
    inputs.send(SCORE_EVENTS, [(None, b"?")] * 8)
    inputs.aborted_scores([(9.0, 1, 1)] * 8)
    newest = looked(inputs.kafka)
    assert newest is not None
    assert set(newest.events["score"].to_pylist()) == {1.0}


def test_a_partition_without_events_is_not_waited_for(inputs: Inputs) -> None:
    inputs.scores([(float(score), 1, 1) for score in range(EVENTS)], 2)
    newest = looked(inputs.kafka)
    assert newest is not None
    assert newest.begin[0] == 0
    assert newest.events.num_rows == SHARE


def test_a_short_backlog_is_not_looked_at(inputs: Inputs) -> None:
    send(inputs, [1.0] * (EVENTS - PARTITIONS))
    assert looked(inputs.kafka) is None


def test_where_there_are_boards_nothing_is_looked_at(inputs: Inputs) -> None:
    send(inputs, [1.0] * EVENTS)
    inputs.send(HIGH_SCORES, [(b"1", b"{}")])
    assert looked(inputs.kafka) is None


def test_where_there_is_one_kind_of_boards_and_not_the_other_the_events_are_looked_at(inputs: Inputs) -> None:
    send(inputs, [1.0] * EVENTS)
    inputs.send(HIGH_SCORES, [(b"1", b"{}")])
    both = (HIGH_SCORES, MODERATION)
    assert looked(inputs.kafka, boards=both) is not None
    inputs.send(MODERATION, [(b"player/1", None)])
    assert looked(inputs.kafka, boards=both) is None


def test_a_look_that_is_taken_early_has_what_was_seen_until_then(
    inputs: Inputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    getmany, has_one = AIOKafkaConsumer.getmany, threading.Event()

    async def of_one_partition(consumer: AIOKafkaConsumer, *places: TopicPartition, timeout_ms: int) -> Any:
        if has_one.is_set():
            await asyncio.sleep(timeout_ms / 1000)
            return {}
        seen = await getmany(consumer, places[0], timeout_ms=30_000)
        has_one.set()
        return seen

    monkeypatch.setattr(AIOKafkaConsumer, "getmany", of_one_partition)
    monkeypatch.setattr(first_look, "_WITHIN_S", math.inf)
    send(inputs, [1.0] * EVENTS)
    topics = asyncio.run(topic_ids(inputs.kafka, [SCORE_EVENTS, HIGH_SCORES]))
    with FirstLook(inputs.kafka, topics, which=FEW) as look:
        assert has_one.wait(UNHURRIED_S)
        newest = look.take()
    assert newest is not None
    assert newest.events.num_rows == SHARE


def test_a_kafka_that_does_not_answer_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    topics = {HIGH_SCORES: TopicDescription("a", 4), SCORE_EVENTS: TopicDescription("b", 4)}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port, why in ((1, "Kafka at 127.0.0.1:1 does not answer"), (silent.getsockname()[1], "takes too long")):
            began_s = time.monotonic()
            with FirstLook(KafkaConnection(f"127.0.0.1:{port}"), topics) as look:
                assert look.take() is None
            assert time.monotonic() - began_s < 10, "a request waits for 40 s"
            assert why in caplog.messages[-1]


class TestABacklogThatBeginsWithALook:
    """Boards have to come out that are exact, with floors that drop most of the backlog."""

    @pytest.fixture(autouse=True)
    def seen(self, monkeypatch: pytest.MonkeyPatch) -> list[SeenEvents]:
        """Have a stream wait for a look: it takes what was seen until Spark runs, and here that runs already."""
        take, seen = FirstLook.take, []

        def taken(look: FirstLook) -> SeenEvents | None:
            wait_until(look._looked.done, "it has looked")  # noqa: SLF001  # taking it would end it
            if (events := take(look)) is not None:
                seen.append(events)
            return events

        monkeypatch.setattr(FirstLook, "take", taken)
        monkeypatch.setattr(first_look, "_WITHIN_S", math.inf)
        return seen

    @pytest.mark.system
    def test_its_boards_are_those_of_all_events(
        self, tmp_path: Path, inputs: Inputs, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # That the first generation begins is no warning.
        caplog.set_level(logging.INFO)
        floors: list[DataFrame] = []

        def noting(events: DataFrame, of_query: DataFrame, keys: Sequence[str]) -> DataFrame:
            floors.append(of_query)
            return above_floor(events, of_query, keys)

        monkeypatch.setattr(upkeep, "above_floor", noting)
        scores = sent(inputs)
        with running(stream(tmp_path, inputs.kafka, small_tables(inputs.kafka))):
            assert boards(inputs.kafka) == expected(scores)
            wait_until(lambda: len(floors) == 2, "there is a query in real time")
            # New scores do not wait until all boards have been read once more.
            of_newest = last_places(scores_of_look(scores))
            assert [dict(map(tuple, each.collect())) for each in floors] == [of_newest] * 2
            assert of_newest != last_places(scores)
        assert caplog.text.count("generation begins") == 1

    @pytest.mark.faults
    def test_a_query_that_did_not_keep_up_is_followed_by_one_with_the_floors_of_all_boards(
        self, tmp_path: Path, inputs: Inputs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        floors: list[DataFrame] = []

        def noting(events: DataFrame, of_query: DataFrame, keys: Sequence[str]) -> DataFrame:
            floors.append(of_query)
            return above_floor(events, of_query, keys)

        turns = iter([(Plan(Next.CATCH_UP, "events wait"), None)])
        run = Turn.run
        monkeypatch.setattr(upkeep, "above_floor", noting)
        monkeypatch.setattr(Turn, "run", lambda turn: next(turns, None) or run(turn))
        monkeypatch.setattr(store_stream, "_SHORT_BACKLOG_EVENTS", -1)
        scores = sent(inputs)
        with running(stream(tmp_path, inputs.kafka, small_tables(inputs.kafka))):
            # Of the backlog, of the query that gave way, of what waited then, and of the one in real time after it.
            wait_until(lambda: len(floors) == 4, "there is a query in real time")
            assert dict(map(tuple, floors[3].collect())) == last_places(scores)

    @pytest.mark.system
    @pytest.mark.parametrize("later", [False, True], ids=["from the first on", "turned on later"])
    def test_the_boards_of_each_period_are_those_of_all_events(
        self,
        tmp_path: Path,
        inputs: Inputs,
        monkeypatch: pytest.MonkeyPatch,
        seen: list[SeenEvents],
        later: bool,
    ) -> None:
        floors: list[DataFrame | None] = []

        def noting(events: DataFrame, cutoffs: Any, today: Any, of_query: DataFrame | None) -> DataFrame:
            floors.append(of_query)
            return narrowed(events, cutoffs, today, of_query)

        monkeypatch.setattr(period_upkeep, "narrowed", noting)
        seeded, now_ms = random.Random(EVENTS), time.time_ns() // 1_000_000
        scores = DatedScores(inputs.kafka, {1: "1"}, {1: "1", 2: "2"})
        scores.send(
            (
                number + seeded.random(),
                seeded.choice((1, 1, 2)),
                seeded.choice((1, 2)),
                now_ms - seeded.randrange(3 * DAY_MS),
            )
            for number in seeded.sample(range(2 * EVENTS), 2 * EVENTS)
        )
        of_all_time = expected([each[:3] for each in scores.scores])
        if later:
            with running(stream(tmp_path, inputs.kafka, small_tables(inputs.kafka))):
                wait_until(lambda: boards(inputs.kafka) == of_all_time, "those of all time are exact")
        topology = leaderboard(DEPTH, periods=Periods())
        asyncio.run(create_missing(inputs.kafka, outputs_of(topology)))
        with running(StreamThread(settings_of(tmp_path, inputs.kafka, topology), small_tables(inputs.kafka))):
            number = 1 + later
            wait_until(
                lambda: boards(inputs.kafka, number, PERIOD_BOARDS) == best_of_periods(scores), "each board is exact"
            )
            wait_until(lambda: boards(inputs.kafka, number) == of_all_time, "and those of all time")
            (of_backlog, *_) = floors
            assert of_backlog is not None
            found = {row["product_id"]: row["floors"] for row in of_backlog.collect()}
            # Partitions with more records than others have some that nobody looks at; the seed knows all boards so far.
            of_look = [(each["score"], each["player_id"], each["product_id"]) for each in seen[-1].events.to_pylist()]
            assert EVENTS < len(of_look) <= 2 * EVENTS
            of_seed = [each[:3] for each in scores.scores if later]
            assert {product: of[ALL] for product, of in found.items()} == {
                product: [last] for product, last in last_places(of_seed or of_look).items()
            }
            assert all(any(of["day"]) for of in found.values()), "some boards of a day have a floor"

    @pytest.mark.faults
    def test_it_begins_anew_when_events_went_away_that_its_floors_came_from(
        self, tmp_path: Path, inputs: Inputs, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scores = sent(inputs)
        caplog.set_level(logging.INFO)
        deleted = {TopicPartition(SCORE_EVENTS, partition): EVENTS for partition in range(PARTITIONS)}
        caught_up = LeaderboardUpkeep.caught_up
        monkeypatch.setattr(
            LeaderboardUpkeep, "caught_up", lambda care, work, _: caught_up(care, work, lambda: deleted)
        )
        with running(stream(tmp_path, inputs.kafka, small_tables(inputs.kafka))):
            assert boards(inputs.kafka, generation=2) == expected(scores)
        assert "score events that floors came from were deleted before they were read" in caplog.text
        assert caplog.text.count("generation begins") == 2

    @pytest.mark.faults
    def test_whoever_goes_on_in_the_middle_of_it_begins_anew_since_players_may_be_gone(
        self, tmp_path: Path, inputs: Inputs, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # The newest are a player's whose scores are above all others; it is deleted before they are done.
        scores = sent(inputs)
        for partition in range(PARTITIONS):
            inputs.scores([(2e6 + number, 3, 1 + number % 2) for number in range(SHARE)], partition)
        tables = small_tables(inputs.kafka, players=(1, 3))
        caught_up = LeaderboardUpkeep.caught_up

        def fail_once(care: LeaderboardUpkeep, work: Work, begin: Any) -> None:
            if work.generation.number > 1:
                return caught_up(care, work, begin)
            tables.delete(PLAYERS, 3)
            raise QueryFailed("an executor was lost")

        monkeypatch.setattr(LeaderboardUpkeep, "caught_up", fail_once)
        with running(stream(tmp_path, inputs.kafka, tables)):
            assert boards(inputs.kafka, generation=2) == expected(scores)
        assert "a new generation begins: the last one ended in a backlog" in caplog.text

    @pytest.mark.faults
    def test_one_that_fails_is_not_tried_again_with_floors_of_who_is_gone_by_then(
        self, tmp_path: Path, inputs: Inputs, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Spark cannot read one of the records. Before it is passed over, whose scores are above all others is deleted.
        Topics(inputs.kafka.bootstrap_servers).configure(SCORE_EVENTS, message_timestamp_after_max_ms=str(2**63 - 1))
        scores = sent(inputs)
        for partition in range(PARTITIONS):
            inputs.scores([(2e6 + number, 3, 1 + number % 2) for number in range(SHARE)], partition)
        send_raw(inputs.kafka, SCORE_EVENTS, 0, [RawRecord(b"{}", NS)])
        tables = small_tables(inputs.kafka, players=(1, 3))
        tables_in_memory = Work.tables_in_memory
        taken: list[int] = []

        def other_tables_at_the_second_time(work: Work) -> dict[str, DataFrame]:
            if taken == [1]:
                tables.delete(PLAYERS, 3)
            taken.append(work.generation.number)
            return tables_in_memory(work)

        monkeypatch.setattr(Work, "tables_in_memory", other_tables_at_the_second_time)
        with running(stream(tmp_path, inputs.kafka, tables)):
            wait_until(lambda: boards(inputs.kafka, generation=2) == expected(scores), "the boards are exact")
        assert taken[:2] == [1, 1]
        assert "players, products or what is hidden changed in a backlog that failed" in caplog.text


def sent(inputs: Inputs) -> list[tuple[float, int, int]]:
    """Send a backlog of two players, of whom one exists, and two products."""
    seeded = random.Random(EVENTS)
    scores = [(float(seeded.randrange(10**6)), seeded.choice((1, 1, 2)), seeded.choice((1, 2))) for _ in range(EVENTS)]
    for partition in range(PARTITIONS):
        inputs.scores(scores[partition::PARTITIONS], partition)
    return scores


def small_tables(kafka: KafkaConnection, players: Iterable[int] = (1,)) -> SmallTables:
    """Return tables of these players, and of two products."""
    ids = {PLAYERS: players, PRODUCTS: (1, 2), MODERATION: ()}
    return SmallTables(kafka, {topic: {each: {"name": str(each)} for each in found} for topic, found in ids.items()})


def stream(directory: Path, kafka: KafkaConnection, tables: SmallTables) -> StreamThread:
    return StreamThread(settings_of(directory, kafka, leaderboard(DEPTH)), tables)


def scores_of_look(scores: list[tuple[float, int, int]]) -> list[tuple[float, int, int]]:
    """Return those that are looked at."""
    return [event for partition in range(PARTITIONS) for event in scores[partition::PARTITIONS][-SHARE:]]


def last_places(scores: list[tuple[float, int, int]]) -> dict[int, float]:
    return {product: best[-1] for product, best in expected(scores).items()}


def expected(scores: list[tuple[float, int, int]]) -> dict[int, list[float]]:
    return {
        product: sorted((score for score, player, of in scores if (player, of) == (1, product)), reverse=True)[
            : 2 * DEPTH
        ]
        for product in (1, 2)
    }


def best_of_periods(scores: DatedScores) -> dict[str, list[float]]:
    """Return the best scores of player 1 by the key of each board of a period."""
    found: dict[str, list[float]] = {}
    for score, player, product, at in scores.scores:
        for name in NAMES if player == 1 else ():
            found.setdefault(f"{product}/{name}/{period(name, at)}", []).append(score)
    return {key: sorted(of, reverse=True)[: 2 * DEPTH] for key, of in found.items()}


def boards(kafka: KafkaConnection, generation: int = 1, topic: str = HIGH_SCORES) -> dict[Any, list[float]]:
    """Return the known scores of the last board of each key, as published by a generation."""
    found: dict[Any, list[float]] = {}
    for record in read_topic(kafka, topic):
        board = json.loads(record.value)
        if board["generation"] == generation:
            key = record.key.decode()
            found[int(key) if topic == HIGH_SCORES else key] = [entry["score"] for entry in board["known"]]
    return found

"""What has to be, computed from a real broker: where all is hidden, and where the clock has gone on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from aiokafka import AIOKafkaProducer

from app.java.broker import Broker
from app.moderation import say
from app.verification.boards.expected import PERIODS, Expectation
from app.verification.stores.expected import StoresExpectation
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.ids import topic_ids
from runtime.records import NO_VALUE, OF_THE_FUTURE
from runtime.spark.session import Spark
from runtime.stream.dead_letters import Letter
from tests.drivers.counted import Counted
from tests.drivers.producer import Inputs
from tests.drivers.spark_sessions import spark_settings
from tests.drivers.topic_reader import read_topic
from tests.drivers.word_topologies import words_in_windows
from topology.leaderboard.board import LEADERBOARD
from topology.leaderboard.moderation import HiddenPlayer, Named, ScoreName
from topology.leaderboard.topics import SCORE_EVENTS

pytestmark = pytest.mark.system

PLAYER, PRODUCT = 1, 6
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    """Spark beside a broker; no instance runs."""
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        settings = spark_settings(broker.connection, tmp_path_factory.mktemp("spark"))
        with closing(Spark(settings, slots=2, shuffle_partitions=1)) as spark:
            yield spark


@pytest.fixture(scope="module")
def expectation(batch: Spark, tmp_path_factory: pytest.TempPathFactory) -> Expectation:
    """Of four scores of one player on one product, at the first offsets of a partition, best first."""
    inputs = Inputs(batch.settings.kafka)
    inputs.create_topics()
    inputs.players({PLAYER: "Elyse"})
    inputs.products({PRODUCT: "Mario Kart"})
    inputs.scores([(score, PLAYER, PRODUCT) for score in (50.0, 40.0, 30.0, 20.0)], partition=0)
    return Expectation(batch, tmp_path_factory.mktemp("judged"), depth=10)


def moderate(kafka: KafkaConnection, named: Named, *, hidden: bool) -> None:
    asyncio.run(say(kafka, LEADERBOARD, named, hidden=hidden))


def test_a_player_has_the_rank_of_the_best_score_that_is_not_hidden(batch: Spark, expectation: Expectation) -> None:
    kafka = batch.settings.kafka
    topic_id = asyncio.run(topic_ids(kafka, [SCORE_EVENTS]))[SCORE_EVENTS].topic_id

    def best() -> list[float]:
        expectation.read()
        return [rank.score for rank in expectation.ranks()[PRODUCT]]

    assert best() == [50.0]
    for offset, left in enumerate(([40.0], [30.0], [20.0], [])):
        moderate(kafka, ScoreName(topic_id, 0, offset), hidden=True)
        assert best() == left
    moderate(kafka, ScoreName(topic_id, 0, 1), hidden=False)
    assert best() == [40.0]


def test_periods_of_which_all_is_hidden_are_asked_for(batch: Spark, expectation: Expectation) -> None:
    moderate(batch.settings.kafka, HiddenPlayer(PLAYER), hidden=True)
    expectation.read()
    assert expectation.boards().boards == {}
    assert expectation.ranks() == {PRODUCT: []}
    periods = expectation.periods()
    assert {name for name, _ in periods} == {*PERIODS}
    assert not any(periods.values())


def test_a_record_that_was_of_the_future_when_it_came_makes_no_window(batch: Spark) -> None:
    kafka = batch.settings.kafka
    world = Counted(kafka, words_in_windows("ahead"))
    past_ms = int(time.time() * 1000) - 2 * HOUR_MS
    world.send("0 usual", at_ms=past_ms, partition=0)
    world.send("0 early", at_ms=past_ms + HOUR_MS, partition=0)
    usual, early = read_topic(kafka, world.source)
    # No other reason than the time is taken from the stream.
    letters = [Letter(usual, NO_VALUE), Letter(early, OF_THE_FUTURE)]
    asyncio.run(send(kafka, world.topology.events.invalid_topic, letters))
    found = StoresExpectation(batch, world.topology).rows()
    (store,) = world.topology.stores
    assert {row["word"] for row in found.rows[store.name]} == {"usual"}
    assert found.stream_ms == {store.name: past_ms}
    assert (found.records, found.unusable) == (2, 1)


async def send(kafka: KafkaConnection, topic: str, letters: list[Letter]) -> None:
    """Send dead letters, as the stream does."""
    async with AIOKafkaProducer(**kafka.for_aiokafka()) as producer:
        for letter in letters:
            record = letter.record
            await producer.send_and_wait(topic, record.value, key=record.key, headers=letter.headers())

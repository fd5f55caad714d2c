"""A generation that goes on where the last one has committed, on a real broker: no event is left out."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.java.broker import Broker
from runtime import Int64, Key, Max, PlainText, Store, Stream, Text, Topology
from runtime.stream.plan import Next, Plan
from runtime.stream.thread import StreamThread
from runtime.stream.upkeep import Upkeep
from runtime.stream.work import Work
from tests.drivers.counted import Counted, merged
from tests.drivers.stream_threads import SmallTables, running, settings_of
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = "at-commit"
ASKED = threading.Event()
WORDS = ("one", "two", "three", "four", "five")


class BeginsWhenAsked(Upkeep):
    """Has a generation begin at the next commit where one is asked for."""

    def plan(self, work: Work, joined: Mapping[str, DataFrame], events: int) -> Plan | None:  # noqa: ARG002
        """Return the plan, once."""
        if not ASKED.is_set():
            return None
        ASKED.clear()
        return Plan(Next.NEW_GENERATION, "it was asked for", at_commit=True)


def _numbers(lines: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    word, number = (F.split_part("text", F.lit(" "), F.lit(part)) for part in (1, 2))
    return lines.select(word.alias("word"), number.try_cast("bigint").alias("number"), "at")


MOST = Store(f"{NAME}-store", f"{NAME}-most", Key("word", Text), {"most": Max("number", Int64)}, rows=_numbers)
TOPOLOGY = Topology(NAME, Stream(f"{NAME}-lines", PlainText(), 3), [MOST], upkeep=BeginsWhenAsked)


class World(Counted):
    """Words with numbers that go up, and the highest of each."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker.connection, TOPOLOGY)
        self.most: dict[str, int] = {}

    def send_higher(self) -> None:
        """Send a higher number of each word."""
        for word in WORDS:
            self.most[word] = self.most.get(word, 0) + 1
        self.send(*(f"{word} {number}" for word, number in self.most.items()))

    def published(self) -> Mapping[str, Any]:
        """Return what a copy holds."""
        return merged(MOST, self.records(MOST))

    def publish_as(self, generation: int) -> None:
        """Publish what there is as a generation does that begins with it."""
        of_both = {"generation": generation, "version": 1}
        self.publish(MOST, [(word, json.dumps({"most": most}).encode(), of_both) for word, most in self.most.items()])

    def until_published(self, generation: int) -> None:
        """Wait until the highest number of each word is published, by a generation."""
        wait_until(
            lambda: (
                {word: (held.made.generation, held.values) for word, held in self.published().items()}
                == {word: (generation, {"most": number}) for word, number in self.most.items()}
            ),
            lambda: f"{self.published()} is {self.most}, of generation {generation}",
            every_s=0.5,
        )


@pytest.mark.system
def test_a_generation_goes_on_at_a_commit_unless_another_one_has_published_its_seed(
    broker: Broker, tmp_path: Path
) -> None:
    world, tables = World(broker), SmallTables(broker.connection)

    def stream() -> StreamThread:
        return StreamThread(settings_of(tmp_path, broker.connection, TOPOLOGY, checkpoint_interval_s=5), tables)

    world.send_higher()
    with running(stream()):
        world.until_published(1)
        ASKED.set()
        world.until_published(2)
        world.send_higher()
        world.until_published(2)
    # Another process had begun with a third one, and ended before it counted.
    world.publish_as(3)
    world.send_higher()
    with running(stream()):
        ASKED.set()
        wait_until(lambda: not ASKED.is_set(), "a generation is asked for")
        world.until_published(4)

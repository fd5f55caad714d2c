"""Boards of days, weeks and months on a real broker and real Spark, with a clock that the test sets."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from prometheus_client.parser import text_string_to_metric_families

from app.java.broker import Broker
from runtime.kafka.connection import KafkaConnection
from tests.drivers.clocked_instance import Clock, ClockedInstance
from tests.drivers.instance import Instance
from tests.drivers.periods import NAMES, DatedScores, ms, period
from tests.drivers.producer import Inputs
from tests.drivers.topic_reader import all_records, read_topic
from tests.waiting import wait_until
from topology.leaderboard.topics import HIGH_SCORES, PERIOD_BOARDS

DAY_MS = 86_400_000
NOW_MS = (time.time_ns() // (DAY_MS * 1_000_000) - 200) * DAY_MS + DAY_MS // 2
"""Noon of a day some time ago: the broker refuses records of what is the future to it."""
SEED = 20261127
PLAYERS = {player: f"Player {player}" for player in range(1, 30)}
PRODUCTS = {product: f"Game {product}" for product in range(1, 8)}


class World:
    """Topics with players and products, and scores of many days."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.scores = DatedScores(broker.connection, PLAYERS, PRODUCTS)
        self.random = random.Random(SEED)
        inputs = Inputs(broker.connection)
        inputs.create_topics()
        inputs.players(PLAYERS)
        inputs.products(PRODUCTS)

    def send(self, count: int, first_ms: int, last_ms: int, *, known: bool = False) -> None:
        """Send distinct scores of a stretch of time, in any order; unless `known`, some of ids that nobody has."""
        taken = len(self.scores.scores)
        players, products = ([*PLAYERS], [*PRODUCTS]) if known else (range(1, 35), range(1, 9))
        self.scores.send(
            (
                self.random.randrange(1_000_000) + (taken + number) / 1_000_000,
                self.random.choice(players),
                self.random.choice(products),
                self.random.randrange(first_ms, last_ms),
            )
            for number in range(count)
        )

    def has_published(self, keys: set[str]) -> bool:
        """Return whether these are the keys of the boards that are on their topic."""
        return self.published() == keys

    def published(self) -> set[str]:
        """Return the keys of the boards of periods that are on their topic."""
        last = {record.key.decode(): record.value for record in read_topic(self.broker.connection, PERIOD_BOARDS)}
        return {key for key, value in last.items() if value is not None}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    # Retention goes by the time of records, and these are old.
    with Broker(tmp_path / "kafka", settings={"log.retention.ms": "-1"}) as broker:
        yield World(broker)


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    clock = Clock(tmp_path / "clock")
    clock.set(NOW_MS)
    return clock


def served(instance: Instance, name: str, at: str, limit: int = 3) -> Any:
    """Return the boards of a period, or the status."""
    return instance.json_of(f"/leaderboard?limit={limit}&period={name}&at={at}")


def is_served(instance: Instance, name: str, at: str, expected: Any) -> bool:
    return bool(served(instance, name, at) == expected)


def wait_for_periods(instance: Instance, world: World, kept: dict[str, str]) -> None:
    """Wait until the boards of every period are as they have to be, those of before `kept` not there."""
    for name, begin in sorted(world.scores.periods()):
        expected = world.scores.boards(name, begin) if begin >= kept[name] else 404
        wait_until(partial(is_served, instance, name, begin, expected), f"{name} {begin}: {expected}")


def kept_from(now_ms: int, days: int = 8, weeks: int = 5, months: int = 13) -> dict[str, str]:
    """Return the first day of the oldest period of each name that is kept."""
    month = int(period("month", now_ms)[:4]) * 12 + int(period("month", now_ms)[5:7]) - 1 - months
    return {
        "day": period("day", now_ms - days * DAY_MS),
        "week": period("week", now_ms - 7 * weeks * DAY_MS),
        "month": f"{month // 12}-{month % 12 + 1:02}-01",
    }


def test_the_boards_of_every_period_are_those_of_its_events(world: World, clock: Clock, tmp_path: Path) -> None:
    now_ms = NOW_MS
    world.send(2_000, now_ms - 500 * DAY_MS, now_ms)
    world.send(500, now_ms - 10 * DAY_MS, now_ms)
    with ClockedInstance(tmp_path / "instance", world.broker.bootstrap_servers, clock) as instance:
        instance.wait_for_real_time()
        wait_for_periods(instance, world, kept_from(now_ms))
        # Late ones, those of periods that are not kept, and some of the future.
        world.send(300, now_ms - 30 * DAY_MS, now_ms + 40 * DAY_MS)
        world.send(20, now_ms - 800 * DAY_MS, now_ms - 700 * DAY_MS)
        wait_for_periods(instance, world, kept_from(now_ms))
        instance.wait_for_boards(world.scores.all_boards())
        # Each way to ask, and what stands beside the rows.
        begin = period("week", now_ms)
        expected = world.scores.boards("week", begin, 10)
        assert served(instance, "week", period("day", now_ms), 10) == expected
        assert instance.json_of("/leaderboard?period=week&limit=10") == expected
        assert instance.json_of("/leaderboard/count?period=week") == len(expected)
        product = next(iter(expected))
        assert instance.json_of(f"/leaderboard/{product}?period=week&limit=10") == expected[product]
        some = {product: board for product, board in expected.items() if 2 <= int(product) <= 4}
        assert instance.json_of("/leaderboard/2/4?period=week&limit=10") == some
        assert (
            instance.json_of(f"/leaderboard/{product}?period=all&at=2020-01-01&limit=10")
            == (world.scores.all_boards(10)[product])
        )
        page = instance.get("/leaderboard?period=week&page_size=2")
        assert list(page.json()) == list(expected)[:2]
        assert f"at={begin}" in page.headers["link"]
        one = instance.get(f"/leaderboard/{product}?period=day")
        tag = one.headers["etag"]
        assert instance.get(f"/leaderboard/{product}?period=day", **{"If-None-Match": tag}).status_code == 304
        gone = instance.get(f"/leaderboard/1?period=day&at={period('day', now_ms - 9 * DAY_MS)}")
        assert (gone.status_code, gone.json()["type"]) == (404, "urn:problem-type:leaderboard:period-has-passed")
        # After a kill the same, without reading anything again.
        instance.kill()
        world.send(100, now_ms - DAY_MS, now_ms)
        instance.start()
        instance.wait_for_real_time()
        wait_for_periods(instance, world, kept_from(now_ms))


@pytest.mark.system
def test_periods_are_turned_on_and_off_and_on_again_and_no_board_lacks_a_score(world: World, tmp_path: Path) -> None:
    servers, now_ms = world.broker.bootstrap_servers, time.time_ns() // 1_000_000

    def running_with(periods: str) -> Instance:
        return Instance(tmp_path / "instance", servers, PERIODS=periods, PERIODS_KEPT="day=30")

    for periods, generation in (("all", 1), ("all,day,week,month", 2), ("all", 3), ("all,day,week,month", 4)):
        world.send(300, now_ms - 20 * DAY_MS, now_ms)
        with running_with(periods) as instance:
            instance.wait_for_real_time()
            instance.wait_for_boards(world.scores.all_boards())
            if periods != "all":
                wait_for_periods(instance, world, dict.fromkeys(NAMES, ""))
            # Of real time, in which the first of these instances had no boards of periods.
            world.send(100, now_ms - 20 * DAY_MS, now_ms)
            instance.wait_for_boards(world.scores.all_boards())
            if periods != "all":
                wait_for_periods(instance, world, dict.fromkeys(NAMES, ""))
        assert {path.name for path in (tmp_path / "instance/state/checkpoint").glob("*-v*")} == {"leader-boards-v1"}
        last = {record.key: json.loads(record.value) for record in read_topic(world.broker.connection, HIGH_SCORES)}
        assert {board["generation"] for board in last.values()} == {generation}


def test_what_has_passed_leaves_state_store_and_topic(world: World, clock: Clock, tmp_path: Path) -> None:
    """A hundred days go by, some of them with events while the instance looks on."""
    start_ms = NOW_MS
    world.send(1_000, start_ms - 20 * DAY_MS, start_ms)
    kept = {"PERIODS_KEPT": "day=3,week=2,month=1"}
    with ClockedInstance(tmp_path / "instance", world.broker.bootstrap_servers, clock, **kept) as instance:
        instance.wait_for_real_time()
        keys: set[str] = set()
        for days in (1, 9, 100):
            now_ms = start_ms + days * DAY_MS
            clock.set(now_ms)
            first = kept_from(now_ms, 3, 2, 1)
            world.send(200, now_ms - 12 * DAY_MS, now_ms)
            wait_for_periods(instance, world, first)
            keys = {
                f"{product}/{name}/{begin}"
                for name, begin in world.scores.periods()
                if begin >= first[name]
                for product in {of for _, _, of, at in world.scores.scores if period(name, at) == begin}
            }
            wait_until(partial(world.has_published, keys), f"after {days} days the topic has what is kept")
            rows = instance.json_of("/stores/period-boards/count")
            kept_ones = [(name, begin) for name, begin in world.scores.periods() if begin >= first[name]]
            assert rows == sum(len(world.scores.boards(name, begin)) for name, begin in kept_ones)
            instance.wait_for_log("have passed", times=1)
        # Beside those of all time, one a product.
        in_state = len(keys) + len({product for _, _, product, _ in world.scores.scores})
        wait_until(lambda: state_rows(instance) == in_state, f"the state has {in_state} boards")
        assert "a new generation begins" in instance.log()
        instance.wait_for_boards(world.scores.all_boards())


@pytest.mark.system
def test_nothing_is_lost_where_a_generation_ended_while_it_published_its_seed(
    world: World, clock: Clock, tmp_path: Path
) -> None:
    """The generation of a day ends before it counts; whoever comes next goes on with the last one, and begins anew."""
    # What unknown ones had might have everything read again, some minutes later.
    world.send(1_000, NOW_MS - 5 * DAY_MS, NOW_MS, known=True)
    with ClockedInstance(tmp_path / "instance", world.broker.bootstrap_servers, clock) as instance:
        instance.wait_for_real_time()
        instance.wait_for_boards(world.scores.all_boards())
        wait_for_periods(instance, world, kept_from(NOW_MS))
        instance.kill()
        for topic in (HIGH_SCORES, PERIOD_BOARDS):
            publish_as_next_generation(world.broker.connection, topic)
        world.send(1_000, NOW_MS - 5 * DAY_MS, NOW_MS, known=True)
        now_ms = NOW_MS + DAY_MS
        clock.set(now_ms)
        instance.start()
        instance.wait_for_boards(world.scores.all_boards())
        wait_for_periods(instance, world, kept_from(now_ms))


def publish_as_next_generation(kafka: KafkaConnection, topic: str) -> None:
    """Publish what is on a result topic once more, as a generation does that begins with it."""

    async def publish() -> None:
        last = {record.key: record for record in await all_records(kafka, topic) if record.value is not None}
        assert last, "boards are published"
        async with AIOKafkaProducer(**kafka.for_aiokafka()) as sender:
            for record in last.values():
                value = json.loads(record.value)
                number = value["generation"] = value["generation"] + 1
                headers = [*{**dict(record.headers), "generation": str(number).encode()}.items()]
                at = {"key": record.key, "partition": record.partition, "headers": headers}
                await sender.send_and_wait(topic, json.dumps(value).encode(), **at)

    asyncio.run(publish())


def test_scores_around_the_end_of_a_day_a_week_and_a_month_lie_where_their_times_say(
    world: World, clock: Clock, tmp_path: Path
) -> None:
    """Three instances; while scores come in over midnight, the one with the stream is killed."""
    end_ms = ms("2026-06-01T00:00:00")
    old, new = {"day": "2026-05-31", "week": "2026-05-25", "month": "2026-05-01"}, dict.fromkeys(NAMES, "2026-06-01")
    clock.set(end_ms - 5_000)
    world.send(300, end_ms - 5 * DAY_MS, end_ms - 5_000)
    servers, checkpoint = world.broker.bootstrap_servers, (tmp_path / "checkpoint").as_uri()
    with ExitStack() as started:
        instances = [
            started.enter_context(ClockedInstance(tmp_path / name, servers, clock, CHECKPOINT_URI=checkpoint))
            for name in ("one", "two", "three")
        ]
        wait_until(lambda: len(hosts(instances[0])) == 3, "all three are members")
        (holder,) = (
            each for each in instances for host in hosts(each) if host["runsStream"] and host["port"] == each.port
        )
        holder.wait_for_real_time()
        for instance in instances:
            wait_for_running(instance, world, old)
        for step in range(20):
            now_ms = end_ms - 5_000 + 500 * step
            clock.set(now_ms)
            # Some are seconds late, so that either period has new ones on both sides of midnight.
            world.send(100, now_ms - 3_000, now_ms + 500)
            if step == 8:
                holder.kill()
        holder.start()
        for instance in instances:
            wait_for_periods(instance, world, kept_from(end_ms))
            wait_for_running(instance, world, new)


def hosts(instance: ClockedInstance) -> list[dict[str, Any]]:
    """Return the members that an instance knows of."""
    answer = instance.get("/hosts")
    members: list[dict[str, Any]] = answer.json() if answer.status_code == 200 else []
    return members


def wait_for_running(instance: ClockedInstance, world: World, begins: dict[str, str]) -> None:
    """Wait until the boards of the periods that run are those of periods that began on some days."""
    for name, begin in begins.items():
        expected = world.scores.boards(name, begin)
        assert expected, "the period has scores"
        wait_until(partial(runs, instance, name, expected), f"the {name} that runs began on {begin}")


def runs(instance: ClockedInstance, name: str, expected: Any) -> bool:
    return bool(instance.json_of(f"/leaderboard?period={name}") == expected)


def state_rows(instance: ClockedInstance) -> int:
    """Return how many boards Spark's state has, as the last batches said."""
    families = text_string_to_metric_families(instance.get("/metrics").text)
    samples = [sample for family in families for sample in family.samples]
    return int(sum(each.value for each in samples if each.name == "leaderboard_stream_state_rows"))

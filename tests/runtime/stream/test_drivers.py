"""Of several drivers of a generation, the one whose number is the highest goes on."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from runtime import Count, Key, Store, Text
from runtime.spark.checkpoint import CheckpointDirectory
from runtime.spark.session import Spark
from runtime.stream.generations import Driver, Generation, Generations, Origin

STORE = Store("counts-store", "counts", Key("text", Text), {"count": Count()})


@pytest.fixture
def generations(spark: Spark, tmp_path: Path) -> Generations:
    return Generations(CheckpointDirectory(spark.session, tmp_path.as_uri()), STORE)


def begun(generations: Generations) -> Generation:
    """Return a generation that counts."""
    generation = generations.claim(0, Origin({}, 1, {}, 4), seeded=False)
    generations.commit(generation)
    return generation


def test_of_two_drivers_of_one_generation_the_one_that_came_later_goes_on(generations: Generations) -> None:
    generation = begun(generations)
    first, second = Driver(generations, generation), Driver(generations, generation)
    first.claim()
    assert not first.is_superseded()
    second.claim()
    assert (first.is_superseded(), second.is_superseded()) == (True, False)
    second.claim()
    assert (first.is_superseded(), second.is_superseded()) == (True, False)
    # One that has the stream again goes on before it.
    first.claim()
    assert (first.is_superseded(), second.is_superseded()) == (False, True)
    drivers = [name for name in generations.directory.names(generation.name) if name.startswith("driver-")]
    assert drivers == ["driver-4"], "lower ones say nothing any more"


def test_a_driver_of_another_generation_supersedes_none(generations: Generations) -> None:
    first, second = begun(generations), begun(generations)
    driver = Driver(generations, first)
    driver.claim()
    Driver(generations, second).claim()
    assert not driver.is_superseded()


def test_of_drivers_that_claim_at_once_one_goes_on(generations: Generations) -> None:
    generation = begun(generations)
    drivers = [Driver(generations, generation) for _ in range(6)]
    start = threading.Barrier(6)

    def claim(driver: Driver) -> None:
        start.wait()
        driver.claim()

    threads = [threading.Thread(target=claim, args=(driver,)) for driver in drivers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(driver.is_superseded() for driver in drivers) == [False, True, True, True, True, True]

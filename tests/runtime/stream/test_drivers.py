"""Of several drivers on one checkpoint, the one whose number is the highest goes on."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from runtime import Count, Key, Store, Text
from runtime.errors import Superseded
from runtime.spark.checkpoint import CheckpointDirectory
from runtime.spark.session import Spark
from runtime.stream.generations import Driver, Generation, Generations, Origin

STORE = Store("counts-store", "counts", Key("text", Text), {"count": Count()})
ORIGIN = Origin({}, 1, {}, 4)


@pytest.fixture
def generations(spark: Spark, tmp_path: Path) -> Generations:
    return Generations(CheckpointDirectory(spark.session, tmp_path.as_uri()), STORE)


def begun(generations: Generations) -> Generation:
    """Return a generation that counts."""
    generation = generations.claim(0, ORIGIN, seeded=False)
    generations.commit(generation)
    return generation


def is_superseded(driver: Driver, generations: Generations) -> bool:
    """Return whether a driver finds that another one works on the checkpoint."""
    try:
        driver.check(generations)
    except Superseded:
        return True
    return False


def test_of_two_drivers_of_one_generation_the_one_that_came_later_goes_on(generations: Generations) -> None:
    generation = begun(generations)
    first, second = Driver(), Driver()
    first.claim(generations, generation)
    first.claim(generations, generation)
    assert not is_superseded(first, generations)
    second.claim(generations, generation)
    assert (is_superseded(first, generations), is_superseded(second, generations)) == (True, False)
    # Not by itself: a failure would take the checkpoint back from whoever has taken over.
    with pytest.raises(Superseded, match="another driver works on"):
        first.claim(generations, generation)
    second.claim(generations, generation)
    assert not is_superseded(second, generations)
    # One that is given the stream again goes on before it.
    again = Driver()
    again.claim(generations, generation)
    assert (is_superseded(again, generations), is_superseded(second, generations)) == (False, True)
    drivers = [name for name in generations.directory.names(generation.name) if name.startswith("driver-")]
    assert drivers == ["driver-5"], "lower ones say nothing any more"


def test_one_that_had_a_number_does_not_jump_over_another_that_came_at_the_same_moment(
    generations: Generations, monkeypatch: pytest.MonkeyPatch
) -> None:
    generation = begun(generations)
    first, second = Driver(), Driver()
    first.claim(generations, generation)
    claim = CheckpointDirectory.claim

    def once_the_other_has(directory: CheckpointDirectory, name: str, content: str) -> bool:
        monkeypatch.setattr(CheckpointDirectory, "claim", claim)
        second.claim(generations, generation)
        return claim(directory, name, content)

    monkeypatch.setattr(CheckpointDirectory, "claim", once_the_other_has)
    with pytest.raises(Superseded, match="another driver works on"):
        first.claim(generations, generation)
    assert not is_superseded(second, generations)


def test_whoever_begins_a_generation_comes_before_all_drivers_of_the_last(generations: Generations) -> None:
    first, second = Driver(), Driver()
    generation = begun(generations)
    first.claim(generations, generation)
    following = generations.claim(0, ORIGIN, seeded=True)
    assert not is_superseded(first, generations), "it does not count yet"
    second.begin(following)
    generations.commit(following)
    assert (is_superseded(first, generations), is_superseded(second, generations)) == (True, False)
    generations.delete_older(following)
    with pytest.raises(Superseded, match="has begun a generation after 1"):
        first.claim(generations, generation)
    second.claim(generations, following)
    assert not is_superseded(second, generations)


def test_of_two_that_begin_generations_at_once_the_later_generation_goes_on(generations: Generations) -> None:
    first, second = Driver(), Driver()
    of_first, of_second = (generations.claim(0, ORIGIN, seeded=True) for _ in range(2))
    for driver, generation in ((second, of_second), (first, of_first)):
        driver.begin(generation)
        generations.commit(generation)
    assert (is_superseded(first, generations), is_superseded(second, generations)) == (True, False)
    assert generations.current() == of_second


def test_a_driver_whose_checkpoint_is_gone_may_begin_again(generations: Generations) -> None:
    generation = begun(generations)
    driver = Driver()
    driver.claim(generations, generation)
    generations.directory.delete(generation.name)
    assert not is_superseded(driver, generations)
    again = generations.claim(generation.number, ORIGIN, seeded=True)
    driver.begin(again)
    generations.commit(again)
    driver.claim(generations, again)
    assert not is_superseded(driver, generations)


def test_of_drivers_that_claim_at_once_one_goes_on(generations: Generations) -> None:
    generation = begun(generations)
    drivers = [Driver() for _ in range(6)]
    start = threading.Barrier(6)

    def claim(driver: Driver) -> None:
        start.wait()
        driver.claim(generations, generation)

    threads = [threading.Thread(target=claim, args=(driver,)) for driver in drivers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    superseded = sorted(is_superseded(driver, generations) for driver in drivers)
    assert superseded == [False, True, True, True, True, True]

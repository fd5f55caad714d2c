"""The number of a generation: who gets which when several ask at once, or late."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runtime.spark.checkpoint import CheckpointDirectory
from runtime.spark.session import Spark
from runtime.stream.generations import Generation, Generations, Origin, delete_former
from tests.drivers.word_topologies import word_count

ORIGIN = Origin({"lines": "a", "counts": "b"}, 1, {}, 4, 4)
(STORE,) = word_count("claims").stores


@pytest.fixture
def open_directory(spark: Spark, tmp_path: Path) -> Callable[[], Generations]:
    """Open the generations of a store as another instance would."""
    return lambda: Generations(CheckpointDirectory(spark.session, (tmp_path / "check point").as_uri()), STORE)


def _begun(generations: Generations) -> Generation:
    generation = generations.claim(0, ORIGIN, seeded=False)
    generations.commit(generation)
    return generation


def test_no_two_claims_get_the_same_number(open_directory: Callable[[], Generations]) -> None:
    instances = [open_directory() for _ in range(4)]

    def claim(number: int) -> Generation:
        return instances[number % 4].claim(7, ORIGIN, seeded=True)

    with ThreadPoolExecutor(4) as at_once:
        claimed = list(at_once.map(claim, range(40)))
    assert sorted(each.number for each in claimed) == list(range(8, 48))
    assert len({each.token for each in claimed}) == 40
    assert len({each.name for each in claimed}) == 40


def test_a_number_that_was_claimed_and_deleted_meanwhile_is_not_given_again(
    open_directory: Callable[[], Generations], monkeypatch: pytest.MonkeyPatch
) -> None:
    early, late = open_directory(), open_directory()
    _begun(early)
    taken: list[Generation] = []

    def others_begin() -> list[str]:
        names = CheckpointDirectory.names(late.directory)
        if not taken:
            taken.extend(_begun(early) for _ in range(3))
            early.delete_older(taken[-1])
        return names

    # One that has listed the claims, and stands still before it makes its own.
    monkeypatch.setattr(late.directory, "names", others_begin)
    claimed = late.claim(0, ORIGIN, seeded=False)
    assert [each.number for each in taken] == [2, 3, 4]
    assert claimed.number == 5


def test_a_generation_counts_from_its_commit_on_and_deletes_only_what_is_before_it(
    open_directory: Callable[[], Generations],
) -> None:
    generations, others = open_directory(), open_directory()
    first = _begun(generations)
    slow, second = others.claim(0, ORIGIN, seeded=True), generations.claim(0, ORIGIN, seeded=True)
    slow_seed = f"{slow.name}/seed/part-0.parquet"
    others.directory.write_text(f"{second.name}/seed/part-0.parquet", "")
    others.directory.write_text(slow_seed, "")
    assert generations.current() == first
    others.commit(slow)
    others.delete_older(slow)
    assert others.current() == slow
    assert not others.directory.exists(first.name)
    assert others.directory.exists(f"{second.name}/seed/part-0.parquet"), "of a later claim"
    generations.commit(second)
    assert others.current() == second
    assert others.is_followed(slow)
    assert not others.is_followed(second)


def test_what_the_last_version_left_is_deleted_and_nothing_else(spark: Spark, tmp_path: Path) -> None:
    root = CheckpointDirectory(spark.session, tmp_path.as_uri())
    generations = Generations(root, STORE)
    generation = _begun(generations)
    root.write_text("generation-3/generation.json", "{}")
    root.write_text("generation-12/query/offsets/0", "")
    root.write_text("notes", "")
    delete_former(root, STORE)
    assert {name for name in root.names() if not name.startswith(".")} == {"notes", f"{STORE.name}-v1"}
    assert generations.current() == generation

"""Generations: what they depend on, and what is kept of them under the checkpoint URI."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import DataFrame

from app.instance.checkpoint_identity import checkpoint_identity
from runtime import Beside, Count, Hopping, Int64, Key, Session, Store, Text, Tumbling
from runtime.errors import CheckpointUnusable, DeclarationError, QueryFailed
from runtime.spark.checkpoint import CheckpointDirectory
from runtime.spark.session import Spark, read_parquet
from runtime.stream.generations import LATE_ROWS, Generation, Generations, Origin, delete_former
from runtime.stream.work import write

STORE = Store("counts-store", "counts", Key("text", Text), {"count": Count()})
IDS = {"lines": "a", "towns": "b", "counts": "c"}
ORIGIN = Origin(IDS, version=1, settings={"KEPT": 10}, result_partitions=4, source_partitions=2)


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (ORIGIN, None),
        (replace(ORIGIN, topic_ids={"towns": "b"}), None),
        (replace(ORIGIN, topic_ids=IDS | {"lines": "x"}), "topic lines was created anew"),
        (replace(ORIGIN, topic_ids={"lines": "a", "people": "d"}), "topic people was created anew"),
        (replace(ORIGIN, topic_ids=IDS | {"counts": "x"}), "topic counts was created anew"),
        (replace(ORIGIN, settings={"KEPT": 5}), "LEADERBOARD_KEPT 5 instead of 10"),
        (replace(ORIGIN, settings={"KEPT": 10, "MORE": 1}), "LEADERBOARD_MORE 1 instead of None"),
        (replace(ORIGIN, settings={}), None),
        (replace(ORIGIN, version=2), "version 2 of the store instead of 1"),
        (replace(ORIGIN, result_partitions=6), "the result topic has 6 partitions instead of 4"),
        (
            replace(ORIGIN, beside_partitions=6),
            "the result topic of the store beside it has 6 partitions instead of None",
        ),
        (replace(ORIGIN, source_partitions=3), "the source has 3 partitions instead of 2"),
        (replace(ORIGIN, source_partitions=None), "the source has None partitions instead of 2"),
    ],
)
def test_another_origin_needs_another_generation(wanted: Origin, reason: str | None) -> None:
    assert ORIGIN.difference(wanted) == reason


def test_a_lattice_does_not_depend_on_how_many_partitions_the_source_has() -> None:
    lattice = replace(ORIGIN, source_partitions=None)
    assert lattice.difference(lattice) is None


def test_a_number_is_noted_beside_the_checkpoint(spark: Spark, tmp_path: Path) -> None:
    generations = Generations(CheckpointDirectory(spark.session, tmp_path.as_uri()), STORE)
    assert generations.noted(LATE_ROWS) is None
    for number in (0, 7, 1_795_622_400_000):
        generations.note(LATE_ROWS, number)
        assert generations.noted(LATE_ROWS) == number
    generations.directory.write_text(LATE_ROWS, "seven")
    assert generations.noted(LATE_ROWS) is None


@pytest.mark.parametrize("seeded", [True, False])
@pytest.mark.parametrize("has_older", [True, False])
@pytest.mark.parametrize("beside", [None, 6])
def test_a_generation_survives_its_file(seeded: bool, has_older: bool, beside: int | None) -> None:
    generation = Generation(7, "ab12", replace(ORIGIN, beside_partitions=beside), seeded, has_older=has_older)
    assert Generation.from_json(generation.to_json()) == generation


def test_a_generation_that_does_not_say_it_has_a_place_for_older_topics() -> None:
    fields = json.loads(Generation(7, "ab12", ORIGIN).to_json())
    del fields["has_older"]
    assert Generation.from_json(json.dumps(fields)) == Generation(7, "ab12", ORIGIN, has_older=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"number": 1}',
        '{"number": "x", "origin": {}}',
        '{"number": 1, "token": "a", "seeded": false, "origin": {"topic_ids": {}}}',
        '{"number": 1, "token": "a", "seeded": false, "origin": {"of another version": 1}}',
    ],
)
def test_a_file_that_is_no_generation_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Generation.from_json(text)


@pytest.fixture
def root(spark: Spark, tmp_path: Path) -> CheckpointDirectory:
    return CheckpointDirectory(spark.session, (tmp_path / "check point").as_uri())


@pytest.fixture
def generations(root: CheckpointDirectory) -> Generations:
    return Generations(root, STORE)


def begun(generations: Generations, published: int = 0, *, seeded: bool = False) -> Generation:
    """Return a generation that counts."""
    generation = generations.claim(published, ORIGIN, seeded=seeded)
    generations.commit(generation)
    return generation


@pytest.mark.parametrize("name", ["check point", "Spielstände", "a%20b", "a[b]{c,d}*"])
def test_a_directory_is_where_its_uri_says(spark: Spark, tmp_path: Path, name: str) -> None:
    uri = (tmp_path / name).as_uri()
    checkpoint_identity(uri)
    root = CheckpointDirectory(spark.session, uri)
    root.write_text("note", "here")
    below = root.under("a store")
    below.write_text("note", "there")
    write(spark.session.createDataFrame([(1,), (2,)], "id bigint"), below.child("t"))
    assert read_parquet(spark.session, "id bigint", below.child("t")).count() == 2
    assert (tmp_path / name / "note").read_text() == "here"
    assert (tmp_path / name / "a store" / "note").read_text() == "there"
    assert sorted(root.names()) == ["a store", "identity", "note"]
    assert sorted(root.names("a store")) == ["note", "t"]
    assert [path.name for path in tmp_path.iterdir()] == [name], "nothing lies elsewhere"


def test_there_is_no_generation_in_an_empty_directory(generations: Generations) -> None:
    assert generations.current() is None


def test_each_store_and_each_version_of_it_has_generations_of_its_own(
    root: CheckpointDirectory, generations: Generations
) -> None:
    begun(generations)
    others = [Generations(root, replace(STORE, version=2)), Generations(root, replace(STORE, name="other-store"))]
    assert [other.current() for other in others] == [None, None]
    assert [begun(other).number for other in others] == [1, 1]
    assert sorted(root.names()) == ["counts-store-v1", "counts-store-v2", "other-store-v1"]


def test_what_is_left_of_earlier_versions_is_deleted_once(root: CheckpointDirectory) -> None:
    deleted: list[int] = []
    versions = {number: Generations(root, replace(STORE, version=number)) for number in (1, 2, 3)}
    for generations in versions.values():
        begun(generations)
    other = Generations(root, replace(STORE, name="counts-store-v1"))
    begun(other)
    versions[1].delete_earlier_versions(lambda: deleted.append(1))
    assert deleted == [], "there is none before the first"
    versions[3].delete_earlier_versions(lambda: deleted.append(3))
    assert sorted(root.names()) == ["counts-store-v1-v1", "counts-store-v3"]
    assert other.current() is not None
    assert versions[3].current() is not None
    versions[3].delete_earlier_versions(lambda: deleted.append(4))
    assert deleted == [3]
    begun(Generations(root, STORE))
    versions[3].delete_earlier_versions(lambda: deleted.append(5))
    assert deleted == [3, 5], "one of them has run again"
    assert sorted(root.names()) == ["counts-store-v1-v1", "counts-store-v3"]


def test_a_store_that_comes_beside_another_one_has_its_earlier_results_deleted_too(root: CheckpointDirectory) -> None:
    deleted: list[str] = []
    second = replace(STORE, key=Key("number", Int64), version=2)

    def rows(events: DataFrame) -> DataFrame:
        return events

    beside = Beside(second, "all", rows)
    of_both = replace(second, name="kinds", topic="kinds", key=second.key / Key("kind", Text), beside=beside)
    for store, what in ((second, "alone"), (of_both, "both"), (second, "alone again"), (of_both, "both again")):
        Generations(root, store).delete_earlier_versions(partial(deleted.append, what))
    assert deleted == ["alone", "both"]


def test_other_windows_need_another_version(root: CheckpointDirectory) -> None:
    in_windows = replace(STORE, window=Hopping("1 minute", "10 seconds", keep="1 hour"))
    Generations(root, in_windows).check_windows()
    Generations(root, replace(STORE, window=Hopping("60 seconds", "10 seconds", keep="2 hours"))).check_windows()
    for window, has in (
        (Tumbling("1 minute"), "windows of 60 s every 60 s"),
        (Session("1 minute"), "sessions that end 60 s after their last event"),
        (None, "no windows"),
    ):
        other = replace(STORE, window=window)
        refused = f"store counts-store has {has}, and its results windows of 60 s every 10 s: raise its version"
        with pytest.raises(DeclarationError, match=f"^{re.escape(refused)}$"):
            Generations(root, other).check_windows()
        Generations(root, replace(other, version=2, name=f"{has[0]}-store")).check_windows()


def test_results_of_earlier_versions_are_deleted_again_where_that_has_failed(root: CheckpointDirectory) -> None:
    def fail() -> None:
        raise QueryFailed("Kafka is gone")

    deleted: list[int] = []
    begun(Generations(root, STORE))
    second = Generations(root, replace(STORE, version=2))
    with pytest.raises(QueryFailed):
        second.delete_earlier_versions(fail)
    assert sorted(root.names()) == ["counts-store-v1", "counts-store-v2"]
    second.delete_earlier_versions(lambda: deleted.append(2))
    assert deleted == [2]
    assert root.names() == ["counts-store-v2"]


def test_the_first_generation_counts_from_its_commit_on(generations: Generations) -> None:
    generation = generations.claim(0, ORIGIN, seeded=False)
    assert generation.number == 1
    assert generations.current() is None
    generations.commit(generation)
    assert generations.current() == generation
    assert generations.seed_is_passed(generation), "it has none"
    generations.pass_seed(generation)
    assert generations.directory.names(generation.name) == ["generation.json"]


def test_a_seed_is_passed_once_all_events_have_been_read_that_it_may_count(generations: Generations) -> None:
    generation = begun(generations, seeded=True)
    assert not generations.seed_is_passed(generation)
    generations.pass_seed(generation)
    assert generations.seed_is_passed(generation)
    assert not generations.seed_is_passed(begun(generations, seeded=True))


def test_a_generation_that_was_not_begun_to_the_end_does_not_count_and_nobody_takes_its_number(
    generations: Generations,
) -> None:
    first = begun(generations)
    second = generations.claim(0, ORIGIN, seeded=True)
    generations.directory.write_text(f"{second.seed}/half", "")
    assert generations.current() == first
    third = begun(generations)
    assert (second.number, third.number) == (2, 3)
    assert generations.current() == third
    # It may be another instance's, which has not come to its end yet.
    assert generations.directory.exists(f"{second.seed}/half")


@pytest.mark.parametrize(("published", "number"), [(0, 1), (1, 2), (7, 8)])
def test_a_number_is_above_those_of_the_results_that_are_published(
    generations: Generations, published: int, number: int
) -> None:
    assert begun(generations, published).number == number


def test_of_many_who_claim_at_once_each_has_a_number_and_a_directory_of_its_own(generations: Generations) -> None:
    claimed: list[Generation] = []
    start = threading.Barrier(6)

    def claim() -> None:
        start.wait()
        claimed.append(generations.claim(3, ORIGIN, seeded=False))

    threads = [threading.Thread(target=claim) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.number for each in claimed) == [4, 5, 6, 7, 8, 9]
    assert len({each.name for each in claimed}) == len({each.token for each in claimed}) == 6
    tokens = {each.number: generations.directory.read_text(f"generation-{each.number}") for each in claimed}
    assert tokens == {each.number: each.token for each in claimed}


def test_of_the_snapshots_of_a_generation_the_newest_is_left(generations: Generations) -> None:
    generation = begun(generations)
    for name in ("tables-a/towns", "tables-b/towns", "query/offsets"):
        generations.directory.write_text(f"{generation.name}/{name}", "")
    generations.delete_other_tables(generation, "tables-b")
    assert sorted(generations.directory.names(generation.name)) == ["generation.json", "query", "tables-b"]
    generations.delete_other_tables(generation, "tables-b")


def test_a_snapshot_takes_over_a_part_of_one_that_was_written_whole(generations: Generations) -> None:
    generation, directory = begun(generations), generations.directory
    assert not generations.take_over_part(generation, "tables-new", "floors")
    directory.write_text(f"{generation.name}/tables-half/floors/part-0", "half")
    directory.write_text(f"{generation.name}/tables-other/towns/_SUCCESS", "")
    assert not generations.take_over_part(generation, "tables-new", "floors")
    for name, text in (("part-0", "all"), ("_SUCCESS", "")):
        directory.write_text(f"{generation.name}/tables-whole/floors/{name}", text)
    assert generations.take_over_part(generation, "tables-new", "floors")
    generations.delete_other_tables(generation, "tables-new")
    assert directory.read_text(f"{generation.name}/tables-new/floors/part-0") == "all"


def test_a_part_that_is_deleted_while_it_is_copied_is_not_taken_over(
    generations: Generations, monkeypatch: pytest.MonkeyPatch
) -> None:
    generation, directory, copy = begun(generations), generations.directory, CheckpointDirectory.copy
    for name, text in (("part-0", "all"), ("_SUCCESS", "")):
        directory.write_text(f"{generation.name}/tables-old/floors/{name}", text)

    def copy_what_is_gone(self: CheckpointDirectory, name: str, to: str) -> None:
        self.delete(name)
        self.write_text(f"{to}/part-0", "all")
        copy(self, name, to)

    monkeypatch.setattr(CheckpointDirectory, "copy", copy_what_is_gone)
    assert not generations.take_over_part(generation, "tables-new", "floors")
    assert not directory.exists(f"{generation.name}/tables-new/floors")


@pytest.mark.parametrize("topic", ["towns", "lines", "counts"])
def test_topics_that_were_created_anew_are_told(topic: str) -> None:
    assert ORIGIN.changed_topics(replace(ORIGIN, topic_ids=IDS | {topic: "d"})) == [topic]
    assert ORIGIN.changed_topics(ORIGIN) == []


def test_older_generations_are_deleted_and_others_left(root: CheckpointDirectory, generations: Generations) -> None:
    first, second = begun(generations), begun(generations)
    later = generations.claim(0, ORIGIN, seeded=False)
    generations.directory.write_text(f"{later.name}/seed/half", "")
    root.write_text("identity", "x")
    generations.directory.write_text("note", "x")
    generations.delete_older(second)
    assert not generations.directory.exists(first.name)
    # A later one's claim and what it has written: nobody deletes another's.
    assert sorted(generations.directory.names()) == sorted(
        ["note", f"generation-{second.number}", second.name, f"generation-{later.number}", later.name]
    )
    assert sorted(root.names()) == ["counts-store-v1", "identity"]


def test_what_the_last_version_left_is_deleted_and_nothing_else(
    root: CheckpointDirectory, generations: Generations
) -> None:
    kept = begun(generations)
    for name in ("generation-3/query/offsets/0", "generation-12/generation.json", "identity"):
        root.write_text(name, "x")
    delete_former(root, STORE)
    assert sorted(root.names()) == ["counts-store-v1", "identity"]
    assert generations.current() == kept


def test_after_a_file_that_cannot_be_understood_another_generation_begins(generations: Generations) -> None:
    first = begun(generations)
    generations.directory.write_text(f"{first.name}/generation.json", "{")
    assert generations.current() is None
    assert begun(generations).number == 2


def test_after_a_file_that_is_not_what_its_checksum_says_another_generation_begins(
    generations: Generations, tmp_path: Path
) -> None:
    first = begun(generations)
    (manifest,) = tmp_path.rglob("generation.json")
    assert manifest.with_name(".generation.json.crc").exists()
    manifest.write_text("{")
    assert generations.current() is None
    assert begun(generations).number == first.number + 1


def test_windows_that_are_damaged_are_noted_anew(generations: Generations, tmp_path: Path) -> None:
    generations.check_windows()
    (noted,) = tmp_path.rglob("windows")
    noted.write_text("damaged")
    generations.check_windows()
    assert noted.read_text() == "no windows"


def test_a_later_generation_may_have_published_once_its_query_has_been_started(generations: Generations) -> None:
    first = begun(generations)
    second = generations.claim(0, ORIGIN, seeded=True)
    generations.directory.write_text(f"{second.seed}/part-0", "")
    assert not generations.may_have_published_after(first)
    generations.directory.write_text(f"{second.query}/metadata", "")
    assert generations.may_have_published_after(first)
    assert not generations.may_have_published_after(second)


def test_a_claim_is_made_once_and_stays_as_it_was(root: CheckpointDirectory) -> None:
    assert root.claim("a/claim", "first")
    assert not root.claim("a/claim", "second")
    assert root.read_text("a/claim") == "first"


def test_a_text_is_written_over(root: CheckpointDirectory) -> None:
    root.write_text("note", "one")
    root.write_text("note", "zwei ☃")
    assert root.read_text("note") == "zwei ☃"
    assert root.read_text("another") is None
    assert root.names() == ["note"]


def test_a_uri_that_cannot_be_used_names_the_setting(spark: Spark, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointUnusable, match="LEADERBOARD_CHECKPOINT_URI"):
        CheckpointDirectory(spark.session, (tmp_path / "file" / "checkpoint").as_uri())
    with pytest.raises(CheckpointUnusable, match="nosuch"):
        CheckpointDirectory(spark.session, "nosuch://bucket/checkpoint")


def test_a_file_says_what_people_look_for(generations: Generations) -> None:
    generation = begun(generations, seeded=True)
    fields = json.loads(generations.directory.read_text(f"{generation.name}/generation.json") or "")
    assert fields == {
        "number": 1,
        "token": generation.token,
        "seeded": True,
        "stream_ms": None,
        "has_older": False,
        "origin": {
            "topic_ids": IDS,
            "version": 1,
            "settings": {"KEPT": 10},
            "result_partitions": 4,
            "source_partitions": 2,
            "state_form": "",
        },
    }

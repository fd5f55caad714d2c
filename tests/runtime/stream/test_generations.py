"""Generations: what they depend on, and what is kept of them under the checkpoint URI."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from runtime.stream.generation_run import GenerationRun

from app.instance.checkpoint_identity import checkpoint_identity
from runtime.errors import CheckpointUnusable
from runtime.spark.checkpoint import CheckpointDirectory
from runtime.spark.session import Spark
from runtime.stream import generations, snapshots
from runtime.stream.generations import Generation, Origin
from tests.drivers.stream_threads import NoTables

ORIGIN = Origin({"score-events": "a", "players": "b"}, depth=10, topology_version=1, board_partitions=4)


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (ORIGIN, None),
        (Origin({"players": "b"}, 10, 1, 4), None),
        (Origin({"score-events": "x", "players": "b"}, 10, 1, 4), "topic score-events was created anew"),
        (Origin({"score-events": "a", "products": "c"}, 10, 1, 4), "topic products was created anew"),
        (Origin(ORIGIN.topic_ids, 5, 1, 4), "LEADERBOARD_DEPTH 5 instead of 10"),
        (Origin(ORIGIN.topic_ids, 10, 2, 4), "topology version 2 instead of 1"),
        (Origin(ORIGIN.topic_ids, 10, 1, 6), "topic high-scores has 6 partitions instead of 4"),
    ],
)
def test_another_origin_needs_another_generation(wanted: Origin, reason: str | None) -> None:
    assert ORIGIN.difference(wanted) == reason


def test_a_generation_survives_its_file() -> None:
    generation = Generation(7, ORIGIN, seeded=False)
    assert Generation.from_json(generation.to_json()) == generation


def test_a_file_of_an_older_version_speaks_of_a_seed_and_not_of_partitions() -> None:
    fields = json.loads(Generation(7, ORIGIN).to_json())
    del fields["seeded"]
    del fields["origin"]["board_partitions"]
    older = Generation.from_json(json.dumps(fields))
    assert older.seeded
    assert older.origin.difference(ORIGIN) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"number": 1}', '{"number": "x", "origin": {}}'])
def test_a_file_that_is_no_generation_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Generation.from_json(text)


@pytest.fixture
def directory(spark: Spark, tmp_path: Path) -> CheckpointDirectory:
    return CheckpointDirectory(spark.session, (tmp_path / "check point").as_uri())


@pytest.mark.parametrize("name", ["check point", "Spielstände", "a%20b", "a[b]{c,d}*"])
def test_a_directory_is_where_its_uri_says(spark: Spark, tmp_path: Path, name: str) -> None:
    uri = (tmp_path / name).as_uri()
    checkpoint_identity(uri)
    directory = CheckpointDirectory(spark.session, uri)
    directory.write_text("note", "here")
    rows = snapshots.ids(spark.session, "player_id", [1, 2])
    snapshots.write_rows(snapshots.Rows(rows, rows.withColumnRenamed("player_id", "product_id")), directory.child("t"))
    snapshots.write_floors(spark.session.createDataFrame([(1, 2.0)], snapshots.FLOORS_SCHEMA), directory.child("t"))
    tables = snapshots.read_tables(spark.session, directory.child("t"), None)
    assert (tables.players.count(), tables.floors.count() if tables.floors else 0) == (2, 1)
    assert (tmp_path / name / "note").read_text() == "here"
    assert sorted(directory.names()) == ["identity", "note", "t"]
    assert [path.name for path in tmp_path.iterdir()] == [name], "nothing lies elsewhere"


def test_there_is_no_generation_in_an_empty_directory(directory: CheckpointDirectory) -> None:
    assert generations.current(directory) is None


def test_the_first_generation_has_nothing_to_publish(spark: Spark, directory: CheckpointDirectory) -> None:
    generation = generations.begin_first(directory, ORIGIN)
    assert generation.number == 1
    assert not generation.seeded
    assert generations.current(directory) == generation
    # There is no broker here: publishing anything would fail.
    generations.publish_seed(spark, directory, generation)


def test_a_generation_that_was_not_begun_to_the_end_does_not_count(
    spark: Spark, directory: CheckpointDirectory
) -> None:
    first = generations.begin_first(directory, ORIGIN)
    directory.write_text("generation-2/seed/half", "")
    assert generations.current(directory) == first
    assert generations.begin_first(directory, ORIGIN).number == 2
    assert not directory.exists("generation-2/seed/half")


def test_of_the_snapshots_of_a_generation_the_newest_is_left(spark: Spark, directory: CheckpointDirectory) -> None:
    run = GenerationRun(spark, directory, generations.begin_first(directory, ORIGIN), NoTables())
    for name in ("tables-a/players", "tables-b/players", "query/offsets"):
        directory.write_text(f"{run.generation.name}/{name}", "")
    run.delete_other_tables("tables-b")
    assert sorted(directory.names(run.generation.name)) == ["generation.json", "query", "tables-b"]
    run.delete_other_tables("tables-b")


@pytest.mark.parametrize(("topic", "are_other"), [("players", True), ("products", True), ("score-events", False)])
def test_tables_that_lie_in_another_topic_are_told(topic: str, are_other: bool) -> None:
    ids = {"score-events": "a", "players": "b", "products": "c"}
    assert Origin(ids, 10).has_other_tables(Origin(ids | {topic: "d"}, 10)) is are_other


def test_older_generations_are_deleted_and_others_left(spark: Spark, directory: CheckpointDirectory) -> None:
    generations.begin_first(directory, ORIGIN)
    second = generations.begin_first(directory, ORIGIN)
    directory.write_text("identity", "x")
    generations.delete_older(directory, second)
    assert sorted(directory.names()) == ["generation-2", "identity"]


def test_after_a_file_that_cannot_be_understood_another_generation_begins(
    spark: Spark, directory: CheckpointDirectory
) -> None:
    generations.begin_first(directory, ORIGIN)
    directory.write_text("generation-1/generation.json", "{")
    assert generations.current(directory) is None
    assert generations.begin_first(directory, ORIGIN).number == 2


def test_a_text_is_written_over(directory: CheckpointDirectory) -> None:
    directory.write_text("note", "one")
    directory.write_text("note", "zwei ☃")
    assert directory.read_text("note") == "zwei ☃"
    assert directory.read_text("another") is None
    assert directory.names() == ["note"]


def test_a_uri_that_cannot_be_used_names_the_setting(spark: Spark, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointUnusable, match="LEADERBOARD_CHECKPOINT_URI"):
        CheckpointDirectory(spark.session, (tmp_path / "file" / "checkpoint").as_uri())
    with pytest.raises(CheckpointUnusable, match="nosuch"):
        CheckpointDirectory(spark.session, "nosuch://bucket/checkpoint")

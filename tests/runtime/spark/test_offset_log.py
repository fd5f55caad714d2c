"""The offset log of a checkpoint that Spark itself has written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame

from runtime.errors import CheckpointUnusable
from runtime.spark import offset_log
from runtime.spark.checkpoint import CheckpointDirectory
from runtime.spark.session import Spark

TOPIC = "lines"


@pytest.fixture
def directory(spark: Spark, tmp_path: Path) -> CheckpointDirectory:
    return CheckpointDirectory(spark.session, (tmp_path / "check point").as_uri())


@pytest.fixture(autouse=True)
def state_as_the_stream_has_it(spark: Spark) -> Iterator[None]:
    yield
    for query in spark.session.streams.active:
        query.stop()


def run(spark: Spark, tmp_path: Path, directory: CheckpointDirectory, files: int = 1) -> None:
    """Run a query that reads files, to its end: one batch for each."""
    source = tmp_path / "files"
    source.mkdir(exist_ok=True)
    for number in range(files):
        (source / f"{len(list(source.iterdir()))}-{number}.json").write_text(json.dumps({"word": "a"}))
    words: DataFrame = spark.session.readStream.schema("word string").option("maxFilesPerTrigger", 1).json(str(source))
    writer = words.groupBy("word").count().writeStream.format("memory").queryName("counted").outputMode("update")
    query = writer.option("checkpointLocation", directory.child("query")).trigger(availableNow=True).start()
    assert query.awaitTermination(60)


def test_a_query_that_has_not_begun_says_nothing(directory: CheckpointDirectory) -> None:
    assert offset_log.last_committed(directory, "query", TOPIC) is None
    assert offset_log.committed(directory, "query", TOPIC, 0) is None


def test_what_spark_has_written_is_understood(spark: Spark, tmp_path: Path, directory: CheckpointDirectory) -> None:
    run(spark, tmp_path, directory, files=2)
    # Of files and not of the topic: nothing of it has been read.
    assert offset_log.last_committed(directory, "query", TOPIC) == {}
    assert offset_log.committed(directory, "query", TOPIC, 0) == {}
    assert offset_log.committed(directory, "query", TOPIC, 2) is None


def test_a_query_goes_on_at_the_offsets_that_are_written(
    spark: Spark, tmp_path: Path, directory: CheckpointDirectory
) -> None:
    run(spark, tmp_path, directory)
    before = (directory.read_text("query/offsets/0") or "").splitlines()
    state = {path: path.read_bytes() for path in Path(tmp_path, "check point/query/state").rglob("*") if path.is_file()}
    assert state, "the batch has left a state"

    offset_log.begin_at(directory, "query", TOPIC, {1: 7, 0: 5})

    assert offset_log.last_committed(directory, "query", TOPIC) == {0: 5, 1: 7}
    after = (directory.read_text("query/offsets/0") or "").splitlines()
    assert (after[:2], json.loads(after[2])) == (before[:2], {TOPIC: {"0": 5, "1": 7}})
    assert not directory.exists("query/sources"), "what the files were"
    assert all(path.read_bytes() == found for path, found in state.items()), "the state stays"
    # Hadoop's file system checks what it reads.
    assert spark.session.read.text(directory.child("query/offsets/0")).count() == 3


def test_where_the_last_of_many_batches_ended_counts(
    spark: Spark, tmp_path: Path, directory: CheckpointDirectory
) -> None:
    run(spark, tmp_path, directory)
    for batch in range(1, 12):
        directory.write_text(f"query/offsets/{batch}", f'v1\n{{}}\n{{"{TOPIC}":{{"0":{batch}}}}}')
        if batch < 11:
            directory.write_text(f"query/commits/{batch}", "v1\n{}")
    # By number and not by name; of what was planned and not committed nothing counts.
    assert offset_log.last_committed(directory, "query", TOPIC) == {0: 10}
    assert offset_log.committed(directory, "query", TOPIC, 11) == {0: 11}


@pytest.mark.parametrize("text", ["", "v1", "v2\n{}\n{}", "v1\n{}", "v1\n{}\n{}\n{}"])
def test_a_log_of_another_spark_is_not_guessed_at(directory: CheckpointDirectory, text: str) -> None:
    directory.write_text("query/offsets/0", text)
    directory.write_text("query/commits/0", "v1\n{}")
    with pytest.raises(CheckpointUnusable, match="is not as Spark writes it"):
        offset_log.begin_at(directory, "query", TOPIC, {0: 5})
    with pytest.raises(CheckpointUnusable, match="has an offset log of another Spark"):
        offset_log.last_committed(directory, "query", TOPIC)

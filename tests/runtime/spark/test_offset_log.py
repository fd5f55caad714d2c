"""The offset log of a checkpoint that Spark itself has written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from aiokafka import TopicPartition
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame

from runtime.errors import CheckpointUnusable
from runtime.spark.checkpoint import CheckpointDirectory
from runtime.spark.offset_log import Batch, OffsetLog
from runtime.spark.session import Spark

TOPIC = "lines"


def of(offsets: Mapping[int, int], topic: str = TOPIC) -> dict[TopicPartition, int]:
    """Return offsets by partition of a topic."""
    return {TopicPartition(topic, partition): offset for partition, offset in offsets.items()}


@pytest.fixture
def directory(spark: Spark, tmp_path: Path) -> CheckpointDirectory:
    return CheckpointDirectory(spark.session, (tmp_path / "check point").as_uri())


@pytest.fixture(autouse=True)
def no_query_is_left(spark: Spark) -> Iterator[None]:
    yield
    for query in spark.session.streams.active:
        query.stop()


def run(spark: Spark, tmp_path: Path, directory: CheckpointDirectory, files: int = 1, where: str = "files") -> None:
    """Run a query that reads files, to its end: one batch for each."""
    source = tmp_path / where
    source.mkdir(exist_ok=True)
    for number in range(files):
        (source / f"{len(list(source.iterdir()))}-{number}.json").write_text(json.dumps({"word": "a"}))
    words: DataFrame = spark.session.readStream.schema("word string").option("maxFilesPerTrigger", 1).json(str(source))
    writer = words.groupBy("word").count().writeStream.format("memory").queryName("counted").outputMode("complete")
    query = writer.option("checkpointLocation", directory.child("query")).trigger(availableNow=True).start()
    assert query.awaitTermination(60)


@pytest.fixture
def log(directory: CheckpointDirectory) -> OffsetLog:
    return OffsetLog(directory, "query")


def test_a_query_that_has_not_begun_says_nothing(log: OffsetLog) -> None:
    assert (log.done(), log.planned(), log.ends_of(0)) == (None, None, None)
    for write in (log.plan, log.move):
        with pytest.raises(CheckpointUnusable):
            write(of({0: 5}))


def test_a_query_whose_state_spark_has_made_goes_on_at_the_offsets_that_are_written(
    spark: Spark, tmp_path: Path, directory: CheckpointDirectory, log: OffsetLog
) -> None:
    run(spark, tmp_path, directory)
    before = (directory.read_text("query/offsets/0") or "").splitlines()
    state = {path: path.read_bytes() for path in Path(tmp_path, "check point/query/state").rglob("*") if path.is_file()}
    assert state, "the batch has left a state"

    log.begin_at(of({1: 7, 0: 5}))

    assert (log.done(), log.planned()) == (Batch(0, before[1], of({0: 5, 1: 7})), None)
    assert log.ends_of(0) == of({0: 5, 1: 7})
    after = (directory.read_text("query/offsets/0") or "").splitlines()
    assert (after[:2], json.loads(after[2])) == (before[:2], {TOPIC: {"0": 5, "1": 7}})
    assert not directory.exists("query/sources"), "what the files were"
    assert all(path.read_bytes() == found for path, found in state.items()), "the state stays"
    # Hadoop's file system holds what it reads to a checksum beside it.
    assert spark.session.read.text(directory.child("query/offsets/0")).count() == 3


def test_a_query_that_has_gone_on_does_not_begin_again(
    spark: Spark, tmp_path: Path, directory: CheckpointDirectory, log: OffsetLog
) -> None:
    run(spark, tmp_path, directory, files=2)
    with pytest.raises(CheckpointUnusable, match="has other batches than the one that it began with"):
        log.begin_at(of({0: 5}))


def test_the_batch_before_it_is_read_of_the_numbers_that_spark_gives(
    spark: Spark, tmp_path: Path, directory: CheckpointDirectory, log: OffsetLog
) -> None:
    run(spark, tmp_path, directory)
    log.begin_at(of({0: 0}))
    for number in range(1, 12):
        log.plan(of({0: number}))
        assert (log.planned() or log.done()) == log.planned()
        if number < 11:
            directory.write_text(f"query/commits/{number}", "v1\n{}")
            assert log.planned() is None
    done, planned = log.done(), log.planned()
    # By number and not by name.
    assert done is not None
    assert planned is not None
    assert ((done.number, done.ends), (planned.number, planned.ends)) == ((10, of({0: 10})), (11, of({0: 11})))
    assert done.metadata == planned.metadata == (directory.read_text("query/offsets/0") or "").splitlines()[1]


def test_a_batch_that_reads_nothing_is_planned_when_event_time_has_a_later_bound(
    spark: Spark, tmp_path: Path, directory: CheckpointDirectory, log: OffsetLog
) -> None:
    assert not log.plan_bound(5), "no batch was done"
    assert log.bound_ms() is None
    run(spark, tmp_path, directory)
    log.begin_at(of({0: 2}))
    assert log.bound_ms() == 0
    assert not log.plan_bound(0), "the last batch had this bound"
    assert log.plan_bound(1_795_622_478_634)
    done, planned = log.done(), log.planned()
    assert done is not None
    assert planned is not None
    assert (planned.number, planned.ends) == (1, done.ends)
    before, now = (json.loads(batch.metadata) for batch in (done, planned))
    assert now == {**before, "batchWatermarkMs": 1_795_622_478_634}
    assert log.bound_ms() == 1_795_622_478_634
    assert log.plan_bound(1_795_622_478_700), "one is planned"
    assert log.planned() == planned
    # Spark has noted a bound that no batch had.
    directory.write_text("query/commits/1", 'v2\n{"nextBatchWatermarkMs":1795622478900}')
    assert log.plan_bound(1_795_622_478_700)
    last = log.planned()
    assert last is not None
    assert (last.number, json.loads(last.metadata)["batchWatermarkMs"]) == (2, 1_795_622_478_900)
    directory.write_text("query/commits/2", "v2")
    with pytest.raises(CheckpointUnusable, match="batch 2 of query tells no time"):
        log.plan_bound(1_795_622_479_000)


def test_a_query_that_reads_topics_twice_has_the_same_offsets_twice() -> None:
    offsets = json.dumps({TOPIC: {"0": 5}})
    batch = Batch.parse(3, f"v1\n{{}}\n{offsets}\n{offsets}")
    assert (batch.ends, batch.readers) == (of({0: 5}), 2)
    assert Batch.parse(3, batch.to_text()) == batch
    with pytest.raises(CheckpointUnusable, match="batch 3 cannot be read: its file is cut off before them"):
        Batch.parse(3, 'v1\n{"batchWatermarkMs":0}')
    with pytest.raises(CheckpointUnusable, match="2 readers, which are at different offsets"):
        Batch.parse(3, f"v1\n{{}}\n{offsets}\n{json.dumps({TOPIC: {'0': 6}})}")


def test_a_batch_that_is_planned_is_planned_anew_and_one_that_was_done_is_moved(
    spark: Spark, tmp_path: Path, directory: CheckpointDirectory, log: OffsetLog
) -> None:
    run(spark, tmp_path, directory)
    log.begin_at(of({0: 2, 1: 3}))
    log.plan(of({0: 4, 1: 3}))
    log.plan(of({0: 3, 1: 3}))
    assert (log.done() or Batch(9, "", {})).ends == of({0: 2, 1: 3})
    assert (log.planned() or Batch(9, "", {})).ends == of({0: 3, 1: 3})
    log.move(of({1: 8}))
    assert (log.done() or Batch(9, "", {})).ends == of({0: 2, 1: 8})


def counted(spark: Spark) -> list[int]:
    """Return the counts that the last query has put out."""
    return [row["count"] for row in spark.session.table("counted").collect()]


def test_a_batch_of_files_between_those_of_a_topic_goes_on_with_their_state(
    spark: Spark, tmp_path: Path, directory: CheckpointDirectory, log: OffsetLog
) -> None:
    run(spark, tmp_path, directory)
    log.begin_at(of({0: 2, 1: 3}))
    log.plan(of({0: 9, 1: 9}))
    for number in (1, 2):
        with log.reading_files(of({0: 5 * number})):
            run(spark, tmp_path, directory, where=f"others-{number}")
        assert counted(spark) == [1 + number]
        done = log.done()
        assert done is not None
        assert (done.number, done.ends) == (number, of({0: 5 * number, 1: 3}))
        assert log.planned() is None
        assert log.ends_of(number - 1) == of({0: 5 * (number - 1) or 2, 1: 3})
        assert not directory.exists("query/sources")


def test_a_batch_of_files_that_fails_leaves_the_log_as_it_was(
    spark: Spark, tmp_path: Path, directory: CheckpointDirectory, log: OffsetLog
) -> None:
    run(spark, tmp_path, directory)
    log.begin_at(of({0: 2}))
    before = log.done()

    def fail(*, planned: bool) -> None:
        with log.reading_files(of({0: 5})):
            if planned:
                directory.write_text("query/offsets/1", 'v1\n{}\n{"logOffset":0}')
            raise RuntimeError("the batch")

    for planned in (False, True):
        with pytest.raises(RuntimeError, match="the batch"):
            fail(planned=planned)
        assert (log.done(), log.planned()) == (before, None)


def test_a_log_that_is_left_at_files_is_no_topics(
    spark: Spark, tmp_path: Path, directory: CheckpointDirectory, log: OffsetLog
) -> None:
    run(spark, tmp_path, directory)
    log.begin_at(of({0: 2}))
    left = []

    def look_in_the_block() -> None:
        with log.reading_files(of({0: 5})):
            for number in (0, 1):
                left.append(directory.read_text(f"query/offsets/{number}"))
                with pytest.raises(CheckpointUnusable, match=f"of batch {number} cannot be read: .* is no topic's"):
                    log.done()
                if number == 0:
                    run(spark, tmp_path, directory, where="others")

    look_in_the_block()
    assert [(text or "").splitlines()[2] for text in left] == ['{"logOffset":-1}', '{"logOffset":0}']


def test_files_are_read_behind_one_batch_alone(
    spark: Spark, tmp_path: Path, directory: CheckpointDirectory, log: OffsetLog
) -> None:
    with pytest.raises(CheckpointUnusable, match="no batch of query was done yet"), log.reading_files({}):
        pass
    run(spark, tmp_path, directory)
    log.begin_at(of({0: 2}))
    with (
        pytest.raises(CheckpointUnusable, match="has done batches up to 2, and was to do 1"),
        log.reading_files(of({0: 5})),
    ):
        run(spark, tmp_path, directory, files=2, where="others")
    with pytest.raises(CheckpointUnusable, match="the offsets of batch 2 cannot be read"):
        log.done()


@pytest.mark.parametrize(
    "text", ["v1", "v2\n{}\n{}", "v1\n{}", "v1\n{}\n{}", 'v1\n{}\n{"lines":5}', "v1\n{}\n{}\n{}", "v1\n{}\n[]"]
)
def test_a_log_of_another_spark_is_not_guessed_at(directory: CheckpointDirectory, log: OffsetLog, text: str) -> None:
    directory.write_text("query/offsets/0", text)
    directory.write_text("query/commits/0", "v1\n{}")
    with pytest.raises(CheckpointUnusable, match="the offsets of batch 0 cannot be read"):
        log.done()
    with pytest.raises(CheckpointUnusable):
        log.ends_of(0)


@pytest.mark.parametrize("text", [None, "", "v1", "v2\n{}\n{}", "v1\n{}", "v1\n{}\n{}\n{}"])
def test_a_state_does_not_begin_in_a_log_of_another_spark(
    directory: CheckpointDirectory, log: OffsetLog, text: str | None
) -> None:
    if text is not None:
        directory.write_text("query/offsets/0", text)
    directory.write_text("query/commits/0", "v1\n{}")
    with pytest.raises(CheckpointUnusable, match="has other batches than the one that it began with"):
        log.begin_at(of({0: 5}))


def test_offsets_that_are_gone_are_missed(directory: CheckpointDirectory, log: OffsetLog) -> None:
    directory.write_text("query/commits/3", "v1\n{}")
    with pytest.raises(CheckpointUnusable, match="the offsets of batch 3 of query are gone"):
        log.done()


PLACES = st.builds(TopicPartition, st.sampled_from([TOPIC, "others"]), st.integers(0, 99))


@given(st.dictionaries(PLACES, st.integers(0, 2**62), min_size=1))
def test_a_batch_survives_its_text(ends: dict[TopicPartition, int]) -> None:
    batch = Batch(7, '{"batchWatermarkMs":0}', ends)
    assert Batch.parse(7, batch.to_text()) == batch

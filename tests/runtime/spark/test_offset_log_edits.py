"""The log of offsets in Spark's checkpoint: as Spark writes it, and read by Spark as it is written here.

Whatever of Spark's internals a change of versions may break is named here: the two directories, the numbers that name
their files, and the lines of those.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from aiokafka import TopicPartition

from runtime.errors import CheckpointUnusable
from runtime.spark.checkpoint import CheckpointDirectory
from runtime.spark.offset_log import Batch, OffsetLog
from runtime.spark.session import Spark

METADATA: Final = '{"batchWatermarkMs":0,"batchTimestampMs":1795622478634,"conf":{"spark.sql.shuffle.partitions":"4"}}'
TEXT: Final = f'v1\n{METADATA}\n{{"score-events":{{"0":3,"1":12}}}}'


def of(offsets: Mapping[int, int]) -> dict[TopicPartition, int]:
    """Return offsets by partition of a topic."""
    return {TopicPartition("score-events", partition): offset for partition, offset in offsets.items()}


class Checkpoint:
    """A checkpoint with Spark's own logs over it."""

    def __init__(self, spark: Spark, root: Path) -> None:
        self.log = OffsetLog(CheckpointDirectory(spark.session, root.as_uri()), "query")
        jvm: Any = spark.session._jvm  # noqa: SLF001
        self._jvm = jvm
        self._session: Any = spark.session._jsparkSession  # noqa: SLF001
        self._query = f"{root.as_uri()}/query"
        self._checkpointing = jvm.org.apache.spark.sql.execution.streaming.checkpointing

    def plans(self, number: int, text: str) -> None:
        """Have Spark plan a batch."""
        offsets = self._offsets()
        source = self._jvm.java.io.ByteArrayInputStream(text.encode())
        assert offsets.add(number, offsets.deserialize(source))

    def does(self, number: int) -> None:
        """Have Spark note that a batch was done."""
        commits = self._checkpointing.CommitLog(self._session, f"{self._query}/commits", False)
        assert commits.add(
            number, commits.deserialize(self._jvm.java.io.ByteArrayInputStream(b'v1\n{"nextBatchWatermarkMs":0}'))
        )

    def read_by_spark(self) -> tuple[int, str]:
        """Return the last batch that Spark's own log has: its number, and the offsets of its source."""
        last = self._offsets().getLatest().get()
        return last._1(), last._2().offsets().head().get().json()  # noqa: SLF001  # how Scala names the parts of a pair

    def _offsets(self) -> Any:
        return self._checkpointing.OffsetSeqLog(self._session, f"{self._query}/offsets", False)


@pytest.fixture
def checkpoint(spark: Spark, tmp_path: Path) -> Checkpoint:
    return Checkpoint(spark, tmp_path)


def test_a_batch_comes_out_as_it_went_in() -> None:
    batch = Batch.parse(7, TEXT)
    assert batch == Batch(7, METADATA, of({0: 3, 1: 12}))
    assert batch.to_text() == TEXT
    several = f'v1\n{METADATA}\n{{"another":{{"0":7}},"score-events":{{"0":3}}}}'
    assert Batch.parse(7, several).ends == {**of({0: 3}), TopicPartition("another", 0): 7}
    assert Batch.parse(7, several).to_text() == several


@pytest.mark.parametrize(
    "text",
    [
        "",
        "v1",
        TEXT.replace("v1", "v2"),
        f"v1\n{METADATA}\n-",
        f'{TEXT}\n{{"another":{{"0":1}}}}',
        f'v1\n{METADATA}\n{{"score-events":{{"0":1}},"another":5}}',
        f'v1\n{METADATA}\n"x"',
    ],
)
def test_a_log_that_is_not_as_it_is_known_is_refused(text: str) -> None:
    with pytest.raises(CheckpointUnusable, match="the offsets of batch 7 cannot be read"):
        Batch.parse(7, text)


def test_an_empty_checkpoint_has_no_batch_to_go_by(checkpoint: Checkpoint) -> None:
    assert checkpoint.log.done() is None
    assert checkpoint.log.planned() is None
    with pytest.raises(CheckpointUnusable, match="no batch of query was ever planned"):
        checkpoint.log.plan(of({0: 1}))
    with pytest.raises(CheckpointUnusable, match="no batch of query was done yet"):
        checkpoint.log.move(of({0: 1}))


def test_the_batch_that_spark_has_planned_ends_where_it_is_told(checkpoint: Checkpoint) -> None:
    checkpoint.plans(0, TEXT)
    assert checkpoint.log.done() is None
    assert checkpoint.log.planned() == Batch.parse(0, TEXT)
    checkpoint.log.plan(of({0: 2, 1: 4}))
    assert checkpoint.read_by_spark() == (0, '{"score-events":{"0":2,"1":4}}')


def test_what_comes_after_the_last_batch_is_planned_and_begins_where_it_is_told(checkpoint: Checkpoint) -> None:
    checkpoint.plans(0, TEXT)
    checkpoint.does(0)
    assert checkpoint.log.done() == Batch.parse(0, TEXT)
    assert checkpoint.log.planned() is None
    checkpoint.log.move(of({0: 5}))
    assert checkpoint.read_by_spark() == (0, '{"score-events":{"0":5,"1":12}}')
    checkpoint.log.plan(of({0: 9, 1: 20, 2: 1}))
    assert checkpoint.read_by_spark() == (1, '{"score-events":{"0":9,"1":20,"2":1}}')

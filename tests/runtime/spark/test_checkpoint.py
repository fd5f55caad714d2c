"""How Spark writes the files of a checkpoint: on a local path without processes for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.spark.session import Spark, checkpoint_conf

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


@pytest.mark.parametrize("uri", ["s3a://bucket/checkpoint", "hdfs://names:8020/checkpoint", "abfss://c@a/checkpoint"])
@pytest.mark.parametrize("given", [None, "org.example.AtomicFileManager"])
def test_elsewhere_spark_writes_in_its_usual_way_or_as_it_was_told(uri: str, given: str | None) -> None:
    assert checkpoint_conf(uri, {MANAGER: given} if given else {}) == {MANAGER: given}


def test_spark_writes_a_local_checkpoint_in_the_way_that_is_asked_for(spark: Spark, tmp_path: Path) -> None:
    conf = checkpoint_conf(f"{tmp_path.as_uri()}/query", {})
    assert file_manager(spark, tmp_path) == "FileContextBasedCheckpointFileManager"
    try:
        for name, value in conf.items():
            assert value is not None
            spark.session.conf.set(name, value)
        assert file_manager(spark, tmp_path) == "FileSystemBasedCheckpointFileManager"
    finally:
        for name in conf:
            spark.session.conf.unset(name)


def file_manager(spark: Spark, path: Path) -> str:
    """Return the class that Spark takes for a path with the settings that the session has now."""
    jvm: Any = spark.session._jvm  # noqa: SLF001
    hadoop_conf = spark.session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
    managers = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
    return str(managers.create(jvm.org.apache.hadoop.fs.Path(path.as_uri()), hadoop_conf).getClass().getSimpleName())

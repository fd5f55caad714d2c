"""Files whose path has letters that mean something to Hadoop, read as they lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.spark.session import Spark, read_parquet, stream_parquet


@pytest.mark.parametrize(
    "name", ["plain", "with space é [1]", "q'uo$HOME`x`{x}*?&;", "back\\slash", "a#b%41c", 'dou"ble']
)
def test_a_path_is_taken_as_it_stands(spark: Spark, tmp_path: Path, name: str) -> None:
    directory = tmp_path / name / "seed"
    # What a pattern would find as well.
    (tmp_path / "2026-01-01T10:00:00").mkdir()
    path = f"file://{directory}"
    spark.session.createDataFrame([(1,)], "n bigint").write.parquet(path)
    assert read_parquet(spark.session, "n bigint", path).count() == 1
    query = (
        stream_parquet(spark.session, path)
        .writeStream.format("noop")
        .option("checkpointLocation", f"file://{tmp_path}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(60)
    assert [each.numInputRows for each in query.recentProgress] == [1]

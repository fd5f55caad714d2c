"""Which of the published results a generation begins with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame

from runtime.spark.results import RECORD, latest, published
from runtime.spark.session import Spark
from tests.drivers.word_topologies import word_count

(STORE,) = word_count("published").stores


def _records(spark: Spark, *results: tuple[int, Mapping[str, Mapping[str, int]], int]) -> DataFrame:
    """Return records of one word: its count, the offsets that it says it has counted, and the store's version."""
    rows = [
        (
            "hello",
            json.dumps({"count": count}),
            [(name, json.dumps(said).encode()) for name, said in _headers(offsets, version).items()],
        )
        for count, offsets, version in results
    ]
    return spark.session.createDataFrame(rows, RECORD)


def _headers(offsets: Mapping[str, Mapping[str, int]], version: int) -> dict[str, object]:
    return {"generation": 1, "version": version, "events": 1, "newest_ms": 1, "offsets": offsets}


def _count(spark: Spark, *results: tuple[int, Mapping[str, Mapping[str, int]], int]) -> int | None:
    found = latest(STORE, published(STORE, _records(spark, *results))).collect()
    return found[0]["values"]["count"] if found else None


def test_the_first_record_of_a_partition_is_more_than_none(spark: Spark) -> None:
    fewer, more = (5, {"a": {"0": 7}}, 1), (6, {"a": {"0": 7, "1": 0}}, 1)
    assert _count(spark, fewer, more) == _count(spark, more, fewer) == 6


def test_one_that_has_counted_a_topic_which_is_no_more_is_more(spark: Spark) -> None:
    fewer, more = (5, {"a": {"0": 7}}, 1), (9, {"a": {"0": 7}, "b": {"3": 0}}, 1)
    assert _count(spark, fewer, more) == _count(spark, more, fewer) == 9


def test_results_of_another_version_of_the_store_are_no_seed(spark: Spark) -> None:
    first, second = (5, {"a": {"0": 7}}, 1), (2, {"a": {"0": 3}}, 2)
    assert _count(spark, first, second) == 5
    later = replace(STORE, version=2)
    (found,) = latest(later, published(later, _records(spark, first, second))).collect()
    assert found["values"]["count"] == 2
    assert not published(replace(STORE, version=3), _records(spark, first, second)).collect()

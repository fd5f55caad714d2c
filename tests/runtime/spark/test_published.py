"""Which of the published results a generation begins with."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import DataFrame

from runtime import Store
from runtime.results import delete_headers
from runtime.spark.results import (
    RECORD,
    deletes_of_earlier,
    in_query,
    last_of_each,
    later_than,
    latest,
    published,
    texts_of_generation,
)
from runtime.spark.session import Spark
from tests.drivers.word_topologies import products_and_kinds, word_count
from topology.leaderboard.board import LEADERBOARD

(STORE,) = word_count("published").stores
BOARDS = LEADERBOARD.store("leader-boards")


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


def test_the_rows_of_two_stores_have_the_keys_of_their_query_and_none_of_one_is_taken_for_one_of_the_other(
    spark: Spark,
) -> None:
    by_product, by_kind = products_and_kinds("published").stores
    headers = [(name, json.dumps(said).encode()) for name, said in _headers({}, 1).items()]

    def in_query_of_both(of: Store, *keys: str) -> list[tuple[int, str]]:
        records = spark.session.createDataFrame([(key, '{"count": 1}', headers) for key in keys], RECORD)
        found = in_query(by_kind, of, published(of, records)).collect()
        return [(row["of_product"], row["kind"]) for row in found]

    assert in_query_of_both(by_product, "7", "-3") == [(7, "any kind"), (-3, "any kind")]
    assert in_query_of_both(by_kind, "7/red", "7/any kind") == [(7, "red")]


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


def test_a_value_is_read_once_whatever_is_asked_about_it(spark: Spark, capsys: pytest.CaptureFixture[str]) -> None:
    records = _records(spark, (5, {"a": {"0": 7}}, 1))
    published(STORE, records).where("values.count > 1 AND values.count < 9").select("made", "values.count").explain()
    published(BOARDS, records).where("values.pending_lost > 1").select("made", "values.known").explain()
    assert len(re.findall(r"from_json\(StructField", capsys.readouterr().out)) == 2


@pytest.mark.parametrize(
    ("generation", "may_be_later"),
    [
        ([b"2"], False),
        ([b"3"], False),
        ([b"4"], True),
        ([b"12"], True),
        ([b"x"], True),
        ([b"1e9"], True),
        ([None], True),
        ([], True),
        (None, True),
        pytest.param([b"4", b"3"], False, id="the last of a name counts"),
        pytest.param([b"3", b"4"], True, id="also where it is later"),
    ],
)
def test_what_says_that_it_is_of_no_later_generation_is_not_read(
    spark: Spark, generation: list[bytes | None] | None, may_be_later: bool
) -> None:
    headers = None if generation is None else [("version", b"1"), *(("generation", each) for each in generation)]
    records = spark.session.createDataFrame([("hello", "{}", headers)], RECORD)
    assert later_than(records, 3).count() == may_be_later


def test_the_last_record_of_a_key_in_each_partition_is_taken(spark: Spark) -> None:
    def record(key: str | None, partition: int, offset: int, value: bytes | None) -> Any:
        return key and key.encode(), value, [("generation", b"1")], partition, offset

    rows = [
        record("a", 0, 3, b"before"),
        record("b", 0, 4, b"deleted"),
        record(None, 0, 5, b"nobody's"),
        record("a", 0, 6, b"after"),
        record("b", 0, 7, None),
        # Where it does not belong any more, or not yet.
        record("a", 1, 2, b"elsewhere"),
    ]
    schema = "key binary, value binary, headers array<struct<key: string, value: binary>>, partition int, offset bigint"
    last = last_of_each(spark.session.createDataFrame(rows, schema), 1).select("key", "value").collect()
    found = {(bytes(key), None if value is None else bytes(value)) for key, value in last}
    assert found == {(b"a", b"after"), (b"b", None), (b"a", b"elsewhere")}


@pytest.mark.parametrize(
    ("headers", "is_of_it"),
    [
        pytest.param([("generation", b"3"), ("version", b"1")], True, id="it says so"),
        pytest.param([("generation", b"4"), ("version", b"1")], False, id="of a later one"),
        pytest.param([("generation", b"3"), ("version", b"2")], False, id="of another version"),
        pytest.param([("generation", b"3")], False, id="it does not say the version"),
        pytest.param([("generation", None), ("version", b"1")], False, id="it says nothing"),
        pytest.param(None, False, id="no headers"),
    ],
)
def test_what_says_that_it_is_of_a_generation_is_taken_as_text(
    spark: Spark, headers: list[tuple[str, bytes | None]] | None, is_of_it: bool
) -> None:
    records = spark.session.createDataFrame([("hello", "{no JSON", headers)], RECORD)
    found = [(row.word, row.text) for row in texts_of_generation(STORE, records, 3).collect()]
    assert found == ([("hello", "{no JSON")] if is_of_it else [])


def test_results_of_earlier_versions_are_deleted_unless_a_later_one_is_there(spark: Spark) -> None:
    def record(key: str | None, partition: int, offset: int, version: int | None, value: str | None = "{}") -> Any:
        headers = [("generation", b"7")] + ([] if version is None else [("version", b"%d" % version)])
        return (key and key.encode(), value and value.encode(), headers, partition, offset)

    rows = [
        record("old", 0, 0, 1),
        record("before there were headers", 0, 1, None),
        record("replaced", 0, 2, 1),
        record("replaced", 0, 3, 2),
        record("gone", 0, 4, 1),
        record("gone", 0, 5, 1, None),
        record("came back", 0, 6, 2, None),
        record("came back", 0, 7, 1),
        record("old", 1, 0, 1),
        record("later", 1, 1, 3),
        record(None, 1, 2, 1),
        (b"no result", b"?", None, 1, 3),
    ]
    schema = "key binary, value binary, headers array<struct<key: string, value: binary>>, partition int, offset bigint"
    found = deletes_of_earlier(replace(STORE, version=2), spark.session.createDataFrame(rows, schema)).collect()
    assert sorted((bytes(row.key).decode(), row.partition) for row in found) == [
        ("before there were headers", 0),
        ("came back", 0),
        ("no result", 1),
        ("old", 0),
        ("old", 1),
    ]
    assert {row.value for row in found} == {None}
    assert {tuple((each.key, bytes(each.value)) for each in row.headers) for row in found} == {tuple(delete_headers(2))}

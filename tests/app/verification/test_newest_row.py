"""The newest row of an id counts, by the same rule as at an instance."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import pytest

from app.verification.boards.expected import Expectation
from runtime.spark.session import Spark
from runtime.stores.table_rows import TableRow, newest_fields
from topology.leaderboard.topics import PLAYERS, PRODUCTS


@pytest.mark.system
def test_verify_has_the_same_rule(spark: Spark, tmp_path: Path) -> None:
    chance = random.Random(28)
    rows: dict[int, dict[int, TableRow]] = defaultdict(dict)
    records = []
    for offset in range(3000):
        row_id, partition, time_ms = chance.randrange(400), chance.randrange(4), chance.randrange(-1, 9)
        name = chance.choice([None, "a", "b", "c"])
        rows[row_id][partition] = TableRow(None if name is None else {"name": name}, time_ms, offset)
        records.append((row_id, name, time_ms, partition, offset))
    chance.shuffle(records)
    schema = "id bigint, name string, timestamp_ms bigint, partition int, offset bigint"
    expectation = Expectation(spark, tmp_path, depth=10)
    for topic in (PLAYERS, PRODUCTS):
        spark.session.createDataFrame(records, schema).write.parquet(f"file://{tmp_path / topic}")
    newest = {row_id: newest_fields(each) for row_id, each in rows.items()}
    expected = {row_id: fields["name"] for row_id, fields in newest.items() if fields is not None}
    assert expectation.names(range(400), range(400))[:2] == (expected, expected)

"""A generation at work: what its queries join, and what of its events has no key; without Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from decimal import Decimal as Exact
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime import (
    Boolean,
    Count,
    Decimal,
    Double,
    Int64,
    Key,
    PlainText,
    Store,
    Stream,
    Table,
    Text,
    Timestamp,
    Topology,
)
from runtime.errors import GenerationOutdated
from runtime.kafka.inspected import Judged
from runtime.keys import KeyValue
from runtime.results import Made
from runtime.spark.checkpoint import CheckpointDirectory
from runtime.spark.results import SourceTopic
from runtime.spark.session import Spark
from runtime.stream.generations import Generations, Origin
from runtime.stream.work import Work
from runtime.testing.frames import published_frame, records_frame
from tests.drivers.stream_threads import NoTables

TOWNS = Table("big-towns", Key("id", Int64), {"name": Text, "people": Int64})
PEOPLE = Table(
    "people",
    Key("person", Text),
    {"name": Text, "balance": Decimal(2), "height": Double, "known": Boolean, "since": Timestamp},
)
SINCE = "2026-11-25T20:00:00.123Z"


def by_town(lines: DataFrame, big_towns: DataFrame, people: DataFrame) -> DataFrame:
    """Return a row for each line: `at, name string`."""
    joined = lines.join(big_towns, lines["text"].try_cast("bigint") == big_towns["id"], "left")
    return joined.select("at", "name")


def first_letter(lines: DataFrame) -> DataFrame:
    """Return the first letter of each line that does not begin with a dash: `at, letter string`."""
    return lines.where(~F.startswith("text", F.lit("-"))).select("at", F.substring("text", 1, 1).alias("letter"))


JOINED = Topology(
    "joined",
    Stream("lines", PlainText()),
    tables=[TOWNS, PEOPLE],
    stores=[Store("by-town", "by-town", Key("name", Text), {"count": Count()}, rows=by_town)],
)
LETTERS = Topology(
    "letters",
    Stream("lines", PlainText()),
    stores=[Store("letters", "letters-out", Key("letter", Text), {"count": Count()}, rows=first_letter)],
)


class Rows(NoTables):
    """Tables with rows; one of which lies in two partitions."""

    def keys(self, topic: str) -> Iterable[KeyValue]:
        return iter([2, 1, 2] if topic == TOWNS.topic else ["a"])

    def rows(self, topic: str) -> Iterable[tuple[KeyValue, Mapping[str, Any]]]:
        if topic == TOWNS.topic:
            two = {"name": "Ä", "people": 5}
            return iter([(2, two), (1, {"name": "B", "people": 2**62}), (2, two)])
        return iter([("a", {"name": "A", "balance": Exact("30.00"), "height": 1.5, "known": True, "since": SINCE})])


MakeWork = Callable[[Topology], Work]


@pytest.fixture
def make_work(spark: Spark, tmp_path: Path) -> MakeWork:
    def make(topology: Topology) -> Work:
        root = CheckpointDirectory(spark.session, (tmp_path / "check point").as_uri())
        generations = Generations(root, topology.stores[0])
        generation = generations.claim(0, Origin({}, 1, {}, 4), seeded=False)
        generations.commit(generation)
        sources = [SourceTopic("lines", "an id", 2)]
        return Work(topology, topology.stores[0], spark, generations, generation, sources, Rows())

    return make


def by_key(frame: DataFrame, key: str) -> dict[Any, tuple[Any, ...]]:
    rows = frame.collect()
    assert len({row[key] for row in rows}) == len(rows), "a join must not double an event"
    return {row[key]: tuple(row) for row in rows}


def test_tables_are_joined_as_they_are_and_a_row_that_lies_in_two_partitions_counts_once(make_work: MakeWork) -> None:
    work = make_work(JOINED)
    work.write_tables("tables-x")
    for tables in (work.tables_in_memory(), work.tables_on_disk("tables-x")):
        assert list(tables) == ["big_towns", "people"]
        assert by_key(tables["big_towns"], "id") == {1: (1, "B", 2**62), 2: (2, "Ä", 5)}
        people = tables["people"].withColumn("since", F.col("since").cast("string"))
        row = ("a", "A", Exact("30.00"), 1.5, True, "2026-11-25 20:00:00.123")
        assert by_key(people, "person") == {"a": row}
    assert sorted(work.generations.directory.names(f"{work.generation.name}/tables-x")) == ["big_towns", "people"]


def test_of_rows_of_which_only_the_keys_matter_nothing_else_is_taken(make_work: MakeWork) -> None:
    keys_only = replace(JOINED, stores=[replace(JOINED.stores[0], keys_only=True)])
    work = make_work(keys_only)
    work.write_tables("tables-x")
    for tables in (work.tables_in_memory(), work.tables_on_disk("tables-x")):
        assert by_key(tables["big_towns"], "id") == {1: (1,), 2: (2,)}
        assert by_key(tables["people"], "person") == {"a": ("a",)}


def test_an_unusable_event_and_one_without_a_key_are_told(
    make_work: MakeWork, spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [b"a", None, b"\xff", b"", b"-", b"bc"]
    records = records_frame(spark.session, [(value, 0, offset, 0) for offset, value in enumerate(values)])
    monkeypatch.setattr(Spark, "records", lambda *_: records)
    judged = Judged("lines", "an id", 0, 0, len(values), unusable=True)
    assert make_work(LETTERS).find_unusable(judged) == {1: "no value", 2: "not UTF-8", 3: "no key"}
    # Whether a row of this store has a key is a matter of tables, which are others when it is asked again.
    assert make_work(JOINED).find_unusable(judged) == {1: "no value", 2: "not UTF-8"}


def test_results_of_a_later_generation_outdate_it(
    make_work: MakeWork, spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = make_work(LETTERS)
    published: list[tuple[bytes, bytes, list[tuple[str, bytes]]]] = []
    monkeypatch.setattr(Spark, "published", lambda *_: published_frame(spark.session, published))
    work.look_for_newer()
    published += [
        (b"a", b'{"count":1}', Made(1, events=1).to_headers()),
        (b"a", b"none of the store's", Made(3).to_headers()),
    ]
    work.look_for_newer()
    published.append((b"a", b'{"count":2}', Made(2, events=2).to_headers()))
    with pytest.raises(GenerationOutdated, match="results of generation 2 are published, it is 1"):
        work.look_for_newer()

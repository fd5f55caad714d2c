"""Checks the law of a value: that it comes to the same in Spark and in Python, at once and in parts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from runtime import results
from runtime.declaration import Store
from runtime.keys import Key, Text
from runtime.results import Result
from runtime.spark.results import Results, SourceTopic, as_consumed, latest, published
from runtime.values import Value

_KEY: Final = "_rows_of_value"
_ALL: Final = "all"
_NONE: Final = "none"
_MOST_CUTS: Final = 8
_HEADERS: Final = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}.items()))
_SMALL: Final = 1e-9


def check_value(session: SparkSession, value: Value, rows: Sequence[Mapping[str, Any]]) -> Any:
    """Check that a value comes to the same whichever way it is made, and return what is served of all rows.

    - What Spark makes of all rows is what it makes of some that were published and of all that are read again.
    - Python reads what Spark writes, and what it writes itself.
    - Of a lattice: what Python merges of parts is what Spark makes of all, in any order and however often.
    - Of a row without anything in it there is a value as well.

    Floats are the same when they differ by a billionth of themselves.

        def test_the_longest(spark_session):
            assert check_value(spark_session, Longest("text"), [{"text": "a"}, {"text": "abc"}]) == 3

    Args:
        session: Spark's, of the settings that the runtime has: ANSI mode off, in UTC.
        value: which.
        rows: two or more, in the order in which they are read: its columns by name. A row may have `at` as well:
            timestamp in milliseconds, partition, offset; without, it is a millisecond and an offset behind the one
            before, in partition 0.

    Raises:
        AssertionError: it says which law does not hold, and of what.
    """
    value.check_type()
    return _Check(session, value, rows).run()


class _Check:
    def __init__(self, session: SparkSession, value: Value, rows: Sequence[Mapping[str, Any]]) -> None:
        self._session = session
        self._value = value
        self._rows = [{"at": (number, 0, number), **row} for number, row in enumerate(rows)]
        self._store = Store("value", "value", Key(_KEY, Text), {"value": value})
        self._partitions = 1 + max(partition for _, partition, _ in self._places)
        for partition in range(self._partitions):
            offsets = [offset for _, of, offset in self._places if of == partition]
            if sorted(set(offsets)) != offsets:
                raise ValueError(f"the offsets of partition {partition} have to ascend: {offsets}")

    @property
    def _places(self) -> list[tuple[int, int, int]]:
        return [row["at"] for row in self._rows]

    @property
    def _cuts(self) -> list[int]:
        many = len(self._rows)
        return sorted({round(many * cut / _MOST_CUTS) for cut in range(1, _MOST_CUTS)} - {0, many})

    def run(self) -> Any:
        record = self._store.record
        made = self._made_of_parts()
        found = {key: results.parse(record, value, headers) for key, (value, headers) in made.items()}
        for key, result in found.items():
            again = record.parse(record.to_json(result.values))
            self._same(again, result.values, f"what Python writes of {key} rows, and reads")
        if record.lattice:
            self._check_lattice({key: result.values for key, result in found.items()})
        for key, result in self._made_of_published(made).items():
            self._same(result.values, found[_ALL].values, f"Spark, of the {key} rows as published and of all rows")
        return record.row_of(found[_ALL].values).get("value")

    def _check_lattice(self, found: dict[str, Any]) -> None:
        merge, every = self._store.record.merge, list(found.values())
        for cut in self._cuts:
            merged = merge(found[f"first {cut}"], found[f"last {len(self._rows) - cut}"])
            self._same(merged, found[_ALL], f"Python, of the first {cut} rows and the others")
        few = every[:_MOST_CUTS]
        for one, other, third in ((one, other, third) for one in few for other in few for third in few):
            merged = merge(one, other)
            self._same(merge(other, one), merged, f"merge the other way round, of {one} and {other}")
            self._same(merge(merged, other), merged, f"merge once more, of {one} and {other}")
            last = merge(one, merge(other, third))
            self._same(merge(merged, third), last, f"merge in another order, of {one}, {other} and {third}")

    def _same(self, found: Any, wanted: Any, what: str) -> None:
        assert _is_same(found, wanted), f"{self._value!r}: {what}: {found}, and not {wanted}"

    # Spark

    def _made_of_parts(self) -> dict[str, tuple[bytes, results.Headers]]:
        """Return the records that Spark makes of all rows, of the first and last so many, and of a row of nulls."""
        many = len(self._rows)
        parts = {_ALL: self._rows, _NONE: [{"at": (0, 0, 0)}]}
        for cut in self._cuts:
            parts |= {f"first {cut}": self._rows[:cut], f"last {many - cut}": self._rows[cut:]}
        made = self._results(1)
        return _collected(made.of_parts(made.parts(self._frame(parts))))

    def _made_of_published(self, made: Mapping[str, tuple[bytes, results.Headers]]) -> dict[str, Result]:
        """Return what Spark makes of published records, once all rows are read again."""
        again = {f"first {cut}": self._rows for cut in self._cuts}
        # Several records of a key, as before compaction, of which the last one says all.
        records = [
            (key.encode(), *made[f"first {earlier}"])
            for cut in self._cuts
            for key in (f"first {cut}",)
            for earlier in self._cuts
            if earlier <= cut
        ]
        seeded = self._results(2)
        seed = seeded.seed(latest(self._store, published(self._store, self._published_frame(records))))
        parts = seeded.parts(seeded.uncovered(self._frame(again), seed))
        found = _collected(seeded.of_parts(seed.unionByName(parts)))
        return {key: results.parse(self._store.record, *record) for key, record in found.items()}

    def _results(self, generation: int) -> Results:
        return Results(self._store, [SourceTopic("rows", "rows", self._partitions)], generation)

    def _frame(self, parts: Mapping[str, Sequence[Mapping[str, Any]]]) -> DataFrame:
        rows = [(key, row) for key, of_key in parts.items() for row in of_key]
        columns: dict[str, pa.Array] = {_KEY: pa.array([key for key, _ in rows], pa.string())}
        types = {"timestamp": pa.int64(), "partition": pa.int32(), "offset": pa.int64()}
        for place, (name, of_type) in enumerate(types.items()):
            columns[f"__{name}"] = pa.array([row["at"][place] for _, row in rows], of_type)
        for name in self._value.columns:
            columns[name] = pa.array([row.get(name) for _, row in rows])
        frame = self._session.createDataFrame(pa.table(columns))
        at = F.struct(
            F.lit("rows").alias("source"),
            F.col("__partition").alias("partition"),
            F.col("__offset").alias("offset"),
            F.timestamp_millis("__timestamp").alias("timestamp"),
        )
        own = [F.col(name).cast(of_type) if of_type else F.col(name) for name, of_type in self._value.columns.items()]
        named = [column.alias(name) for name, column in zip(self._value.columns, own, strict=True)]
        return frame.select(_KEY, at.alias("at"), *named)

    def _published_frame(self, records: Sequence[tuple[bytes, bytes, results.Headers]]) -> DataFrame:
        keys, values, headers = zip(*records, strict=True)
        listed = [[{"key": name, "value": value} for name, value in each] for each in headers]
        columns = [pa.array(keys, pa.binary()), pa.array(values, pa.binary()), pa.array(listed, _HEADERS)]
        return self._session.createDataFrame(pa.Table.from_arrays(columns, ["key", "value", "headers"]))


def _collected(records: DataFrame) -> dict[str, tuple[bytes, results.Headers]]:
    return {key.decode(): (value, headers) for key, value, headers in map(as_consumed, records.collect())}


def _is_same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and isinstance(found, float):
        return math.isclose(found, wanted, rel_tol=_SMALL)
    if type(found) is not type(wanted):
        return False
    if isinstance(wanted, Mapping):
        return found.keys() == wanted.keys() and all(_is_same(found[name], each) for name, each in wanted.items())
    if isinstance(wanted, list | tuple):
        return len(found) == len(wanted) and all(map(_is_same, found, wanted))
    return bool(found == wanted)

"""Whether the rows of a declaration can run: what needs a plan, and so Spark, to be seen.

What a declaration must not do is looked for in the plan of its rows: real time would refuse some of it later, with
words of its own, and what a replay would decide otherwise it would run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from runtime.declaration import DeclarationError, Store, Topology
from runtime.rows import DISTINCT
from runtime.spark.beside_value import column_of
from runtime.spark.results import with_at

_AGGREGATES: Final = ("Aggregate", "Distinct", "Deduplicate", "DeduplicateWithinWatermark", "Window")
_PYTHON: Final = (
    "PythonUDF", "PythonUDAF", "PythonUDTF", "ScalaUDF", "MapInPandas", "MapInArrow", "FlatMapGroupsInPandas",
    "FlatMapGroupsInArrow", "ArrowEvalPython", "BatchEvalPython",
)  # fmt: skip
_CLOCKS: Final = (
    "CurrentTimestamp", "CurrentDate", "LocalTimestamp", "Now", "CurDateExpressionBuilder", "CurrentTime",
    "UnresolvedCurrentTimestamp",
)  # fmt: skip
_CHANCE: Final = (
    "Rand",
    "Randn",
    "Uuid",
    "Shuffle",
    "MonotonicallyIncreasingID",
    "SparkPartitionID",
    "RandStr",
    "Uniform",
    "Sample",
)


def check_rows(store: Store, rows: DataFrame) -> None:
    """Refuse rows that cannot run, or that a replay would make otherwise.

    Args:
        store: whose rows they are.
        rows: what its `rows` makes of records.

    Raises:
        DeclarationError: it says what to change.
    """
    names = set(_classes(rows))
    of = f"rows of store {store.name}"
    if found := names & set(_AGGREGATES):
        raise DeclarationError(
            f"{of} have an aggregate of their own ({_listed(found)}): leave it to the store's values"
        )
    if found := names & set(_PYTHON):
        raise DeclarationError(
            f"{of} run Python or Scala for each record ({_listed(found)}): use Spark's own functions"
        )
    if found := names & set(_CLOCKS):
        raise DeclarationError(
            f"{of} look at the clock ({_listed(found)}): use the timestamp of the record, at.timestamp"
        )
    if found := names & set(_CHANCE):
        raise DeclarationError(f"{of} are left to chance ({_listed(found)}): a replay would make other ones")
    if "Generate" in names and not _is_distinct(rows):
        raise DeclarationError(
            f"{of} have an explode, which may give several rows of one key for a record: use runtime.each_distinct"
        )
    # Last: what is refused above is often why a column is missing.
    _check_columns(store, rows, of)


def check_declared(session: SparkSession, topology: Topology, store: Store) -> None:
    """Refuse a declaration whose rows cannot run, without any record.

    Args:
        session: plans them.
        topology: has the store.
        store: whose rows they are.

    Raises:
        DeclarationError: it says what to change.
    """
    if store.rows is None:
        return
    declared = {column_of(name): of_type for name, of_type in topology.columns.items()}
    columns = {**declared, "topic": "string", "partition": "int", "offset": "bigint", "timestamp": "timestamp"}
    source = with_at(_empty(session, columns), topology.source_topics)
    joined = {
        name: _empty(session, {column: of_type.spark for column, of_type in store.given(table).items()})
        for name, table in topology.joined(store).items()
    }
    try:
        rows = store.rows(source, **joined)
    except AnalysisException as error:
        said = str(error).partition("\n")[0]
        raise DeclarationError(f"rows of store {store.name} cannot be planned: {said}") from error
    check_rows(store, rows)


def _empty(session: SparkSession, columns: Mapping[str, str]) -> DataFrame:
    return session.range(0).select(*(F.lit(None).cast(of_type).alias(name) for name, of_type in columns.items()))


def _check_columns(store: Store, rows: DataFrame, of: str) -> None:
    types = {field.name: field.dataType.simpleString() for field in rows.schema}
    if not types.get("at", "").startswith("struct<source:string,partition:int,offset:bigint"):
        raise DeclarationError(f"{of} have no column at: keep it as it comes, every row says which record it is of")
    of_key = {key.name: key.type.spark for key in store.key.columns}
    wanted: Mapping[str, str] = {**of_key, **store.record.columns}
    for name, of_type in wanted.items():
        if name not in types:
            raise DeclarationError(
                f"{of} have no column {name} (they have {', '.join(types)}): select it, or name another"
            )
        if of_type and types[name] != of_type and not _widens(types[name], of_type):
            raise DeclarationError(f"{of} have column {name} as {types[name]}, where {of_type} is wanted: cast it")


def _widens(given: str, wanted: str) -> bool:
    """Return whether a type becomes another one without a loss."""
    digits = {"tinyint": (3, 0), "smallint": (5, 0), "int": (10, 0)}.get(given) or _digits(given)
    if digits is None or wanted == "bigint":
        return wanted == "bigint" and given in ("tinyint", "smallint", "int")
    room = _digits(wanted)
    return room is not None and digits[1] <= room[1] and digits[0] - digits[1] <= room[0] - room[1]


def _digits(decimal: str) -> tuple[int, int] | None:
    """Return how many digits a decimal of Spark's has, in all and behind the point; None of other types."""
    found = re.fullmatch(r"decimal\(([0-9]+),([0-9]+)\)", decimal)
    return None if found is None else (int(found[1]), int(found[2]))


def _classes(rows: DataFrame) -> Iterator[str]:
    """Yield the names of the classes in the plan of rows: of its nodes, and of their expressions."""
    plan: Any = rows._jdf.queryExecution().analyzed().toJSON()
    return _named(json.loads(str(plan)))


def _named(part: Any) -> Iterator[str]:
    if isinstance(part, list):
        for each in part:
            yield from _named(each)
    elif isinstance(part, dict):
        if isinstance(name := part.get("class"), str):
            yield name.rpartition(".")[2]
        for each in part.values():
            yield from _named(each)


def _is_distinct(rows: DataFrame) -> bool:
    """Return whether what is exploded is what `each_distinct` makes, and nothing else is."""
    text = str(rows._jdf.queryExecution().analyzed().toString())
    exploded = [line for line in text.splitlines() if "Generate " in line]
    return all(DISTINCT in line for line in exploded)


def _listed(found: set[str]) -> str:
    return ", ".join(sorted(found))

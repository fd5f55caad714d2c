"""Whether the rows of a declaration can run: what needs a plan, and so Spark, to be seen.

What a declaration must not do is looked for in the plan of its rows: real time would refuse some of it later, with
words of its own, and what a replay would decide otherwise it would run.
"""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from runtime.declaration import DeclarationError, Rows, Store, Topology
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
    # Any method of Java, which may say something else each time.
    "CallMethodViaReflection",
)
_SELECTIONS: Final = ("Union", "Expand")
_MOVES: Final = ("Repartition", "RepartitionByExpression")
"""What `repartition` and `coalesce` of a frame make. `Coalesce` is an expression: the first value that is not null."""
_OF_ALL: Final = ("GlobalLimit", "LocalLimit", "Offset", "Tail", "Sort", "Except", "Intersect")
"""What looks at all records at once, to pick some or to order them."""
_FILTERS: Final = ("Inner", "LeftSemi", "LeftAnti")
"""Joins that leave out records by what the table has at the time."""
_EQUALITIES: Final = ("EqualTo", "EqualNullSafe")
_KEY: Final = "__key_of_"
"""Marks the key of a table in the plan of a declaration: Spark renews the ids of columns, and keeps names."""


def check_rows(store: Store, rows: DataFrame) -> None:
    """Refuse rows that cannot run, or that a replay would make otherwise.

    Args:
        store: whose rows they are.
        rows: what its `rows` makes of records.

    Raises:
        DeclarationError: it says what to change.
    """
    plan = _plan_of(rows)
    names = _classes(plan)
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
    if "Generate" in names and not _has_element(store, rows, plan):
        raise DeclarationError(
            f"{of} change the elements of a list behind runtime.each_distinct, so that two may be one key: change the"
            " list itself, as in F.split(F.lower(...), ...)"
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
        name: _table(session, name, {column: of_type.spark for column, of_type in store.given(table).items()})
        for name, table in topology.joined(store).items()
    }
    rows = _made(store, store.rows, source, joined)
    _check_declared_plan(topology, store, _plan_of(rows))
    check_rows(store, rows)


def _made(store: Store, make: Rows, source: DataFrame, joined: Mapping[str, DataFrame]) -> DataFrame:
    """Return the rows that a declaration makes; what its code raises is an error of the declaration."""
    of = f"rows of store {store.name}"
    try:
        rows = make(source, **joined)
    except AnalysisException as error:
        said = str(error).partition("\n")[0]
        raise DeclarationError(f"{of} cannot be planned: {said}") from error
    except (CapturedException, Py4JError, OSError):
        # Spark has failed, or its JVM is gone.
        raise
    except Exception as error:
        own = [each for each in traceback.extract_tb(error.__traceback__) if "pyspark" not in Path(each.filename).parts]
        where = f"{own[-1].filename}, line {own[-1].lineno}"
        raise DeclarationError(f"{of} cannot be made: {type(error).__name__}: {error} ({where}): mend it") from error
    if not isinstance(rows, DataFrame):
        raise DeclarationError(f"{of} are {type(rows).__name__} and no DataFrame: return what you select of the source")
    return rows


def _empty(session: SparkSession, columns: Mapping[str, str]) -> DataFrame:
    return session.range(0).select(*(F.lit(None).cast(of_type).alias(name) for name, of_type in columns.items()))


def _table(session: SparkSession, name: str, columns: Mapping[str, str]) -> DataFrame:
    """Return a table without rows, the key of which is marked in plans.

    Args:
        session: plans it.
        name: of the parameter that it is given as.
        columns: the key, then the fields, with their types.
    """
    key, *fields = columns
    marked = f"{_KEY}{name}"
    below = _empty(session, {marked: columns[key], **{field: columns[field] for field in fields}})
    return below.select(F.col(marked).alias(key), *fields)


def _check_declared_plan(topology: Topology, store: Store, plan: Sequence[Any]) -> None:
    """Refuse what is seen in the plan of a declaration alone, in which the source and the tables are plain.

    Records and tables that are read have joins and partitions of the runtime's own in their plans.
    """
    of = f"rows of store {store.name}"
    names = _classes(plan)
    if found := names & set(_SELECTIONS):
        raise DeclarationError(
            f"{of} are put together of several selections ({_listed(found)}): make one list of the keys, as in"
            ' runtime.each_distinct(source, F.array("home", "away"), "team")'
        )
    if found := names & set(_MOVES):
        raise DeclarationError(
            f"{of} go to other partitions ({_listed(found)}): leave that out, since results rest on the order of a"
            " partition's records"
        )
    if found := names & set(_OF_ALL):
        raise DeclarationError(
            f"{of} are picked or ordered among all records ({_listed(found)}), which have no end: leave that out, and"
            " use where for a condition that each record meets by itself"
        )
    _check_joins(topology, store, plan)


def _check_joins(topology: Topology, store: Store, plan: Sequence[Any]) -> None:
    """Refuse a join that can make several rows of one, or that lets a table say which rows there are.

    An upkeep can make up for the second where values merge: it begins a generation that reads events again.
    """
    of = f"rows of store {store.name}"
    tables = {f"{_KEY}{name}": table for name, table in topology.joined(store).items()}
    renamed = _renamed(plan)
    may_filter = store.record.lattice and topology.upkeep is not None
    for join in _joins(_tree(iter(plan))):
        key = _key_of(join.children[-1])
        if join.name != "Join" or key is None:
            raise DeclarationError(
                f"{of} have a join without a table on its right side: write source.join(table, condition,"
                ' "left"), and declare two streams as Joined'
            )
        table = tables[key["name"]]
        if not _is_by(_id(key), join, renamed):
            raise DeclarationError(
                f"{of} do not join table {table.topic} by its key, so that several of its rows may match one record:"
                f" compare {table.key.name} itself with a column of the source"
            )
        kind = str(join.fields["joinType"].get("object")).rpartition(".")[2].rstrip("$")
        if kind != "LeftOuter" and not (may_filter and kind in _FILTERS):
            raise DeclarationError(
                f"{of} let table {table.topic} say which rows there are ({kind}): a replay would find another table,"
                ' so make it a left join, "left"'
            )


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


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of a plan or of an expression.

    Attributes:
        fields: what Spark's JSON says of it.
        children: the nodes below it.
    """

    fields: Mapping[str, Any]
    children: Sequence[_Node]

    @property
    def name(self) -> str:
        """The name of its class."""
        return _name(self.fields)

    @property
    def columns(self) -> set[int]:
        """The ids of all columns that are named in it or below it."""
        here = {_id(each) for each in _nodes(self.fields) if "exprId" in each}
        return here.union(*(each.columns for each in self.children))


def _tree(listed: Iterator[Mapping[str, Any]]) -> _Node:
    """Return the first node of a list with those below it: the JSON lists a node before its children."""
    fields = next(listed)
    return _Node(fields, [_tree(listed) for _ in range(fields["num-children"])])


def _joins(node: _Node) -> Iterator[_Node]:
    """Yield the joins in a plan, of whatever kind: a lateral one, for example, has a name of its own."""
    if node.name.endswith("Join"):
        yield node
    for each in node.children:
        yield from _joins(each)


def _key_of(side: _Node) -> Mapping[str, Any] | None:
    """Return the key of the table that a side of a join begins with, as `_table` marks it; None of anything else.

    More tables may follow in that side. Each is joined by its own key, so that the first one's rows stay as many.
    """
    while side.children and side.children[0].children:
        side = side.children[0]
    return next((each for each in _nodes(side.fields) if str(each.get("name")).startswith(_KEY)), None)


def _is_by(key: int, join: _Node, renamed: Mapping[int, int]) -> bool:
    """Return whether a join compares a key of its right side with something of the left: one row matches at most.

    The key has to be as it is: two texts may be one number.
    """
    listed: Sequence[Any] = join.fields.get("condition") or ()
    left = join.children[0].columns
    return any(
        one.name == "AttributeReference" and _first(_id(one.fields), renamed) == key and other.columns <= left
        for each in (_conjuncts(_tree(iter(listed))) if listed else ())
        if each.name in _EQUALITIES
        for one, other in permutations(each.children)
    )


def _conjuncts(condition: _Node) -> Iterator[_Node]:
    """Yield the conditions that have to hold all together for one to hold."""
    if condition.name == "And":
        for each in condition.children:
            yield from _conjuncts(each)
    else:
        yield condition


def _renamed(plan: Sequence[Any]) -> dict[int, int]:
    """Return which column each one is that is another one under a new name: the JSON has the new one right before."""
    return {
        _id(new): _id(old)
        for new, old in pairwise(_nodes(plan))
        if _name(new) == "Alias" and _name(old) == "AttributeReference"
    }


def _first(column: int, renamed: Mapping[int, int]) -> int:
    """Return the column that one was before it got other names."""
    while column in renamed:
        column = renamed[column]
    return column


def _id(column: Mapping[str, Any]) -> int:
    return int(column["exprId"]["id"])


def _plan_of(rows: DataFrame) -> list[Any]:
    """Return the plan of rows as Spark's JSON has it: a list of nodes, in which expressions are such lists."""
    plan: list[Any] = json.loads(str(rows._jdf.queryExecution().analyzed().toJSON()))
    return plan


def _classes(plan: Sequence[Any]) -> set[str]:
    """Return the names of the classes in a plan: of its nodes, and of their expressions."""
    return {_name(each) for each in _nodes(plan)}


def _nodes(part: Any) -> Iterator[Mapping[str, Any]]:
    """Yield all nodes of a plan and of its expressions, in the order of the JSON."""
    if isinstance(part, list):
        for each in part:
            yield from _nodes(each)
    elif isinstance(part, dict):
        if isinstance(part.get("class"), str):
            yield part
        for each in part.values():
            yield from _nodes(each)


def _name(node: Mapping[str, Any]) -> str:
    return str(node["class"]).rpartition(".")[2]


def _is_distinct(rows: DataFrame) -> bool:
    """Return whether what is exploded is what `each_distinct` makes, and nothing else is."""
    text = str(rows._jdf.queryExecution().analyzed().toString())
    exploded = [line for line in text.splitlines() if "Generate " in line]
    return all(DISTINCT in line for line in exploded)


def _has_element(store: Store, rows: DataFrame, plan: Sequence[Any]) -> bool:
    """Return whether the key, or a part of it, is an element of the list that is exploded, as it stands there.

    An element is what is exploded itself, or the first field of it.
    """
    nodes = list(_nodes(plan))
    elements = {_id(each) for node in nodes if _name(node) == "Generate" for each in _nodes(node["generatorOutput"])}
    elements |= {
        _id(named)
        for named, field, of in zip(nodes, nodes[1:], nodes[2:], strict=False)
        if (_name(named), _name(field), _name(of)) == ("Alias", "GetStructField", "AttributeReference")
        and field["ordinal"] == 0
        and _id(of) in elements
    }
    renamed = _renamed(plan)
    output: Any = rows._jdf.queryExecution().analyzed().output()
    ids = {str(each.name()): int(each.exprId().id()) for each in (output.apply(n) for n in range(output.size()))}
    return any(_first(ids[key.name], renamed) in elements for key in store.key.columns if key.name in ids)


def _listed(found: set[str]) -> str:
    return ", ".join(sorted(found))

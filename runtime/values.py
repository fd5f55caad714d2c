"""Values: what a store keeps of each key, in Spark and in Python.

A value is spelled twice, side by side: the Spark half adds rows up, the Python half merges what comes from Spark with
what a store has. They are of two kinds:

- A **lattice** merges: `merge` is commutative, associative and idempotent, so that records may come in any order and
  however often. The best ten, a maximum, the latest.
- An **accumulator** does not: of two counts nobody can tell what both have counted. A record replaces another when it
  counts every event that the other does, which the offsets tell that each record carries (`runtime.results`).

In Spark each row of a store becomes a *part*: the columns that `parts` names. So does what was published before, when a
generation begins with it (`parts_of_published`). Then the parts of a key are added up (`aggregates`).
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from runtime.errors import InvalidRecord
from runtime.records import ID_MAX, ID_MIN, json_object

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Spark is loaded when a plan is made, not when a topology is: instances without the stream never need it.


class Values(ABC):
    """All that a store keeps of a key: the whole of a result record's value."""

    @property
    @abstractmethod
    def lattice(self) -> bool:
        """Whether records merge, in any order and however often."""

    # Spark

    @property
    @abstractmethod
    def columns(self) -> Mapping[str, str]:
        """The columns of rows that it is made of, and their Spark types; an empty type is whatever the column has."""

    @property
    @abstractmethod
    def published_schema(self) -> str:
        """The JSON of a result record's value, as Spark's DDL."""

    @abstractmethod
    def parts(self, rows: DataFrame) -> list[Column]:
        """Return the columns of the part that each row is; each has a name.

        Args:
            rows: what the store's `rows` returns: the key, `at`, and `columns`.
        """

    @abstractmethod
    def parts_of_published(self, published: DataFrame) -> DataFrame:
        """Return the parts that published results are: the same columns as `parts` has, beside those given.

        Args:
            published: a row a key; `values`, a struct of `published_schema`, and columns that stay as they are. A key
                may get several rows: then all but one have nulls in the columns that stay, other than the key.
        """

    @abstractmethod
    def aggregates(self) -> list[Column]:
        """Return what the parts of a key add up to; each column has a name."""

    @abstractmethod
    def published(self, generation: int) -> list[Column]:
        """Return the fields of a result record's value, from the columns that `aggregates` names."""

    def published_generation(self) -> Column | None:
        """Return which generation a published value says that it is of, in `values`; None where values do not say."""
        return None

    def is_published(self) -> Column:
        """Return whether a published value, in `values`, is one that stores take."""
        from pyspark.sql import functions as F

        return F.col("values").isNotNull()

    def uncovered(self, rows: DataFrame, seed: DataFrame, key: str) -> DataFrame:  # noqa: ARG002
        """Return the rows that the state has to see although it began with a seed. Of a lattice: all, by default.

        Args:
            rows: of events that are read again.
            seed: the parts that the state began with.
            key: the name of the key's column.
        """
        return rows

    # Python

    @abstractmethod
    def parse(self, value: bytes) -> Any:
        """Return what a result record's value says, as a value that compares.

        Raises:
            InvalidRecord: it cannot be used.
        """

    @abstractmethod
    def to_json(self, values: Any) -> bytes:
        """Return such values as a result record's value, as Spark writes it."""

    @abstractmethod
    def row(self, value: bytes) -> Mapping[str, Any]:
        """Return what is served of a result record's value: its columns by name."""

    def row_of(self, values: Any) -> Mapping[str, Any]:
        """Return the same of values that were parsed; with most of them there is a shorter way than this one."""
        return self.row(self.to_json(values))

    def merge(self, held: Any, new: Any) -> Any:
        """Return what has seen all that both have seen. Of a lattice only."""
        raise NotImplementedError(f"{type(self).__name__} is no lattice")

    def stands_for(self, record: Any, merged: Any) -> bool:
        """Return whether a record says all that came of merging it."""
        return bool(record == merged)

    def generation_of(self, values: Any) -> int | None:  # noqa: ARG002
        """Return the generation that values say they are of; None when they do not say, as most."""
        return None


class Value(ABC):
    """One named value of several, in `Fields`."""

    lattice: ClassVar[bool]
    """Whether two of them merge."""

    @property
    @abstractmethod
    def spark(self) -> str:
        """The type of the value in a result record, as Spark's DDL."""

    @property
    @abstractmethod
    def json_type(self) -> str:
        """The type of what is served, as JSON Schema has it."""

    @property
    @abstractmethod
    def columns(self) -> Mapping[str, str]:
        """The columns of rows that it is made of, and their Spark types."""

    @abstractmethod
    def part(self) -> Column:
        """Return the part that a row is, of the type `spark`."""

    @abstractmethod
    def aggregate(self, part: Column) -> Column:
        """Return what parts add up to, of the type `spark`."""

    @abstractmethod
    def check(self, value: Any) -> Any:
        """Return the value that JSON says; raises ValueError or TypeError when it is none."""

    def merge(self, held: Any, new: Any) -> Any:
        """Return what has seen all that both have seen. Of a lattice only."""
        raise NotImplementedError(f"{type(self).__name__} is no lattice")


@dataclass(frozen=True)
class Fields(Values):
    """Several named values, each a field of the record.

    Attributes:
        values: by name.
    """

    values: Mapping[str, Value]

    @property
    def lattice(self) -> bool:
        """Whether all of them are."""
        return all(value.lattice for value in self.values.values())

    @property
    def columns(self) -> Mapping[str, str]:
        return {name: of_type for value in self.values.values() for name, of_type in value.columns.items()}

    @property
    def published_schema(self) -> str:
        return ", ".join(f"`{name}` {value.spark}" for name, value in self.values.items())

    def parts(self, rows: DataFrame) -> list[Column]:  # noqa: ARG002  # by name
        return [value.part().cast(value.spark).alias(f"part_{name}") for name, value in self.values.items()]

    def parts_of_published(self, published: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        return published.withColumns({f"part_{name}": F.col(f"values.{name}") for name in self.values})

    def is_published(self) -> Column:
        from pyspark.sql import functions as F

        there = F.col("values").isNotNull()
        for name in self.values:
            there &= F.col(f"values.{name}").isNotNull()
        return there

    def aggregates(self) -> list[Column]:
        from pyspark.sql import functions as F

        return [value.aggregate(F.col(f"part_{name}")).alias(name) for name, value in self.values.items()]

    def published(self, generation: int) -> list[Column]:  # noqa: ARG002
        from pyspark.sql import functions as F

        return [F.col(name) for name in self.values]

    def parse(self, value: bytes) -> dict[str, Any]:
        fields = json_object(value)
        try:
            return {name: each.check(fields[name]) for name, each in self.values.items()}
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InvalidRecord("not a result", repr(error)) from error

    def to_json(self, values: Any) -> bytes:
        return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()

    def row(self, value: bytes) -> dict[str, Any]:
        fields: dict[str, Any] = json.loads(value)
        return fields

    def row_of(self, values: Any) -> dict[str, Any]:
        fields: dict[str, Any] = values
        return fields

    def merge(self, held: Any, new: Any) -> dict[str, Any]:
        return {name: value.merge(held[name], new[name]) for name, value in self.values.items()}


@dataclass(frozen=True)
class Count(Value):
    """How many: the sum of a weight. An accumulator.

    Law: the count of two sets of events that share none is the sum of their counts.

    >>> Count("times").columns
    {'times': 'bigint'}

    Attributes:
        weight: the column that says how often a row counts; without one, each counts once.
    """

    weight: str | None = None

    lattice: ClassVar[bool] = False

    @property
    def spark(self) -> str:
        return "bigint"

    @property
    def json_type(self) -> str:
        return "integer"

    @property
    def columns(self) -> Mapping[str, str]:
        return {} if self.weight is None else {self.weight: "bigint"}

    def part(self) -> Column:
        from pyspark.sql import functions as F

        # One that is null counts nothing: a sum of such alone would be no number.
        return F.lit(1) if self.weight is None else F.coalesce(F.col(self.weight), F.lit(0))

    def aggregate(self, part: Column) -> Column:
        from pyspark.sql import functions as F

        return F.sum(part)

    def check(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not ID_MIN <= value <= ID_MAX:
            raise TypeError(f"{value!r:.40} is no count")
        return value

"""Values: what a store keeps of each key, in Spark and in Python.

A value is spelled twice, side by side: the Spark half adds rows up, the Python half merges what comes from Spark with
what a store has. They are of two kinds:

- A **lattice** merges: `merge` is commutative, associative and idempotent, so that records may come in any order and
  however often. The best ten, a maximum, the latest.
- An **accumulator** does not: of two counts nobody can tell what both have counted. A record replaces another when it
  counts every event that the other does, which the offsets tell that each record carries (`runtime.results`).

In Spark each row of a store becomes a *part*: the columns that `parts` names. So does what was published before, when a
generation begins with it (`parts_of_published`). Then the parts of a key are added up (`aggregates`).

A null changes no value: a column that is null in a row is as good as no row. A value is null in Spark, and None in
Python, when it is of nothing but nulls; a `Count`, a `Sum`, an `Average` and a `Recent` are 0 or empty then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from runtime.types import ColumnType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Spark is loaded when a plan is made, not when a topology is: instances without the stream never need it.


TOPIC_ID: Final = "__topic_id"
"""The column of rows that says of which topic their records are, where a value names that."""


class Values(ABC):
    """All that a store keeps of a key: the whole of a result record's value.

    Attributes:
        final: whether a result is written when nothing can change it any more: then a repeat changes nothing, of
            whatever generation it is.
    """

    final: bool = False

    @property
    @abstractmethod
    def lattice(self) -> bool:
        """Whether records merge, in any order and however often."""

    @property
    def names_topic(self) -> bool:
        """Whether it says of which topic records are: then rows have the column `TOPIC_ID`.

        What `parts_of_published` and `published` are given has it too, of the last source.
        """
        return False

    @property
    def says_nulls(self) -> bool:
        """Whether a null stands in a record: a row is served as it does. Else it is left out."""
        return True

    @property
    def state_form(self) -> str:
        """What tells that the parts in Spark's state are others than before, under the same version of the store.

        A generation begins where it differs, with what is published as its seed.
        """
        return ""

    @property
    def kept_form(self) -> str:
        """What tells that values are others than those that stores hold: of another form these cannot be read."""
        return self.published_schema

    # Spark

    @property
    @abstractmethod
    def columns(self) -> Mapping[str, str]:
        """The columns of rows that it is made of, and their Spark types; an empty type is whatever the column has."""

    @property
    @abstractmethod
    def published_schema(self) -> str:
        """The JSON of a result record's value, as Spark's DDL."""

    @property
    def published_options(self) -> Mapping[str, str]:
        """What Spark's JSON reader is told beside it."""
        return {}

    @abstractmethod
    def parts(self, rows: DataFrame) -> list[Column]:
        """Return the columns of the part that each row is; each has a name.

        Args:
            rows: what the store's `rows` returns: the key, `at`, and `columns`.
        """

    @abstractmethod
    def parts_of_published(self, published: DataFrame, keys: Sequence[str]) -> DataFrame:
        """Return the parts that published results are: the same columns as `parts` has, beside those given.

        Args:
            published: a row a key; `values`, a struct of `published_schema`, and columns that stay as they are. A key
                may get several rows: then all but one have nulls in the columns that stay, other than the key's.
            keys: the columns of the key: its own, and that of the window where there is one.
        """

    @abstractmethod
    def aggregates(self) -> list[Column]:
        """Return what the parts of a key add up to; each column has a name."""

    def changed(self) -> Column | None:
        """Return whether the row at hand has changed what its key's parts add up to, of the columns of `aggregates`.

        In real time each row is a result of its own, and one that has changed nothing is not written then. It is False,
        never null, where nothing has changed, but for samples that the values let through. None where that cannot be
        told: then each row's result is written.
        """
        return None

    def of_one_part(self) -> list[Column]:
        """Return what a single part adds up to, without an aggregate; columns as those of `aggregates`."""
        raise NotImplementedError(f"{type(self).__name__} needs an aggregate")

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

    def uncovered(self, rows: DataFrame, seed: DataFrame, keys: Sequence[str]) -> DataFrame:  # noqa: ARG002
        """Return the rows that the state has to see although it began with a seed. Of a lattice: all, by default.

        Args:
            rows: of events that are read again.
            seed: the parts that the state began with.
            keys: the columns of the key.
        """
        return rows

    # Python

    @abstractmethod
    def parse(self, value: bytes) -> Any:
        """Return what a result record's value says, as a value that compares.

        Raises:
            InvalidRecord: it cannot be used.
        """

    def is_plain(self, value: bytes) -> bool:  # noqa: ARG002
        """Return whether a result record's value is one at a glance: then `parse` takes it. By default none is."""
        return False

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
    """One named value of several, in `Fields`.

    `part`, `aggregate` and `check` are never asked about null, nor `merge`, but `part` may return it. Where the value
    is a list in a record (`listed`), its parts are the elements.
    """

    lattice: ClassVar[bool]
    """Whether two of them merge: `merge` is commutative, associative and idempotent."""

    nullable: ClassVar[bool] = True
    """Whether it is null of nothing but nulls."""

    listed: ClassVar[bool] = False
    """Whether it is a list in a record, whose elements are parts."""

    is_its_part: ClassVar[bool] = False
    """Whether the value of a single row is the part that the row is."""

    tells_change: ClassVar[bool] = False
    """Whether `changed` tells which rows have changed it: then the others are not written in real time."""

    names_topic: ClassVar[bool] = False
    """Whether `part` says of which topic a row's record is, by the column `TOPIC_ID`."""

    plain: ClassVar[bytes | None] = None
    """A pattern of its JSON as Spark writes it: `check` takes all that matches it. None: each has to be checked."""

    left_out: ClassVar[bool] = False
    """Whether nulls are left out of records that have it, and of what is served: hardly any key has such a value. It is
    not the first of a record."""

    takes_repeats: ClassVar[bool] = False
    """Whether `aggregate` takes a part that comes twice for one. Else each element of a list is given to it once."""

    state_form: ClassVar[str] = ""
    """See `Values.state_form`."""

    # Spark

    @property
    @abstractmethod
    def spark(self) -> str:
        """The type of the value in a result record, as Spark's DDL."""

    @property
    def part_type(self) -> str:
        """The type of a part, as Spark's DDL: `spark`, but for lists."""
        return self.spark

    @property
    @abstractmethod
    def columns(self) -> Mapping[str, str]:
        """The columns of rows that it is made of, and their Spark types; an empty type is whatever the column has."""

    @abstractmethod
    def part(self) -> Column:
        """Return the part that a row is, of the type `part_type`."""

    @abstractmethod
    def aggregate(self, part: Column) -> Column:
        """Return what parts add up to, of the type `spark`; null parts have to change nothing.

        Of a list it is one of parts, if `written` makes it of the type `spark`.
        """

    def written(self, value: Column) -> Column:
        """Return what `aggregate` returns as it stands in a record, of the type `spark`; as it is by default."""
        return value

    def part_of_written(self, element: Column) -> Column:
        """Return the part that an element of a list in a record is; as it is by default."""
        return element

    def changed(self, value: Column, part: Column) -> Column:
        """Return whether a part is in a value, or may be: so that it has changed that when it came. Never null.

        Args:
            value: what `aggregate` has made of the part and all others.
            part: the last that came, in real time.
        """
        raise NotImplementedError(f"{type(self).__name__} does not tell")

    # Python

    @abstractmethod
    def check(self, value: Any) -> Any:
        """Return the value that JSON says; numbers with a fraction or an exponent come as `decimal.Decimal`.

        Raises:
            TypeError, ValueError, KeyError or ArithmeticError: it is none.
        """

    def to_json(self, value: Any) -> Any:
        """Return the JSON of what `check` has returned: what `check` takes."""
        return value

    def merge(self, held: Any, new: Any) -> Any:
        """Return what has seen all that both have seen. Of a lattice only."""
        raise NotImplementedError(f"{type(self).__name__} is no lattice")

    # What is served

    @property
    @abstractmethod
    def json_type(self) -> str:
        """The type of what is served, as JSON Schema has it."""

    @property
    def json_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of what is served."""
        return {"type": [self.json_type, "null"] if self.nullable else self.json_type}

    def served(self, value: Any) -> Any:
        """Return what is served of what `check` has returned; itself by default."""
        return value

    @property
    def is_served_as_it_is(self) -> bool:
        """Whether what is served is the record's JSON as any JSON parser reads it: then no value is looked at."""
        return type(self).served is Value.served

    # When a topology is loaded

    def of(self, columns: Mapping[str, ColumnType]) -> Self:  # noqa: ARG002  # most have no type to be found
        """Return the value with the type of its column, where it was not given one: as the source has it."""
        return self

    def of_join(self) -> Self:
        """Return it for rows of two records that are joined."""
        return self

    def check_type(self) -> None:  # noqa: B027  # most take whatever there is
        """Refuse a type that there can be no such value of, or that is not known; raises `DeclarationError`."""

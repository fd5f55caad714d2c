"""What values of one column share: the column's type, and its values as they stand in a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from runtime.errors import DeclarationError
from runtime.keys import Text
from runtime.types import FIRST_MS, LAST_MS, ColumnType, Decimal, Double, Timestamp
from runtime.values.base import Value

if TYPE_CHECKING:
    from pyspark.sql import Column

_PATTERN: Final = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"


class OfColumn(Value):
    """A value of one column, a frozen dataclass.

    Attributes:
        column: which one.
        type: what it holds; None until it is known from the source, which has it.
        example: a type that there may be such a value of.
    """

    column: str
    type: ColumnType | None
    example: ClassVar[ColumnType] = Text

    @property
    def of_type(self) -> ColumnType:
        """What the column holds; raises `DeclarationError` when nobody has said so."""
        if self.type is None:
            # A dataclass, as all of them: its text is Python.
            spelled = replace(self, type=self.example)  # type: ignore[type-var]
            raise DeclarationError(
                f"{type(self).__name__} of column {self.column} does not know what the column holds: name its type, as"
                f" in {spelled!r}; it is known only of the columns of a source"
            )
        return self.type

    @property
    def columns(self) -> Mapping[str, str]:
        return {self.column: "" if self.type is None else self.type.spark}

    def of(self, columns: Mapping[str, ColumnType]) -> Self:
        found = columns.get(self.column) if self.type is None else None
        return self if found is None else replace(self, type=found)  # type: ignore[type-var]  # see above

    def check_type(self) -> None:
        _ = self.of_type

    def published(self) -> Column:
        """Return the column as it stands in a record; null as well where Python would not take it."""
        from pyspark.sql import functions as F

        column = F.col(self.column)
        if self.of_type is Timestamp:
            is_served = F.unix_millis(column).between(FIRST_MS, LAST_MS)
            return F.when(is_served, F.date_format(column, _PATTERN))
        if self.of_type is Double:
            # Neither infinite nor NaN, which is above all numbers to Spark, nor -0.
            return F.when(F.abs(column) < float("inf"), column + F.lit(0.0))
        return column.cast(self.of_type.published)


class AsItsColumn(OfColumn):
    """A value that is what the column holds."""

    @property
    def spark(self) -> str:
        return self.of_type.published

    @property
    def json_type(self) -> str:
        return dict(self.of_type.json_schema)["type"]

    @property
    def json_schema(self) -> Mapping[str, Any]:
        schema = dict(self.of_type.json_schema)
        return {**schema, "type": [schema["type"], "null"]} if self.nullable else schema

    @property
    def is_served_as_it_is(self) -> bool:
        # Python's own floats have not all digits of a decimal.
        return super().is_served_as_it_is and not isinstance(self.of_type, Decimal)

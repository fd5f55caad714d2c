"""Values that add up: a record replaces another when it counts every event that the other does."""

from __future__ import annotations

import decimal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from runtime.errors import DeclarationError
from runtime.keys import Int64
from runtime.types import SUM_DIGITS, ColumnType, Decimal, Double, check_double, check_integer, exact
from runtime.values.base import Value
from runtime.values.of_columns import OfColumn

if TYPE_CHECKING:
    from pyspark.sql import Column

_LARGEST: Final = sys.float_info.max
_AVERAGE_DIGITS: Final = 4
_DIVISION: Final = decimal.Context(prec=SUM_DIGITS + 4 * _AVERAGE_DIGITS, rounding=decimal.ROUND_HALF_UP)


@dataclass(frozen=True)
class Count(Value):
    """How many: the sum of a weight. An accumulator.

    Law: the count of two sets of events that share none is the sum of their counts.

    >>> Count("times").columns
    {'times': 'bigint'}

    Attributes:
        weight: the column that says how often a row counts; without one, each counts once. A null counts nothing.
    """

    weight: str | None = None

    lattice: ClassVar[bool] = False
    nullable: ClassVar[bool] = False

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
        return check_integer(value)


class _Added(OfColumn):
    """What adds up a column of numbers."""

    lattice: ClassVar[bool] = False
    nullable: ClassVar[bool] = False
    example: ClassVar[ColumnType] = Decimal(2)

    def check_type(self) -> None:
        if self.of_type not in (Int64, Double) and not isinstance(self.of_type, Decimal):
            raise DeclarationError(
                f"{type(self).__name__} of column {self.column} cannot add up {self.of_type!r}:"
                " it takes Int64, Decimal(n) and Double"
            )

    @property
    def _sum_type(self) -> str:
        if self.of_type is Double:
            return "double"
        return f"decimal({SUM_DIGITS},{self._digits})"

    @property
    def _digits(self) -> int:
        return self.of_type.digits if isinstance(self.of_type, Decimal) else 0

    def _addend(self) -> Column:
        from pyspark.sql import functions as F

        return F.coalesce(self.published().cast(self._sum_type), F.lit(0).cast(self._sum_type))

    def _sum(self, addends: Column) -> Column:
        from pyspark.sql import functions as F

        total = F.sum(addends)
        if self.of_type is not Double:
            return total
        # JSON has no number for what is infinite.
        return F.greatest(F.least(total, F.lit(_LARGEST)), F.lit(-_LARGEST))

    def _check_sum(self, value: Any) -> decimal.Decimal | int | float:
        if self.of_type is Double:
            return check_double(value)
        total = exact(value, self._digits, SUM_DIGITS)
        return total if isinstance(self.of_type, Decimal) else int(total)


@dataclass(frozen=True)
class Sum(_Added):
    """The sum of a column; 0 of nothing but nulls. An accumulator.

    Law: the sum of two sets of events that share none is the sum of their sums.

    Of decimals and integers it is exact: a sum has twenty digits more than what is added up, so that no number of
    records overflows it. Of doubles it is that of some order of the events, rounded at each step as floating point is:
    after a failure the last digits may be others than before, but at every instance they are the same. A sum of doubles
    that would be infinite is the largest double.

    >>> Sum("amount", Decimal(2)).spark
    'decimal(38,2)'

    Attributes:
        column: what is added up.
        type: `Int64`, `Decimal(n)` or `Double`; left out where the column is one of the source.
    """

    column: str
    type: ColumnType | None = None

    @property
    def spark(self) -> str:
        return self._sum_type

    @property
    def json_type(self) -> str:
        return "integer" if self.of_type is Int64 else "number"

    def part(self) -> Column:
        return self._addend()

    def aggregate(self, part: Column) -> Column:
        return self._sum(part)

    def check(self, value: Any) -> decimal.Decimal | int | float:
        return self._check_sum(value)

    @property
    def is_served_as_it_is(self) -> bool:
        return not isinstance(self.of_type, Decimal)


@dataclass(frozen=True)
class Average(_Added):
    """The average of a column: its sum and how many rows have it, served as the quotient; null of none. An accumulator.

    Law: sum and count of two sets of events that share none are the sums of theirs.

    Of decimals the quotient has four more digits behind the point, rounded half up; of integers and doubles it is a
    double. Of the sum `Sum` says what is promised.

    >>> average = Average("amount", Decimal(2))
    >>> average.spark, str(average.served({"sum": decimal.Decimal("100.00"), "count": 3}))
    ('struct<sum: decimal(38,2), count: bigint>', '33.333333')

    Attributes:
        column: of what.
        type: `Int64`, `Decimal(n)` or `Double`; left out where the column is one of the source.
    """

    column: str
    type: ColumnType | None = None

    @property
    def spark(self) -> str:
        return f"struct<sum: {self._sum_type}, count: bigint>"

    @property
    def json_type(self) -> str:
        return "number"

    @property
    def json_schema(self) -> Mapping[str, Any]:
        return {"type": ["number", "null"]}

    def part(self) -> Column:
        from pyspark.sql import functions as F

        is_there = self.published().isNotNull().cast("bigint")
        return F.struct(self._addend().alias("sum"), is_there.alias("count"))

    def aggregate(self, part: Column) -> Column:
        from pyspark.sql import functions as F

        return F.struct(self._sum(part["sum"]).alias("sum"), F.sum(part["count"]).alias("count"))

    def check(self, value: Any) -> dict[str, Any]:
        return {"sum": self._check_sum(value["sum"]), "count": check_integer(value["count"])}

    def served(self, value: Any) -> decimal.Decimal | float | None:
        total, count = value["sum"], value["count"]
        if count <= 0:
            return None
        if not isinstance(total, decimal.Decimal):
            return float(total / count)
        least = decimal.Decimal(1).scaleb(-self._digits - _AVERAGE_DIGITS)
        average = _DIVISION.quantize(_DIVISION.divide(total, decimal.Decimal(count)), least)
        # No zero is negative, also where so little is left of a number.
        return average or abs(average)

"""A value of one's own, as the document has it."""

from __future__ import annotations

from typing import Any, ClassVar

from pyspark.sql import Column
from pyspark.sql import functions as F

from runtime import Value


class Longest(Value):
    """The length of the longest text: a lattice."""

    lattice: ClassVar[bool] = True
    spark = "bigint"
    json_type = "integer"
    columns: ClassVar[dict[str, str]] = {"text": "string"}

    def part(self) -> Column:
        return F.length("text")

    def aggregate(self, part: Column) -> Column:
        return F.max(part)

    def check(self, value: Any) -> int:
        return int(value)

    def merge(self, held: int, new: int) -> int:
        return max(held, new)

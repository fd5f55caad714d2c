"""Values that merge: in any order and however often, to the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self

from runtime.errors import DeclarationError
from runtime.types import ColumnType, check_integer
from runtime.values.of_columns import AsItsColumn, OfColumn

if TYPE_CHECKING:
    from pyspark.sql import Column

_PLACE: Final = ("timestamp", "partition", "offset")


class _Extreme(AsItsColumn):
    """One of the values of a column, as it stands in the column."""

    lattice: ClassVar[bool] = True
    is_its_part: ClassVar[bool] = True

    def part(self) -> Column:
        return self.published()

    def check(self, value: Any) -> Any:
        return self.of_type.check(value)


@dataclass(frozen=True)
class Min(_Extreme):
    """The least of a column: texts go by their code points, false is before true. A lattice.

    Law: of two minima the lesser one is the minimum of both.

    >>> Min("amount", Int64).merge(3, 5)
    3

    Attributes:
        column: of what.
        type: what the column holds; left out where it is one of the source.
    """

    column: str
    type: ColumnType | None = None

    def aggregate(self, part: Column) -> Column:
        from pyspark.sql import functions as F

        return F.min(part)

    def merge(self, held: Any, new: Any) -> Any:
        return min(held, new)


@dataclass(frozen=True)
class Max(_Extreme):
    """The greatest of a column; as `Min`. A lattice.

    Law: of two maxima the greater one is the maximum of both.

    >>> Max("amount", Int64).merge(3, 5)
    5

    Attributes:
        column: of what.
        type: what the column holds; left out where it is one of the source.
    """

    column: str
    type: ColumnType | None = None

    def aggregate(self, part: Column) -> Column:
        from pyspark.sql import functions as F

        return F.max(part)

    def merge(self, held: Any, new: Any) -> Any:
        return max(held, new)


class At(NamedTuple):
    """What a column held in one record. The later record is the greater one.

    By its timestamp, in milliseconds; of equal timestamps that of the higher partition, and in a partition the one
    behind. Where all three are the same, as those of two topics may be, the greater value counts.
    """

    timestamp: int
    partition: int
    offset: int
    value: Any


class AtPair(NamedTuple):
    """What a column held in two records that are joined: of the later one as `At`, then of the other one.

    So all columns of two records go before those of two others, also where the later record is in both.
    """

    timestamp: int
    partition: int
    offset: int
    other_timestamp: int
    other_partition: int
    other_offset: int
    value: Any


class _WithAt(OfColumn):
    """What keeps with a value which record it is of."""

    lattice: ClassVar[bool] = True
    of_pairs: bool = False
    """Whether rows are of two records that are joined."""

    @property
    def part_type(self) -> str:
        # Spark compares structs field by field, as Python does tuples.
        other = "other_timestamp: bigint, other_partition: int, other_offset: bigint, " if self.of_pairs else ""
        return f"struct<timestamp: bigint, partition: int, offset: bigint, {other}value: {self.of_type.published}>"

    def part(self) -> Column:
        from pyspark.sql import functions as F

        value, at = self.published(), F.col("at")
        places = {"": at, "other_": at["other"]} if self.of_pairs else {"": at}
        of_record = [
            column.alias(f"{prefix}{name}")
            for prefix, place in places.items()
            for name, column in (
                ("timestamp", F.unix_millis(place["timestamp"])),
                ("partition", place["partition"]),
                ("offset", place["offset"]),
            )
        ]
        return F.when(value.isNotNull(), F.struct(*of_record, value.alias("value")))

    def _check_at(self, value: Any) -> At:
        timestamp, partition, offset = (check_integer(value[name]) for name in _PLACE)
        return At(timestamp, partition, offset, self.of_type.check(value["value"]))


@dataclass(frozen=True)
class Latest(_WithAt, AsItsColumn):
    """What the latest record that has the column holds; see `At` for which one that is. A lattice.

    Of streams that are joined it is what the latest two records hold: by the later one of them, then by the other one.

    Law: of two records the later one is the latest of both. The order is that of the records, not of their arrival.

    >>> Latest("city", Text).merge(At(1700000000000, 0, 7, "Rome"), At(1700000000000, 1, 2, "Oslo")).value
    'Oslo'

    Attributes:
        column: of what.
        type: what the column holds; left out where it is one of the source.
        of_pairs: whether rows are of two records that are joined; the topology knows.
    """

    column: str
    type: ColumnType | None = None
    of_pairs: bool = field(default=False, repr=False)

    is_its_part: ClassVar[bool] = True

    @property
    def spark(self) -> str:
        return self.part_type

    def aggregate(self, part: Column) -> Column:
        from pyspark.sql import functions as F

        return F.max(part)

    def of_join(self) -> Self:
        return replace(self, of_pairs=True)

    def check(self, value: Any) -> At | AtPair:
        at = self._check_at(value)
        if not self.of_pairs:
            return at
        # Results of before the other record was told: any that tell it go before them.
        timestamp, partition, offset = (check_integer(value.get(f"other_{name}", -1)) for name in _PLACE)
        return AtPair(*at[:3], timestamp, partition, offset, at.value)

    def to_json(self, value: At | AtPair) -> Any:
        return value._asdict()

    def merge(self, held: At | AtPair, new: At | AtPair) -> At | AtPair:
        return max(held, new)

    def served(self, value: At | AtPair) -> Any:
        return value.value


@dataclass(frozen=True)
class Recent(_WithAt):
    """What the last records that have the column hold, the latest last; see `At` for their order. A lattice.

    Law: of two lists the last n of both together, each record once, are the last n of both.

    >>> Recent(2, "kind", Text).served((At(1, 0, 0, "view"), At(5, 0, 3, "buy")))
    ['view', 'buy']

    Attributes:
        n: how many, 1 to 1,000.
        column: of what.
        type: what the column holds; left out where it is one of the source.
    """

    n: int
    column: str
    type: ColumnType | None = None

    nullable: ClassVar[bool] = False
    listed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if type(self.n) is not int or not 1 <= self.n <= 1000:
            raise DeclarationError(f"Recent({self.n!r}, …): say how many are kept, 1 to 1,000")

    @property
    def spark(self) -> str:
        return f"array<{self.part_type}>"

    @property
    def json_type(self) -> str:
        return "array"

    @property
    def json_schema(self) -> Mapping[str, Any]:
        return {"type": "array", "items": dict(self.of_type.json_schema), "maxItems": self.n}

    def aggregate(self, part: Column) -> Column:
        from pyspark.sql import functions as F

        last = F.call_function("max_by", part, part, F.lit(self.n))
        return F.coalesce(F.sort_array(last), F.array().cast(self.spark))

    def check(self, value: Any) -> tuple[At, ...]:
        return tuple(self._check_at(each) for each in value)

    def to_json(self, value: tuple[At, ...]) -> Any:
        return [at._asdict() for at in value]

    def merge(self, held: tuple[At, ...], new: tuple[At, ...]) -> tuple[At, ...]:
        return tuple(sorted({*held, *new})[-self.n :])

    def served(self, value: tuple[At, ...]) -> list[Any]:
        return [at.value for at in value]

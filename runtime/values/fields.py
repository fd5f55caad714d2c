"""Several named values, each a field of a result record."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final

from runtime.errors import InvalidRecord
from runtime.records import json_bytes, json_object
from runtime.values.base import Value, Values

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CORRUPT: Final = "__corrupt"
_PLACE: Final = "__place"
_LAST: Final = "last_"
"""In front of a value's name, the part that came last."""

_KEPT: Final = 1024
_SHORT_BYTES: Final = 64
"""What is kept of values that were read is a few hundred kilobytes a store."""


@dataclass(frozen=True)
class Fields(Values):
    """Several named values, each a field of the record.

    If one of them is an accumulator, the record as a whole is: of two records one replaces the other, whole.

    Attributes:
        values: by name.
        final: see `Values`.
    """

    values: Mapping[str, Value]
    final: bool = False

    @property
    def lattice(self) -> bool:
        """Whether all of them are."""
        return all(value.lattice for value in self.values.values())

    @property
    def names_topic(self) -> bool:
        return any(value.names_topic for value in self.values.values())

    @property
    def columns(self) -> Mapping[str, str]:
        return {name: of_type for value in self.values.values() for name, of_type in value.columns.items()}

    @cached_property
    def says_nulls(self) -> bool:
        return not any(value.left_out for value in self.values.values())

    @property
    def kept_form(self) -> str:
        # What is left out of most is lacking in those of before, which can be read.
        return self._schema(name for name, value in self.values.items() if not value.left_out)

    @property
    def state_form(self) -> str:
        return "; ".join(value.state_form for value in self.values.values() if value.state_form)

    # Spark

    @property
    def published_schema(self) -> str:
        return self._schema(self.values)

    def _schema(self, names: Iterable[str]) -> str:
        fields = ", ".join(f"`{name}` {self.values[name].spark}" for name in names)
        return f"{fields}, `{_CORRUPT}` string"

    @property
    def published_options(self) -> Mapping[str, str]:
        return {"columnNameOfCorruptRecord": _CORRUPT}

    def parts(self, rows: DataFrame) -> list[Column]:  # noqa: ARG002  # by name
        return [value.part().cast(value.part_type).alias(f"part_{name}") for name, value in self.values.items()]

    def parts_of_published(self, published: DataFrame, keys: Sequence[str]) -> DataFrame:
        from pyspark.sql import functions as F

        if not self._lists:
            return published.withColumns({f"part_{name}": F.col(f"values.{name}") for name in self.values})
        # A row an element of the longest list; all else is in the first of them.
        others = [name for name in published.columns if name not in (*keys, "values")]
        last = F.greatest(F.lit(1), *(F.size(f"values.{name}") for name in self._lists)) - 1
        each = published.select("*", F.explode(F.sequence(F.lit(0), last)).alias(_PLACE))
        is_first = F.col(_PLACE) == 0
        parts = {
            name: value.part_of_written(F.get(f"values.{name}", _PLACE))
            if value.listed
            else F.when(is_first, F.col(f"values.{name}"))
            for name, value in self.values.items()
        }
        return self._distinct(
            each.select(
                *keys,
                *(F.when(is_first, F.col(name)).alias(name) for name in others),
                *(part.cast(self.values[name].part_type).alias(f"part_{name}") for name, part in parts.items()),
            ),
            keys,
        )

    def _distinct(self, parts: DataFrame, keys: Sequence[str]) -> DataFrame:
        """Return parts with each element of a list once; several records of a key may have it."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        for name in self._given_once if self.lattice else ():
            part = f"part_{name}"
            nth = F.row_number().over(Window.partitionBy(*keys, part).orderBy(F.lit(0)))
            parts = parts.withColumn(part, F.when(nth == 1, F.col(part)))
        return parts

    @property
    def _lists(self) -> list[str]:
        return [name for name, value in self.values.items() if value.listed]

    @property
    def _given_once(self) -> list[str]:
        return [name for name in self._lists if not self.values[name].takes_repeats]

    def is_published(self) -> Column:
        from pyspark.sql import functions as F

        there = F.col("values").isNotNull() & F.col(f"values.{_CORRUPT}").isNull()
        for name, value in self.values.items():
            if not value.nullable:
                there &= F.col(f"values.{name}").isNotNull()
        return there

    def aggregates(self) -> list[Column]:
        from pyspark.sql import functions as F

        every = [value.aggregate(F.col(f"part_{name}")).alias(name) for name, value in self.values.items()]
        # In real time the last is the row at hand.
        last = [F.last(f"part_{name}").alias(f"{_LAST}{name}") for name in self.values] if self._tells else []
        return [*every, *last]

    def changed(self) -> Column | None:
        from pyspark.sql import functions as F

        if not self._tells:
            return None
        last = {name: F.col(f"{_LAST}{name}") for name in self.values}
        return reduce(or_, (value.changed(F.col(name), last[name]) for name, value in self.values.items()))

    @property
    def _tells(self) -> bool:
        return all(value.tells_change for value in self.values.values())

    def of_one_part(self) -> list[Column]:
        from pyspark.sql import functions as F

        return [F.col(f"part_{name}").alias(name) for name in self.values]

    def published(self, generation: int) -> list[Column]:  # noqa: ARG002
        from pyspark.sql import functions as F

        return [value.written(F.col(name)).alias(name) for name, value in self.values.items()]

    def uncovered(self, rows: DataFrame, seed: DataFrame, keys: Sequence[str]) -> DataFrame:
        """Return the rows that the state has to see: those that are no element of a list in the seed.

        The state would hold an element twice, and with that one less of the others. Every other value of a lattice has
        seen what an element was made of.
        """
        from pyspark.sql import functions as F

        for name in self._given_once:
            part = self.values[name].part().cast(self.values[name].part_type)
            of_key = {key: f"__of_seed_{key}" for key in keys}
            of_seed = seed.select(
                *(F.col(key).alias(of_key[key]) for key in keys), F.col(f"part_{name}").alias("__part")
            )
            of_seed = of_seed.where("__part IS NOT NULL").distinct()
            there = part == F.col("__part")
            for key in keys:
                there &= F.col(key) == F.col(of_key[key])
            # Spark sends it to all tasks if it is small; that of millions of keys would not fit into the driver.
            rows = rows.join(of_seed, there, "left_anti")
        return rows

    # Python

    def is_plain(self, value: bytes) -> bool:
        return self._plain is not None and self._plain.fullmatch(value) is not None

    @cached_property
    def _plain(self) -> re.Pattern[bytes] | None:
        """The pattern of records whose values are all plain, in their order."""
        fields = b""
        for name, value in self.values.items():
            if value.plain is None:
                return None
            field = (b"," if fields else b"") + re.escape(json_bytes(name)) + b":" + value.plain
            fields += b"(?:" + field + b")?" if value.left_out else field
        return re.compile(rb"\{" + fields + rb"\}")

    def parse(self, value: bytes) -> dict[str, Any]:
        """Return what a value says; nobody may change what is returned. See `Values.parse`."""
        return self._parse_short(value) if len(value) <= _SHORT_BYTES else self._parse(value)

    @cached_property
    def _parse_short(self) -> Callable[[bytes], dict[str, Any]]:
        # Many keys have the same count: what was read once is a twentieth of the work the next time.
        return lru_cache(_KEPT)(self._parse)

    def _parse(self, value: bytes) -> dict[str, Any]:
        fields = json_object(value, exact=True)
        checked = {}
        try:
            for name, each in self.values.items():
                if (said := fields.get(name)) is None and not each.nullable:
                    raise TypeError(f"null is no {type(each).__name__}")
                checked[name] = None if said is None else each.check(said)
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise InvalidRecord("not a result", repr(error)) from error
        return checked

    def to_json(self, values: Any) -> bytes:
        return json_bytes(
            {name: None if said is None else each.to_json(said) for name, each, said in self._said(values)}
        )

    def row(self, value: bytes) -> dict[str, Any]:
        if self._served_as_they_are:
            # A million are read to be ranked.
            return json_object(value)
        return self.row_of(self.parse(value))

    def row_of(self, values: Any) -> dict[str, Any]:
        return {name: None if said is None else each.served(said) for name, each, said in self._said(values)}

    def _said(self, values: Any) -> Iterator[tuple[str, Value, Any]]:
        """Yield what a record says of values, by name."""
        for name, each in self.values.items():
            if (said := values[name]) is not None or self.says_nulls:
                yield name, each, said

    @cached_property
    def _served_as_they_are(self) -> bool:
        return all(value.is_served_as_it_is for value in self.values.values())

    def merge(self, held: Any, new: Any) -> dict[str, Any]:
        return {name: _merged(value, held[name], new[name]) for name, value in self.values.items()}


def _merged(value: Value, held: Any, new: Any) -> Any:
    """Return what both come to; None is of nothing, and so below every value."""
    return new if held is None else held if new is None else value.merge(held, new)

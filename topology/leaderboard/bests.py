"""The value of a personal best: the best scores of a player on a product, in Spark and in Python.

A score and its order are spelled here, once in each language, and a property test holds the two to each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from runtime.records import ID_MAX
from runtime.types import check_double, check_integer, check_text
from runtime.values import Value
from runtime.values.base import TOPIC_ID

if TYPE_CHECKING:
    from pyspark.sql import Column

KEPT: Final = 3
"""So many scores, so that one that is taken away leaves the next."""

# The fields stand in ranking order and all but the last count upwards, as in `places.ENTRY`.
_PART: Final = "struct<score: double, neg_timestamp: bigint, neg_partition: int, neg_offset: bigint, topic: string>"
_WRITTEN: Final = "struct<score: double, timestamp: bigint, partition: int, offset: bigint, topic: string>"

_WHOLE: Final = rb"(?:0|-?[1-9][0-9]{0,17})"
_PLAIN: Final = (
    rb'\{"score":-?(?:0|[1-9][0-9]{0,16})[.][0-9]{1,17}(?:E-?[0-9]{1,2})?,"timestamp":N,"partition":N,"offset":N,'
    rb'"topic":"[!#-\[\]-~]*"\}'
).replace(b"N", _WHOLE)
"""A score as Spark writes it. A restore of millions takes them without reading each."""


class Best(NamedTuple):
    """A score of a player; compares by all fields, so that a set of them holds a repeat once.

    Attributes:
        score: how good.
        timestamp_ms: of its record, with partition, offset and topic.
        partition: see `timestamp_ms`.
        offset: see `timestamp_ms`.
        topic: the id of the record's topic: one of the same name that is created anew has other offsets.
    """

    score: float
    timestamp_ms: int
    partition: int
    offset: int
    topic: str


def _order(best: Best) -> tuple[float, int, int, int, str]:
    """Return what the better one has more of: the score, then the earlier record; as `_PART` in Spark."""
    return best.score, -best.timestamp_ms, -best.partition, -best.offset, best.topic


@dataclass(frozen=True)
class Bests(Value):
    """The best scores, best first: a lattice.

    Law: two lists merge as sets of scores, best first, cut at `kept`.

    >>> Bests().merge((Best(5.0, 2, 0, 1, "t"),), (Best(7.0, 3, 0, 2, "t"), Best(5.0, 2, 0, 1, "t")))[0].score
    7.0

    Attributes:
        kept: how many.
        column: of rows, that has the scores.
    """

    kept: int = KEPT
    column: str = "score"

    lattice: ClassVar[bool] = True
    nullable: ClassVar[bool] = False
    listed: ClassVar[bool] = True
    names_topic: ClassVar[bool] = True
    tells_change: ClassVar[bool] = True
    plain: ClassVar[bytes | None] = rb"\[(?:S(?:,S)*)?\]".replace(b"S", _PLAIN)

    # Spark

    @property
    def spark(self) -> str:
        return f"array<{_WRITTEN}>"

    @property
    def part_type(self) -> str:
        return _PART

    @property
    def columns(self) -> Mapping[str, str]:
        return {self.column: "double"}

    def part(self) -> Column:
        from pyspark.sql import functions as F

        # Adding nothing makes 0 of -0, which is the same score and has other bytes.
        score, at = F.col(self.column) + F.lit(0.0), F.col("at")
        return F.when(
            score.isNotNull(),
            F.struct(
                score.alias("score"),
                (-F.unix_millis(at["timestamp"])).alias("neg_timestamp"),
                (-at["partition"]).alias("neg_partition"),
                (-at["offset"]).alias("neg_offset"),
                F.col(TOPIC_ID).alias("topic"),
            ),
        )

    def aggregate(self, part: Column) -> Column:
        from pyspark.sql import functions as F

        best = F.call_function("max_by", part, part, F.lit(self.kept))
        return F.coalesce(best, F.array().cast(f"array<{_PART}>"))

    def changed(self, value: Column, part: Column) -> Column:
        from pyspark.sql import functions as F

        return F.coalesce(F.array_contains(value, part), F.lit(False))

    def written(self, value: Column) -> Column:
        from pyspark.sql import functions as F

        return F.transform(value, lambda part: _turned(part, "neg_", "").cast(_WRITTEN))

    def part_of_written(self, element: Column) -> Column:
        return _turned(element, "", "neg_")

    # Python

    def check(self, value: Any) -> tuple[Best, ...]:
        return tuple(map(_best_of, value))

    def to_json(self, value: Sequence[Best]) -> list[dict[str, Any]]:
        names = ("score", "timestamp", "partition", "offset", "topic")
        return [dict(zip(names, best, strict=True)) for best in value]

    def merge(self, held: tuple[Best, ...], new: tuple[Best, ...]) -> tuple[Best, ...]:
        return held if held == new else tuple(sorted({*held, *new}, key=_order, reverse=True)[: self.kept])

    # What is served

    @property
    def json_type(self) -> str:
        return "array"

    @property
    def json_schema(self) -> Mapping[str, Any]:
        fields = {
            "score": {"type": "number"},
            "timestamp": {"type": "integer", "format": "int64"},
            "partition": {"type": "integer"},
            "offset": {"type": "integer", "format": "int64"},
            "topic": {"type": "string"},
        }
        item = {"type": "object", "properties": fields, "required": list(fields)}
        return {"type": "array", "maxItems": self.kept, "items": item}

    def served(self, value: tuple[Best, ...]) -> list[dict[str, Any]]:
        return self.to_json(value)

    @property
    def is_served_as_it_is(self) -> bool:
        return True


@dataclass(frozen=True)
class HiddenScores(Bests):
    """All scores that the query takes for hidden: null where there are none, as of nearly every player.

    None is left out: all of them come back when they are lifted, and there are no more than somebody has hidden.
    """

    kept: int = ID_MAX
    column: str = "hidden_score"

    nullable: ClassVar[bool] = True
    left_out: ClassVar[bool] = True
    plain: ClassVar[bytes | None] = rb"\[S(?:,S)*\]".replace(b"S", _PLAIN)
    takes_repeats: ClassVar[bool] = True
    state_form: ClassVar[str] = "hidden scores beside the best"

    def aggregate(self, part: Column) -> Column:
        from pyspark.sql import functions as F

        # Not `max_by`, whose buffer has room for all that it may come to hold, in the state of each key.
        every = F.sort_array(F.collect_set(part), asc=False)
        return F.when(F.size(every) > 0, every)

    @property
    def json_schema(self) -> Mapping[str, Any]:
        of_list = super().json_schema
        return {"type": "array", "items": of_list["items"]}


def _best_of(fields: Mapping[str, Any]) -> Best:
    # By position: a restore reads millions of these.
    return Best(
        check_double(fields["score"]),
        check_integer(fields["timestamp"]),
        check_integer(fields["partition"]),
        check_integer(fields["offset"]),
        check_text(fields["topic"]),
    )


def _turned(of: Column, before: str, after: str) -> Column:
    """Return a score with the fields that count upwards in ranking order turned round, or back again."""
    from pyspark.sql import functions as F

    turned = [(-of[f"{before}{name}"]).alias(f"{after}{name}") for name in ("timestamp", "partition", "offset")]
    return F.when(of.isNotNull(), F.struct(of["score"].alias("score"), *turned, of["topic"].alias("topic")))

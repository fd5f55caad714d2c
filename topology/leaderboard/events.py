"""Score events as Spark reads them: which records can be used, and why the others cannot.

The rules are those of `docs/records.md`.
"""

from __future__ import annotations

from itertools import permutations
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from runtime.records import FURTHEST_MS, NO_VALUE, NOT_JSON_OBJECT, NOT_UTF8, TIMESTAMP_REASON, TOO_LARGE
from runtime.spark.beside_value import EARLIEST_MS
from runtime.spark.casts import integer, number
from runtime.spark.json import JSON_OPTIONS, as_map, is_one_object
from runtime.spark.sizes import too_large

SCORE_REASON: Final = "score is missing or no finite number"
PRODUCT_REASON: Final = "product_id is missing or no 64-bit integer"
PLAYER_REASON: Final = "player_id is missing or no 64-bit integer"

_ID_DIGITS: Final = "(?:0|-?[1-9][0-9]{0,17})"
_PLAIN_NUMBERS: Final = {
    "score": "(?:0|-?[1-9][0-9]{0,17})(?:[.][0-9]{1,20})?",
    "product_id": _ID_DIGITS,
    "player_id": _ID_DIGITS,
}
_SPACE: Final = r"[ \t\r\n]*"


def _plain_event() -> str:
    """Return the pattern of the three fields in any order and none else, as numbers that fit their types for sure."""
    orders = permutations(f'"{name}"{_SPACE}:{_SPACE}{number}' for name, number in _PLAIN_NUMBERS.items())
    fields = "|".join(f"{_SPACE},{_SPACE}".join(order) for order in orders)
    return rf"^{_SPACE}\{{{_SPACE}(?:{fields}){_SPACE}\}}{_SPACE}\z"


_PLAIN_EVENT: Final = _plain_event()
"""An event that needs no JSON reader, as nearly all are; to read every one with that takes five times as long.

It becomes what the reader would make of it. Left to the reader are -0, and what may not fit its type.
"""

_FIELDS: Final = "score string, product_id string, player_id string"


def with_player(events: DataFrame) -> DataFrame:
    """Add the player of plain events: a step of its own, since most events are below their floor and need none.

    Args:
        events: as `judge` returns them.
    """
    return events.withColumn("player_id", F.coalesce("player_id", _plain_field("player_id", "bigint")))


def judge(scores: DataFrame) -> DataFrame:
    """Return every record with its fields and, when it cannot be used, the reason, else null.

    Args:
        scores: `value binary, partition int, offset bigint, timestamp timestamp`, as Spark's Kafka source gives them.

    Returns:
        `reason string, text string, score double, product_id bigint, player_id bigint, partition int, offset bigint,
        timestamp timestamp`. The player of a plain event is null: see `with_player`.
    """
    text = F.col("value").cast("string")
    # As text first: numbers in quotes are numbers, and what is no number is told apart from what is absent. In one
    # step, all that the JSON reader tells: Spark compiles no step in which that is, and every event goes through each.
    event = F.when(
        ~F.col("is_plain"),
        F.struct(
            F.from_json("text", _FIELDS, JSON_OPTIONS).alias("fields"),
            F.expr(f"NOT too_large AND {is_one_object('text')}").alias("is_one"),
            F.expr(f"NOT too_large AND {as_map('text')} IS NOT NULL").alias("is_read"),
        ),
    )
    place = ("partition", "offset", "timestamp", "too_large")
    texts = scores.select(text.alias("text"), *place[:3], too_large(scores).alias("too_large"))
    seen = texts.select("text", F.coalesce(F.col("text").rlike(_PLAIN_EVENT), F.lit(False)).alias("is_plain"), *place)
    read = seen.select("text", "is_plain", event.alias("event"), *place)
    fields = read.select(
        "text",
        "is_plain",
        _either("score", "double", number(F.col("event.fields.score"))),
        _either("product_id", "bigint", integer(F.col("event.fields.product_id"))),
        integer(F.col("event.fields.player_id")).alias("player_id"),
        F.col("event.is_one").alias("is_one"),
        F.col("event.is_read").alias("is_read"),
        *place,
    )
    reason = F.expr(
        f"""CASE WHEN too_large THEN '{TOO_LARGE}'
                 WHEN unix_millis(timestamp) NOT BETWEEN {EARLIEST_MS} AND {FURTHEST_MS} THEN '{TIMESTAMP_REASON}'
                 WHEN is_plain THEN NULL
                 WHEN text IS NULL OR text = '' THEN '{NO_VALUE}'
                 WHEN NOT is_valid_utf8(text) THEN '{NOT_UTF8}'
                 WHEN NOT is_one THEN '{NOT_JSON_OBJECT}'
                 WHEN score IS NOT NULL AND product_id IS NOT NULL AND player_id IS NOT NULL
                      AND abs(score) < double('Infinity') THEN NULL
                 WHEN NOT is_read THEN '{NOT_JSON_OBJECT}'
                 WHEN score IS NULL OR abs(score) = double('Infinity') THEN '{SCORE_REASON}'
                 WHEN product_id IS NULL THEN '{PRODUCT_REASON}'
                 ELSE '{PLAYER_REASON}' END"""
    )
    return fields.select(reason.alias("reason"), "text", "score", "product_id", "player_id", *place[:3])


def plain_events(values: pa.Array, at_ms: pa.Array) -> pa.Table:
    """Return the events that need no JSON reader, of any values of records, as Arrow has them.

    Args:
        values: binary.
        at_ms: the times of the records.

    Returns:
        `product_id bigint, player_id bigint, score double, at_ms bigint`, the first three as `judge` and
        `query.entries` make them of these values.
    """
    # What is no UTF-8 has no match.
    texts = values.cast(pa.string(), safe=False)
    plain = pc.match_substring_regex(texts, _PLAIN_EVENT)
    texts = texts.filter(plain, null_selection_behavior="drop")

    types = {"product_id": pa.int64(), "player_id": pa.int64(), "score": pa.float64()}
    found = {name: pc.extract_regex(texts, _field_pattern(name)) for name in types}
    columns = {name: pc.struct_field(found[name], "number").cast(of_type) for name, of_type in types.items()}
    return pa.table({**columns, "at_ms": at_ms.filter(plain, null_selection_behavior="drop")})


def _field_pattern(name: str) -> str:
    """Return what finds a field in the text of a plain event."""
    return rf'"{name}"{_SPACE}:{_SPACE}(?<number>[-.0-9]+)'


def _plain_field(name: str, of_type: str) -> Column:
    """Return a field out of the text of a plain event."""
    return F.regexp_extract("text", _field_pattern(name), 1).try_cast(of_type)


def _either(name: str, of_type: str, otherwise: Column) -> Column:
    """Return a field: out of the text of a plain event, otherwise as the JSON reader has it."""
    return F.when(F.col("is_plain"), _plain_field(name, of_type)).otherwise(otherwise).alias(name)

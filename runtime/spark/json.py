r"""Records that are JSON objects: which can be used, and why the others cannot, by the rules of `docs/records.md`.

Spark's JSON reader alone would take `{…}xx` and `{'a': 1}`, numbers for texts, and decimals with digits that are lost;
its casts would take `1d` for a number. So a field is read as the text that stands in the record, and becomes a value of
its type by `runtime.spark.casts`.

A plain object, as nearly all are, needs no JSON reader, which takes several times as long: a flat one, without
escapes, with names and numbers of usual lengths. What a regular expression finds in it is what the reader would.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from runtime.keys import Int64, Key, Text
from runtime.records import NO_VALUE, NOT_JSON_OBJECT, NOT_UTF8
from runtime.spark import casts
from runtime.spark.beside_value import column_of, key_columns, place_of, reason_beside
from runtime.types import Boolean, ColumnType, Decimal, Double, Timestamp

JSON_OPTIONS: Final = {"allowNonNumericNumbers": "false", "allowSingleQuotes": "false"}
SPACE: Final = r"[ \t\r\n]*+"

_NAME: Final = r'"[^"\\\x00-\x1f]{1,100}+"'
_STRING: Final = r'"[^"\\\x00-\x1f]*+"'
# -0 is left to the reader, which makes 0 of it where it is not in quotes.
_WHOLE: Final = r"(?:0|-?[1-9][0-9]{0,17}+)(?![0-9.eE])"
_FRACTION: Final = r"-?(?:0|[1-9][0-9]{0,17}+)[.][0-9]{1,20}+(?![0-9eE])"
_TOKEN: Final = rf"(?:{_STRING}|{_WHOLE}|{_FRACTION}|true|false|null)"
_PAIR: Final = rf"{SPACE}{_NAME}{SPACE}:{SPACE}{_TOKEN}{SPACE}"
_PLAIN: Final = rf"^{SPACE}\{{{_PAIR}(?:,{_PAIR}){{0,49}}+\}}{SPACE}\z"
_PLAIN_BYTES: Final = 1 << 16
"""A longer one is left to the reader: each step would copy it."""

_CORRUPT: Final = "__corrupt"


def as_map(text: str) -> str:
    """Return the SQL of the fields of a JSON object by name, null when it is none.

    Args:
        text: the column that it is in.
    """
    options = ", ".join(f"'{name}', '{value}'" for name, value in JSON_OPTIONS.items())
    return f"from_json({text}, 'map<string, string>', map({options}))"


def is_one_object(text: str) -> str:
    r"""Return the SQL of whether nothing stands behind the object that a text begins with.

    Spark's reader does not look there. So it is when the first closing brace is the last character, as in nearly all
    records. For the others: in a list of one only a `]` may follow the object, in an object only a comma or a brace;
    when it can be read in both, nothing follows.

    Args:
        text: the column that it is in.
    """
    trimmed = rf"trim(BOTH ' \t\r\n' FROM {text})"
    return f"""
        startswith({trimmed}, '{{') AND (
            instr({trimmed}, '}}') = length({trimmed})
            OR coalesce(json_array_length(concat('[', {text}, ']')), 0) = 1
               AND from_json(concat('{{"value":', {text}, ',"end":1}}'), 'end int').end IS NOT NULL)
    """


def judge(
    records: DataFrame, fields: Mapping[str, ColumnType], optional: Collection[str], key: Key | None
) -> DataFrame:
    """Return every record with its fields and, when it cannot be used, the reason, else null.

    Args:
        records: `value binary, partition int, offset bigint, timestamp timestamp`, as Spark's Kafka source gives them,
            and `key binary` where it is a column.
        fields: their types by name.
        optional: those that may be missing, or null.
        key: what the key is, where it is a column.

    Returns:
        `reason string`, the fields and the key by `column_of` their names, `partition int, offset bigint, timestamp
        timestamp`.
    """
    place = place_of(records)
    others = (*place, *((column_of(key.name),) if key else ()))
    beside = reason_beside(records, key).alias("__reason")
    read = records.select(beside, F.col("value").alias("__value"), *key_columns(key), *place)
    read = read.select("__reason", F.when(F.col("__reason").isNull(), _text()).alias("__text"), *others)
    is_short = F.octet_length("__text") <= _PLAIN_BYTES
    read = read.withColumn("__plain", F.coalesce(is_short & F.col("__text").rlike(_PLAIN), F.lit(False)))
    schema = ", ".join(f"`{name}` {_read_as(of_type)}" for name, of_type in fields.items())
    options = {**JSON_OPTIONS, "columnNameOfCorruptRecord": _CORRUPT}
    event = F.from_json("__text", f"{schema}, `{_CORRUPT}` string", options)
    read = read.withColumn("__event", F.when(~F.col("__plain"), event))
    # Step by step, and in columns: Spark would put what makes the fields of a struct in place of each use of them.
    read = read.select("*", *(_token(name).alias(f"__token_{name}") for name in fields))
    read = read.select("*", *(column for name, of_type in fields.items() for column in _found(name, of_type)))
    values = [_value(name, of_type).alias(column_of(name)) for name, of_type in fields.items()]
    read = read.select("*", *values)
    reason = _reason(fields, optional).alias("reason")
    return read.select(reason, *(column_of(name) for name in fields), *others)


def _text() -> Column:
    """Return the JSON of a value: the serializers of schema registries put a zero and four bytes of an id in front."""
    return F.expr("CASE WHEN startswith(__value, X'00') THEN substring(__value, 6) ELSE __value END").cast("string")


def _read_as(of_type: ColumnType) -> str:
    # Read as a string, a text is no other than a number, and a decimal has no more digits than a double.
    return "variant" if of_type is Text or isinstance(of_type, Decimal) else "string"


def _found(name: str, of_type: ColumnType) -> tuple[Column, Column]:
    """Return what stands in a record for a field: whether it is there and not null, and its text, if it may be one."""
    in_plain, read, is_plain = _in_plain(name, of_type), _as_read(name, of_type), F.col("__plain")
    return (
        F.when(is_plain, in_plain[0]).otherwise(read[0]).alias(f"__there_{name}"),
        F.when(is_plain, in_plain[1]).otherwise(read[1]).alias(f"__text_{name}"),
    )


def _token(name: str) -> Column:
    """Return what stands for a field in the text of a plain object, empty where it is missing."""
    # Of a field that occurs twice the last counts: all before it is taken first. No string has a quote in it.
    token = F.regexp_extract("__text", rf'(?s)^.*"{name}"{SPACE}:{SPACE}("[^"]*+"|[^ \t\r\n,}}]++)', 1)
    return F.when(F.col("__plain"), token)


def _in_plain(name: str, of_type: ColumnType) -> tuple[Column, Column]:
    token = F.col(f"__token_{name}")
    unquoted = F.substring(token, F.lit(2), F.length(token) - 2)
    text = F.when(token.startswith('"'), unquoted)
    return ~token.isin("", "null"), (text if of_type is Text else text.otherwise(token))


def _as_read(name: str, of_type: ColumnType) -> tuple[Column, Column]:
    field = F.col("__event").getField(name)
    # What the reader cannot make a variant of, as half of a surrogate pair, is there and is no text.
    is_corrupt = F.col("__event").getField(_CORRUPT).isNotNull()
    is_there = field.isNotNull() | (is_corrupt & F.expr(f"{as_map('__text')}['{name}']").isNotNull())
    if _read_as(of_type) == "string":
        return F.coalesce(is_there, F.lit(False)), field
    text = F.try_variant_get(field, "$", "string")
    if of_type is Text:
        text = F.when(F.schema_of_variant(field) == "STRING", text)
    else:
        # With an exponent, or more digits than a decimal has.
        text = F.when(F.schema_of_variant(field) != "DOUBLE", text)
    return F.coalesce(is_there & ~F.is_variant_null(field), F.lit(False)), text


def _value(name: str, of_type: ColumnType) -> Column:
    text = F.col(f"__text_{name}")
    if isinstance(of_type, Decimal):
        return casts.decimal(text, of_type.digits)
    return _CASTS[of_type](text)


def _itself(text: Column) -> Column:
    return text


_CASTS: Final[Mapping[ColumnType, Callable[[Column], Column]]] = {
    Text: _itself,
    Int64: casts.integer,
    Double: casts.finite,
    Boolean: casts.boolean,
    Timestamp: casts.timestamp,
}


def _reason(fields: Mapping[str, ColumnType], optional: Collection[str]) -> Column:
    text, is_read = F.col("__text"), ~F.col("__plain")
    is_corrupt = F.col("__event").getField(_CORRUPT).isNotNull()
    is_cut = is_corrupt & F.expr(f"{as_map('__text')} IS NULL")
    reason = (
        F.when(F.col("__reason").isNotNull(), F.col("__reason"))
        .when(text.isNull() | (text == ""), NO_VALUE)
        .when(~F.is_valid_utf8(text), NOT_UTF8)
        .when(is_read & ~F.expr(is_one_object("__text")), NOT_JSON_OBJECT)
        .when(is_read & is_cut, NOT_JSON_OBJECT)
    )
    for name, of_type in fields.items():
        is_wrong = F.col(column_of(name)).isNull()
        if name in optional:
            is_wrong &= F.col(f"__there_{name}")
        reason = reason.when(is_wrong, reason_of(name, of_type, may_be_missing=name in optional))
    # Of a field that occurs twice one is no text, and the other one is what was read.
    return reason.when(is_read & is_corrupt, NOT_JSON_OBJECT)


def reason_of(name: str, of_type: ColumnType, *, may_be_missing: bool) -> str:
    """Return why a record cannot be used whose field is none of its type."""
    return f"{name} is no {of_type.wanted}" if may_be_missing else f"{name} is missing or no {of_type.wanted}"

"""Records of a table's topic: the key's text, and a JSON object with the fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.declaration import Table
from runtime.errors import InvalidRecord
from runtime.keys import KeyValue
from runtime.records import LARGEST_BYTES, NO_KEY, TOO_LARGE, json_object, text_of


def parse_row(table: Table, key: bytes | None, value: bytes | None) -> tuple[KeyValue, Mapping[str, Any] | None]:
    """Return the key of a table's record, and its row, the declared fields by name, or None for a delete.

    Raises:
        InvalidRecord: the key is none of its type, the value is no such object, or the two disagree.
    """
    if key is None:
        raise InvalidRecord(NO_KEY)
    if len(key) > LARGEST_BYTES or len(value or b"") > LARGEST_BYTES:
        raise InvalidRecord(TOO_LARGE)
    row_key = table.key.type.parse(text_of(key))
    if value is None:
        return row_key, None
    fields = json_object(value, exact=True)
    if table.key_field is not None:
        claimed = fields.get(table.key_field)
        # Nearly all have the key as it is. A text may be the key as well, and 7.0 and true are not, which equal it.
        is_key = type(claimed) is type(row_key) and claimed == row_key
        if not is_key and (isinstance(claimed, bool) or str(claimed) != table.key.type.text(row_key)):
            raise InvalidRecord(
                f"{table.key_field} is missing or not the key", f"{claimed!r:.40} under the key {row_key}"
            )
    row: dict[str, Any] = {}
    for name, of_type in table.fields.items():
        try:
            row[name] = of_type.check(fields.get(name))
        except (TypeError, ValueError, ArithmeticError) as error:
            raise InvalidRecord(f"{name} is missing or no {of_type.wanted}", error) from error
    return row_key, row

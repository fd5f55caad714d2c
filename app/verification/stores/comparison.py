"""Rows as they have to be beside rows as they are served: pure functions, and what they find."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from runtime.declaration import Store
from runtime.errors import InvalidRecord
from runtime.records import json_bytes
from runtime.types import Double
from runtime.values import Fields
from runtime.values.of_columns import OfColumn
from runtime.windows import WINDOW_END, WINDOW_START, ms_of

_NEAR: Final = 1e-9

Rows = Sequence[Any]
"""What is served of a store, ascending by key, as JSON says it; a number with a point is a `decimal.Decimal`."""


class ServedStore(NamedTuple):
    """What one instance serves of a store.

    Attributes:
        url: whom it was asked of.
        body: as it came.
        rows: what the body says.
        counted: what the route of the count says.
    """

    url: str
    body: bytes
    rows: Rows
    counted: int


class Difference(NamedTuple):
    """Something that is served and should not be, or the other way round.

    Attributes:
        url: who serves it.
        store: of which store.
        key: of the row; None when it is about the whole answer.
        what: one line.
        expected: the row as it has to be, None when there is none.
        served: the row as it is, None when there is none.
    """

    url: str
    store: str
    key: Any
    what: str
    expected: Any = None
    served: Any = None


class Comparison(NamedTuple):
    """What one look at a store has found.

    Attributes:
        rows: how many are expected or served.
        differences: what differs, by what it is about; the same thing has the same key in every look.
        unproved: served rows that say something else than the records of the source do, where records are gone.
    """

    rows: int
    differences: dict[tuple[str, str, str], Difference]
    unproved: int


def compare(
    store: Store,
    expected: Rows,
    answers: Sequence[ServedStore],
    *,
    events_lost: bool,
    stream_ms: int | None = None,
) -> Comparison:
    """Compare what is served of a store with what has to be.

    Args:
        store: what it is declared as.
        expected: the rows of the records that the source has.
        answers: of one or more instances; all have to be the same bytes.
        events_lost: whether the source has not every record that there ever was. Then a row may say more than expected,
            and more rows may be there.
        stream_ms: the stream time of a store with windows: those that are kept no longer by then may be there yet, with
            less than the records say, and are not compared.
    """
    differences: dict[tuple[str, str, str], Difference] = {}
    unproved = 0
    every: set[str] = set()
    for served in answers:
        kept = [row for row in served.rows if _is_kept(store, row, stream_ms)]
        has_keys = all(isinstance(row, dict) and _keys_of(store) <= row.keys() for row in (*expected, *kept))
        wanted, found = (_by_key(store, rows, has_keys=has_keys) for rows in (expected, kept))
        every |= wanted.keys() | found.keys()
        for key in wanted.keys() | found.keys():
            right, row = wanted.get(key), found.get(key)
            if row is not None and _agree(store, right, row):
                continue
            if events_lost and _may_be(store, right, row):
                unproved += served is answers[0]
            else:
                differences[served.url, store.name, key] = Difference(
                    served.url, store.name, json.loads(key), _what(right, row), right, row
                )
        differences |= _of_whole(store, served, answers[0])
    return Comparison(len(every), differences, unproved)


def _by_key(store: Store, rows: Rows, *, has_keys: bool) -> Mapping[str, Any]:
    """Return rows by the text of their key, or by their place where `show` leaves the key out."""
    return {_text(_key_of(store, row) if has_keys else place): row for place, row in enumerate(rows)}


def _keys_of(store: Store) -> set[str]:
    names = {column.name for column in store.key.columns}
    return names if store.window is None else {*names, WINDOW_START}


def _key_of(store: Store, row: Mapping[str, Any]) -> Any:
    parts = [row[column.name] for column in store.key.columns]
    if store.window is not None:
        parts.append(row[WINDOW_START])
    return parts[0] if len(parts) == 1 else parts


def _is_kept(store: Store, row: Any, stream_ms: int | None) -> bool:
    """Return whether the window of a row is kept yet; also where the row does not say of which window it is."""
    if store.window is None or stream_ms is None or not isinstance(row, dict) or WINDOW_END not in row:
        return True
    return ms_of(row[WINDOW_END]) + store.window.keep_ms > stream_ms


def _agree(store: Store, expected: Any, served: Any) -> bool:
    """Return whether two rows say the same: doubles that were added up in another order as nearly as such sums do."""
    if isinstance(expected, dict) and isinstance(served, dict):
        return list(expected) == list(served) and all(_agree(store, expected[name], served[name]) for name in expected)
    if isinstance(expected, Decimal) and isinstance(served, Decimal) and _adds_doubles(store):
        return math.isclose(expected, served, rel_tol=_NEAR)
    return _text(expected) == _text(served)


def _adds_doubles(store: Store) -> bool:
    record = store.record
    every = record.values.values() if isinstance(record, Fields) else ()
    return any(isinstance(value, OfColumn) and not value.lattice and value.of_type is Double for value in every)


def _may_be(store: Store, expected: Any, served: Any) -> bool:
    """Return whether a row may come of the records that are there and of others that are not."""
    if store.show is not None:
        # What is shown of more than is there may be anything, or nothing.
        return True
    if served is None:
        return False
    if expected is None or not store.record.lattice:
        return True
    try:
        least, held = (store.record.parse(_text(_values(store, row)).encode()) for row in (expected, served))
    except InvalidRecord:
        # Rows that do not say all that their records do, such as when the latest came.
        return True
    return bool(store.record.merge(least, held) == held)


def _values(store: Store, row: Any) -> dict[str, Any]:
    beside = _keys_of(store) | ({WINDOW_END} if store.window is not None else set())
    return {name: value for name, value in row.items() if name not in beside}


def _of_whole(store: Store, served: ServedStore, first: ServedStore) -> dict[tuple[str, str, str], Difference]:
    """Return what is wrong with an answer as a whole."""
    found: dict[tuple[str, str, str], Difference] = {}
    if served.counted != len(served.rows):
        what = f"the count is {served.counted}, and {len(served.rows)} rows are served"
        found[served.url, store.name, "count"] = Difference(served.url, store.name, None, what)
    if served.body != first.body:
        what = f"the answer is not the bytes that {first.url} answers with"
        found[served.url, store.name, "bytes"] = Difference(served.url, store.name, None, what)
    return found


def _what(expected: Any, served: Any) -> str:
    if served is None:
        return "is not served"
    return "differs" if expected is not None else "is served, and should not be"


def _text(row: Any) -> str:
    return json_bytes(row).decode()

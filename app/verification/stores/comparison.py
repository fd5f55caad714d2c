"""Rows as they have to be beside rows as they are served: pure functions, and what they find."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from runtime.declaration import Store
from runtime.errors import InvalidRecord
from runtime.keys import KeyValue
from runtime.records import json_bytes
from runtime.types import Double
from runtime.values import Count, Fields, Max, Min, Sum
from runtime.values.of_columns import OfColumn
from runtime.windows import WINDOW_END, WINDOW_START, Session, ms_of, time_text

_NEAR: Final = 1e-9
"""How far doubles that were added up may be apart: this share of the larger one, or as much as this.

Where addends cancel out, what is left is smaller than the errors of the steps, each of 2**-53 of a sum on the way: no
share of it is near enough, `0.0` beside `5.5e-17`. The row does not say how large the addends were. A billionth comes
of ten thousand steps at sums of a thousand. Sums that are all smaller than that agree whatever they are.
"""

Rows = Sequence[Any]
"""What is served of a store, ascending by key, as JSON says it; a number with a point is a `decimal.Decimal`."""

Sessions = Mapping[KeyValue, Sequence[tuple[int, int]]]
"""When sessions begin and end, in milliseconds from 1970, by the key of the store."""


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
        late: rows that are missing or say less than the records do, as they would where some came too late, or as long
            as the stream has not come to them; by what they are about, as differences.
        explained: what one record can explain that came too late, for each of these rows: all rows of a session that
            the records make; the row of a join whose key is what is joined on, and all rows of another join.
    """

    rows: int
    differences: dict[tuple[str, str, str], Difference]
    unproved: int
    late: dict[tuple[str, str, str], Difference]
    explained: Mapping[tuple[str, str, str], Hashable] = MappingProxyType({})

    def proved_by(self, late_records: int) -> Comparison:
        """Return this with the rows that say less as differences, where fewer records came too late than they lack.

        Args:
            late_records: how many have.
        """
        if len({self.explained[about] for about in self.late}) <= late_records:
            return self
        return self._replace(differences={**self.differences, **self.late}, late={})

    @property
    def late_rows(self) -> int:
        """How many rows are late, at one instance or at several."""
        return len({key for _, _, key in self.late})

    def still(self, before: Comparison) -> Comparison:
        """Return this look without what agreed in the one before: what agreed once is right."""
        differed = before.differences.keys() | before.late.keys()
        differences, late = (
            {about: each for about, each in found.items() if about in differed}
            for found in (self.differences, self.late)
        )
        return self._replace(differences=differences, late=late)


def compare(
    store: Store,
    expected: Rows,
    answers: Sequence[ServedStore],
    *,
    events_lost: bool,
    stream_ms: int | None = None,
    sessions: Sessions | None = None,
    joined_on: str | None = None,
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
        sessions: of a store with sessions all that the records make, those that have not ended as well.
        joined_on: the column that two streams are joined on, where they are.
    """
    is_of_one_row = store.rows is None and store.key.name == joined_on
    differences: dict[tuple[str, str, str], Difference] = {}
    late: dict[tuple[str, str, str], Difference] = {}
    explained: dict[tuple[str, str, str], Hashable] = {}
    unproved = 0
    every: set[str] = set()
    for served in answers:
        kept = [row for row in served.rows if _is_kept(store, row, stream_ms)]
        has_keys = all(isinstance(row, dict) and _keys_of(store) <= row.keys() for row in (*expected, *kept))
        wanted, found = (_by_key(store, rows, has_keys=has_keys) for rows in (expected, kept))
        if isinstance(store.window, Session) and store.show is None and has_keys:
            found = _as_whole(store, wanted, found)
        every |= wanted.keys() | found.keys()
        for key in wanted.keys() | found.keys():
            right, row = wanted.get(key), found.get(key)
            if row is not None and _agree(store, right, row):
                continue
            if events_lost and _may_be(store, right, row):
                unproved += served is answers[0]
                continue
            about = served.url, store.name, key
            span = _span_of(store, right if row is None else row, sessions or {})
            may_lack = _may_lack(store, right, row, span, wanted)
            found_in = late if may_lack else differences
            found_in[about] = Difference(served.url, store.name, json.loads(key), _what(right, row), right, row)
            if may_lack:
                explained[about] = key if is_of_one_row else span
        differences |= _of_whole(store, served, answers[0])
    return Comparison(len(every), differences, unproved, late, explained)


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
    near = _sums_of_doubles(store)
    if store.show is not None or not (isinstance(expected, dict) and isinstance(served, dict)):
        # What `show` has made of which value, its names do not tell.
        return _same(expected, served, near=bool(near))
    return list(expected) == list(served) and all(
        _same(expected[name], served[name], near=name in near) for name in expected
    )


def _same(expected: Any, served: Any, *, near: bool) -> bool:
    if isinstance(expected, dict) and isinstance(served, dict):
        return list(expected) == list(served) and all(
            _same(expected[name], served[name], near=near) for name in expected
        )
    if near and isinstance(expected, Decimal) and isinstance(served, Decimal):
        return math.isclose(expected, served, rel_tol=_NEAR, abs_tol=_NEAR)
    return _text(expected) == _text(served)


def _sums_of_doubles(store: Store) -> set[str]:
    """Return the values that depend on the order in which doubles were added up."""
    record = store.record
    every = record.values if isinstance(record, Fields) else {}
    return {
        name
        for name, value in every.items()
        if isinstance(value, OfColumn) and not value.lattice and value.of_type is Double
    }


def _as_whole(store: Store, expected: Mapping[str, Any], served: Mapping[str, Any]) -> dict[str, Any]:
    """Return rows by the text of their key; the parts of an expected session as that one, where they are all of it.

    An event that comes in time, but when the row of its session is there already, begins a session of its own: the
    rows of the two lie one over the other.
    """
    rows = dict(served)
    name = store.key.name
    parts: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for key, row in served.items():
        parts[_text(row[name])][key] = row
    for key, whole in expected.items():
        if rows.get(key) == whole:
            continue
        inside = {
            of: row
            for of, row in parts[_text(whole[name])].items()
            if list(row) == list(whole)
            and whole[WINDOW_START] <= row[WINDOW_START]
            and row[WINDOW_END] <= whole[WINDOW_END]
        }
        if len(inside) > 1 and _add_up(store, whole, sorted(inside.values(), key=itemgetter(WINDOW_START))):
            rows = {**{of: row for of, row in rows.items() if of not in inside}, key: whole}
    return rows


def _add_up(store: Store, whole: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether sessions, by their begin, lie one over the next and have all that a whole one has.

    Counts and sums tell, and the least and the greatest; other values do not say of what they are.
    """
    over = all(later[WINDOW_START] <= earlier[WINDOW_END] for earlier, later in pairwise(parts))
    near = _sums_of_doubles(store)
    values = store.values if isinstance(store.values, Mapping) else {}
    together: Mapping[type, Callable[[Sequence[Any]], Any]] = {Count: sum, Sum: sum, Min: min, Max: max}
    return (
        over
        and parts[0][WINDOW_START] == whole[WINDOW_START]
        and max(part[WINDOW_END] for part in parts) == whole[WINDOW_END]
        and all(
            _same(whole[name], together[type(value)](there), near=name in near)
            for name, value in values.items()
            if type(value) in together and (there := [part[name] for part in parts if part[name] is not None])
        )
    )


def _may_be(store: Store, expected: Any, served: Any) -> bool:
    """Return whether a row may come of the records that are there and of others that are not."""
    if store.show is not None:
        # What is shown of more than is there may be anything, or nothing.
        return True
    if served is None:
        return False
    return expected is None or _holds(store, served, expected)


class _Span(NamedTuple):
    """A session that the records make, ended or not: of which key, and from when to when, in milliseconds from 1970."""

    of: KeyValue
    begin_ms: int
    end_ms: int


def _span_of(store: Store, row: Any, sessions: Sessions) -> _Span | None:
    """Return the session that the session of a row lies in; None where it lies in none, or there are none."""
    if not isinstance(row, dict) or not {*_keys_of(store), WINDOW_END} <= row.keys():
        return None
    of, begin_ms, end_ms = row[store.key.name], ms_of(row[WINDOW_START]), ms_of(row[WINDOW_END])
    spans = (_Span(of, *span) for span in sessions.get(of, ()))
    return next((span for span in spans if span.begin_ms <= begin_ms and end_ms <= span.end_ms), None)


def _may_lack(store: Store, expected: Any, served: Any, span: _Span | None, every: Mapping[str, Any]) -> bool:
    """Return whether a row may be what it is since records came too late for it.

    A join leaves such records out. Sessions leave them out, or begin another session with them, which lies in the one
    that all records make. Which records those were, no topic tells: it depends on what the stream had read before. So
    also a row that is missing may be one of theirs.

    Args:
        store: of which the row is.
        expected: the row of its key as it has to be.
        served: the row as it is.
        span: the session that it lies in.
        every: all rows as they have to be, by the text of their key.
    """
    if not store.final:
        return False
    if served is None or store.show is not None:
        return True
    if isinstance(store.window, Session):
        if span is None:
            return False
        # A session that has not ended is no row yet: how much there is of it nobody says here.
        whole = every.get(_text(_key_of(store, {store.key.name: span.of, WINDOW_START: time_text(span.begin_ms)})))
        return whole is None or not _counts_more(store, served, whole)
    return expected is not None and _holds(store, expected, served)


def _counts_more(store: Store, row: Mapping[str, Any], than: Mapping[str, Any]) -> bool:
    """Return whether a row counts more events than another one; what it adds up beside them may be below zero."""
    values = store.values if isinstance(store.values, Mapping) else {}
    return any(value == Count() and row.get(name, 0) > than[name] for name, value in values.items())


def _holds(store: Store, most: Any, least: Any) -> bool:
    """Return whether a row may be of all that another one is of, and of more; of what adds up nobody can tell."""
    if not store.record.lattice:
        return True
    try:
        held, part = (store.record.parse(_text(_values(store, row)).encode()) for row in (most, least))
    except InvalidRecord:
        # Rows that do not say all that their records do, such as when the latest came.
        return True
    return bool(store.record.merge(part, held) == held)


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

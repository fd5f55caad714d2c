"""Periods: days, weeks and months in UTC, each with a board of its own.

A period is a text, its name and the day that it begins with: `day/2026-11-25`, `week/2026-11-23` (a Monday),
`month/2026-11-01`. Those of one name are in order of time. In which periods an instant lies is spelled here three
times, for Spark, for Arrow and for Python, and tests hold them to each other.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from runtime.lapsing import Lapsing
from runtime.types import FIRST_MS, LAST_MS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

DAY: Final = "day"
WEEK: Final = "week"
MONTH: Final = "month"
NAMES: Final = (DAY, WEEK, MONTH)
ALL: Final = "all"
"""The period that is all time, its name and its text: the board that a product has in any case."""
KEPT: Final[Mapping[str, int]] = {DAY: 8, WEEK: 5, MONTH: 13}
"""How many past ones of each stay."""
KEPT_MOST: Final = 1_000

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DAY_MS: Final = 86_400_000
_EPOCH: Final = date(1970, 1, 1)
_THURSDAY: Final = 3
"""The day of the week of 1970-01-01; weeks begin on Monday, 0."""
_MONTH_DAYS_MOST: Final = 31
_MADE_BEFORE: Final = 500
_MADE_BEHIND: Final = 100
"""Of so many days before today and from today on, Spark looks texts up; of others it writes them."""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def date_of(at_ms: int) -> date:
    """Return the day in UTC that an instant lies in.

    Args:
        at_ms: in milliseconds from 1970, of the years 1 to 9999.
    """
    return _EPOCH + timedelta(days=at_ms // _DAY_MS)


def begin_of(name: str, day: date) -> date:
    """Return the first day of the period of a name that a day lies in.

    >>> begin_of(WEEK, date(2026, 11, 25)), begin_of(MONTH, date(2024, 2, 29))
    (datetime.date(2026, 11, 23), datetime.date(2024, 2, 1))
    """
    if name == WEEK:
        # The year 1 begins on a Monday, so that no week begins before it.
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if name == MONTH else day


def period_of(name: str, day: date) -> str:
    """Return the period of a name that a day lies in.

    >>> period_of(DAY, date(2026, 11, 25))
    'day/2026-11-25'
    """
    return f"{name}/{begin_of(name, day).isoformat()}"


def before(name: str, day: date, count: int) -> date:
    """Return the first day of the period that comes so many before the one that a day lies in; never before the year 1.

    >>> before(MONTH, date(2026, 1, 31), 13), before(WEEK, date(2026, 11, 25), 1)
    (datetime.date(2024, 12, 1), datetime.date(2026, 11, 16))
    """
    begin = begin_of(name, day)
    if name == MONTH:
        months = max(begin.year * 12 + begin.month - 1 - count, 12)
        return date(months // 12, months % 12 + 1, 1)
    days = count * (7 if name == WEEK else 1)
    return date.fromordinal(max(begin.toordinal() - days, 1))


@dataclass(frozen=True)
class Periods:
    """Which periods have boards, and for how long.

    Attributes:
        names: those of `NAMES` that have.
        kept: how many past ones of each stay readable beside the one that runs.
        now_ms: wall-clock time in milliseconds from 1970.
    """

    names: Sequence[str] = NAMES
    kept: Mapping[str, int] = field(default_factory=lambda: KEPT)
    now_ms: Callable[[], int] = _now_ms

    def running(self, name: str) -> str:
        """Return the period of a name that runs now."""
        return period_of(name, date_of(self.now_ms()))

    def first_kept(self, name: str, ago_ms: int = 0) -> str:
        """Return the oldest period of a name that is kept, or was some time ago."""
        return period_of(name, before(name, date_of(self.now_ms() - ago_ms), self.kept[name]))

    def cutoffs(self, ago_ms: int = 0) -> dict[str, str]:
        """Return the oldest period that is kept, or was some time ago, by name."""
        return {name: self.first_kept(name, ago_ms) for name in self.names}

    def _passed(self) -> list[tuple[str, str]]:
        # Of names that had boards once as well: theirs are no longer written to, and have to go all the same.
        return [(f"{name}/", self.first_kept(name)) for name in sorted(NAMES)]

    @property
    def lapsing(self) -> Lapsing:
        """What the clock says of periods: which run, and which have passed."""
        return Lapsing({name: partial(self.running, name) for name in self.names}, self._passed)

    @property
    def settings(self) -> dict[str, str]:
        """The settings that say this."""
        names = [name for name in NAMES if name in self.names]
        kept = ",".join(f"{name}={self.kept[name]}" for name in names)
        return {"PERIODS": ",".join((ALL, *names)), "PERIODS_KEPT": kept}


# Spark


def periods_of(at_ms: Column, cutoffs: Mapping[str, str], today: date = _EPOCH) -> dict[str, Column]:
    """Return the period of each name that an instant lies in; null in years before 1 and after 9999, but for all time.

    Args:
        at_ms: in milliseconds from 1970.
        cutoffs: the oldest one that counts, by name; null in those before it.
        today: of days around it the texts are made ahead: to write them for each of many events takes Spark longer than
            all else that is done with it.
    """
    return {name: _text_of(name, day_of(at_ms), cutoff, today) for name, cutoff in cutoffs.items()}


def places_of(days: Column, cutoffs: Mapping[str, str], today: date) -> dict[str, Column]:
    """Return in which of the periods that count, up to today's, a day lies, by name: 0 is the oldest; null for none.

    Args:
        days: since 1970.
        cutoffs: the oldest one that counts, by name.
        today: in the newest ones.
    """
    from pyspark.sql import functions as F

    places = {}
    for name, cutoff in cutoffs.items():
        if name == ALL:
            places[name] = F.lit(0)
            continue
        first, numbers = _numbers(name, cutoff, today)
        listed = F.split(F.lit(",".join(map(str, numbers))), ",").cast("array<int>")
        places[name] = F.get(listed, days - first)
    return places


def _numbers(name: str, cutoff: str, today: date) -> tuple[int, list[int]]:
    """Return the first day that counts, since 1970, and for each up to the end of today's period its number."""
    first, running = date.fromisoformat(cutoff.removeprefix(f"{name}/")), period_of(name, today)
    days = (first + timedelta(days=number) for number in range((today - first).days + _MONTH_DAYS_MOST))
    texts = [text for text in (period_of(name, day) for day in days) if text <= running]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return (first - _EPOCH).days, [numbers[text] for text in texts]


def day_of(at_ms: Column) -> Column:
    """Return the day since 1970 that an instant lies in, null in years before 1 and after 9999."""
    from pyspark.sql import functions as F

    return F.when(at_ms.between(FIRST_MS, LAST_MS), F.floor(at_ms / F.lit(_DAY_MS)).cast("int"))


def _text_of(name: str, days: Column, cutoff: str, today: date) -> Column:
    """Return the period of a name that a day since 1970 lies in, null before the oldest one that counts."""
    from pyspark.sql import functions as F

    if name == ALL:
        return F.lit(ALL)
    around = [today + timedelta(days=each) for each in range(-_MADE_BEFORE, _MADE_BEHIND)]
    made = [period_of(name, day) for day in around]
    counting = [text if text >= cutoff else "" for text in made]
    first = (around[0] - _EPOCH).days
    # Spark makes a constant of it before a query runs.
    listed = F.split(F.lit(",".join(counting)), ",")
    day = F.date_from_unix_date(days)
    begins = {
        DAY: day,
        WEEK: F.date_from_unix_date((days - F.pmod(days + _THURSDAY, F.lit(7))).cast("int")),
        MONTH: F.trunc(day, "month"),
    }
    text = F.concat(F.lit(f"{name}/"), begins[name].cast("string"))
    is_made = days.between(first, first + len(around) - 1)
    return F.when(is_made, F.nullif(F.get(listed, days - first), F.lit(""))).when(text >= cutoff, text)


def by_period(events: pa.Table, cutoffs: Mapping[str, str]) -> pa.Table:
    """Return events once for each of their periods, in a further column `period string`; as `periods_of` has them.

    Args:
        events: with `at_ms bigint`.
        cutoffs: the oldest period that counts, by name.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    at_ms = events["at_ms"]
    dated = events.filter(pc.and_(pc.greater_equal(at_ms, FIRST_MS), pc.less_equal(at_ms, LAST_MS)))
    # Rounded down, as a division of integers is not where they are below zero.
    days = pc.floor(pc.divide(dated["at_ms"].cast(pa.float64()), float(_DAY_MS))).cast(pa.int64())
    there = pc.unique(days)
    place = pc.index_in(days, there)
    of_each = []
    for name, first in cutoffs.items():
        if name == ALL:
            of_each.append(events.append_column("period", pa.repeat(ALL, events.num_rows)))
            continue
        texts = (period_of(name, _EPOCH + timedelta(days=day)) for day in there.to_pylist())
        kept = pa.array([text if text >= first else None for text in texts], pa.string())
        named = dated.append_column("period", kept.take(place))
        of_each.append(named.filter(pc.is_valid(named["period"])))
    return pa.concat_tables(of_each)


def is_kept(period: Column, cutoffs: Mapping[str, str]) -> Column:
    """Return whether a period counts; see `periods_of`."""
    from pyspark.sql import functions as F

    kept = F.lit(False)
    for name, first in cutoffs.items():
        kept = kept | (is_called(period, name) & (period >= first))
    return kept


def is_called(period: Column, name: str) -> Column:
    """Return whether a period is one of this name."""
    return period == ALL if name == ALL else period.startswith(f"{name}/")


def parse_day(text: str) -> date:
    """Return the day that `YYYY-MM-DD` is; raises ValueError when the text is none."""
    if _DATE.fullmatch(text) is None:
        # `strptime` takes fewer digits, blanks, and digits of any script.
        raise ValueError(text)
    return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).date()


def parse_names(text: str) -> tuple[str, ...]:
    """Return the periods beside all time that a setting turns on, in the order of `NAMES`.

    >>> parse_names("all,week,day"), parse_names("all")
    (('day', 'week'), ())

    Raises:
        ValueError: it names another one, one twice, or not all time.
    """
    given = [each.strip() for each in text.split(",")]
    if ALL not in given or len(set(given)) < len(given) or not set(given) <= {ALL, *NAMES}:
        raise ValueError(text)
    return tuple(name for name in NAMES if name in given)


def parse_kept(text: str) -> dict[str, int]:
    """Return how many past ones of each period a setting keeps; those that it does not name as by default.

    >>> parse_kept("day=31")
    {'day': 31, 'week': 5, 'month': 13}

    Raises:
        ValueError: it is no such list, or a number is below 1 or above 1000.
    """
    pairs = [each.strip().split("=") for each in text.split(",")]
    named = {name: int(count) for name, count in pairs}
    if len(named) < len(pairs) or not set(named) <= set(NAMES):
        raise ValueError(text)
    if not all(1 <= count <= KEPT_MOST for count in named.values()):
        raise ValueError(text)
    return {**KEPT, **named}

"""Which boards a request asks for: those of all time, or those of a day, a week or a month."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from functools import lru_cache
from typing import Annotated, Any, Final, NamedTuple

from fastapi import Depends, Query, Request
from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from api.http.answers import is_hop
from api.leaderboard.problems import NoSuchBoard, NoSuchPeriodBoard, PeriodHasPassed, PeriodsAreOff
from api.live.event_stream import Words
from api.live.feeds import Feeds, Scope
from api.reads.demand import ANY, Demand, MaxLag, MinPosition, Require
from api.reads.framing import Rows
from api.reads.gather import Gather
from api.reads.one_row import OneRow
from api.serving import ServedParts, ServedStore, Serving
from runtime.errors import Fix
from runtime.keys import KeyPair, KeyValue
from topology.leaderboard.board import PERIOD_STORE, STORE
from topology.leaderboard.periods import ALL, NAMES, parse_day, period_of

BOARDS_PATH: Final = "/leaderboard"
"""What the paths of these routes begin with. The page, the demo and the verification have it in their own words."""
BOARD_PATH: Final = f"{BOARDS_PATH}/{{productId}}"
NO_PERIOD: Final = {"description": "The boards of the period are kept no longer, or there are none of such periods"}
_GATHERS_KEPT: Final = 64


def _name(text: Any) -> str:
    if text not in (ALL, *NAMES):
        raise PydanticCustomError("period", "it is one of {names}", {"names": ", ".join((ALL, *NAMES))})
    return str(text)


def _day(text: Any) -> date:
    try:
        if not isinstance(text, str):
            raise ValueError(text)
        return parse_day(text)
    except ValueError as error:
        raise PydanticCustomError("date", "it is no date such as 2026-11-25") from error


PeriodName = Annotated[
    str,
    BeforeValidator(_name),
    WithJsonSchema({"type": "string", "enum": [ALL, *NAMES]}),
    Query(description="the boards of which time, in UTC; a week begins on Monday. All time when left out"),
]
At = Annotated[
    date | None,
    BeforeValidator(_day),
    WithJsonSchema({"type": "string", "format": "date"}),
    Query(description="a day of the period; today, in UTC, when left out", examples=["2026-11-25"]),
]


class Asked(NamedTuple):
    """Which boards, and what the copies have to be like.

    Attributes:
        name: of the period; `ALL` for all time.
        period: see `topology.leaderboard.periods`; empty for all time.
        runs: whether the one that runs now is asked for, whichever that is.
        demand: what the copies have to be like.
    """

    name: str
    period: str
    runs: bool
    demand: Demand

    @property
    def day(self) -> str:
        """The day that the period begins with; empty for all time."""
        return self.period.partition("/")[2]


class BoardAnswers:
    """What answers for boards, of whichever period.

    Args:
        serving: what the application answers from.
        compose: makes one body of boards, in the order of their products.
        words: what live updates call things.

    Attributes:
        board: answers for one board of all time.
        demanded: reads from a request which boards are asked for, for FastAPI.
        named: the same without what copies have to be like.
    """

    def __init__(self, serving: Serving, compose: Callable[[Rows], bytes], words: Words) -> None:
        self._served = serving.stores[STORE]
        self.board: OneRow = self._served.one_row(BOARD_PATH, NoSuchBoard)
        self._gather_of_all_time = self._served.gather(compose)
        self._feeds = self._served.feeds(words)
        self._periods = _OfPeriods(serving, compose, words) if PERIOD_STORE in serving.parts else None
        self.demanded, self.named = Depends(self._asked), Depends(self._named)

    async def _asked(
        self,
        request: Request,
        period: PeriodName = ALL,
        at: At = None,
        min_position: MinPosition = None,
        require: Require = None,
        max_lag: MaxLag = None,
    ) -> Asked:
        asked = await self._named(request, period, at)
        store = PERIOD_STORE if asked.period else STORE
        return asked._replace(demand=Demand.of(store, min_position, require, max_lag))

    async def _named(self, request: Request, period: PeriodName = ALL, at: At = None) -> Asked:
        return Asked(period, self._text_of(request, period, at), at is None, ANY)

    def _text_of(self, request: Request, name: str, at: date | None) -> str:
        if name == ALL:
            return ""
        of = self._of_period(name)
        period = of.runs(name) if at is None else period_of(name, at)
        # Only the instance that was asked looks: the clock of the one that it forwards to may differ.
        if not is_hop(request.scope["headers"]):
            of.check_kept(period)
        return period

    def one(self, asked: Asked, product_id: int) -> tuple[OneRow, KeyValue]:
        """Return what answers for the board of a product, and the key that it is asked for by."""
        if not asked.period:
            return self.board, product_id
        return self._of_period(asked.name).board, KeyPair(product_id, asked.period)

    def gather(self, asked: Asked) -> Gather:
        """Return what answers for many boards."""
        return self._of_period(asked.name).gather(asked.period) if asked.period else self._gather_of_all_time

    def feeds_of_one(self, asked: Asked, product_id: int, limit: int | None) -> tuple[Feeds, Scope]:
        """Return what live updates of the board of a product come from."""
        if not asked.period:
            return self._feeds, Scope(limit, product_id)
        of = self._of_period(asked.name)
        if asked.runs:
            return of.running[asked.name], Scope(limit, product_id)
        return of.feeds_of_one, Scope(limit, KeyPair(product_id, asked.period))

    def feeds(self, asked: Asked, limit: int | None) -> tuple[Feeds, Scope]:
        """Return what live updates of all boards come from."""
        if not asked.period:
            return self._feeds, Scope(limit)
        of = self._of_period(asked.name)
        return of.running[asked.name] if asked.runs else of.feeds(asked.period), Scope(limit)

    def _of_period(self, name: str) -> _OfPeriods:
        if self._periods is None or name not in self._periods.running:
            raise PeriodsAreOff(name, () if self._periods is None else self._periods.running)
        return self._periods


class _OfPeriods:
    """What answers for the boards of periods.

    Attributes:
        board: answers for the board of a product and period.
        running: live updates of the periods that run, by name.
        feeds_of_one: live updates of the board of a product and period.
        gather: returns what answers for all boards of a period.
        feeds: returns live updates of all boards of a period.
    """

    def __init__(self, serving: Serving, compose: Callable[[Rows], bytes], words: Words) -> None:
        served: ServedStore = serving.stores[PERIOD_STORE]
        lapsing = served.store.lapsing
        assert lapsing is not None, "periods lapse"
        self._lapsing = lapsing
        self._parts: ServedParts = serving.parts[PERIOD_STORE]
        self.gather = lru_cache(_GATHERS_KEPT)(lambda period: self._parts.of(period).gather(compose))
        self.feeds = lru_cache(_GATHERS_KEPT)(lambda period: self._parts.of(period).feeds(words, keeps=False))
        self.board = served.one_row(BOARD_PATH, _no_such_board, _asked_by_peers)
        self.running = {name: of.feeds(words) for name, of in self._parts.running.items()}
        self.feeds_of_one = served.feeds(words)

    def runs(self, name: str) -> str:
        """Return the period of a name that runs now."""
        return str(self._lapsing.running[name]())

    def check_kept(self, period: str) -> None:
        """Raise PeriodHasPassed when the boards of a period are not kept."""
        for begin, end in self._lapsing.passed():
            if begin <= period < end:
                raise PeriodHasPassed(period, end)


def _no_such_board(key: KeyPair) -> Fix:
    return NoSuchPeriodBoard(key.first, key.second)


def _asked_by_peers(key: KeyPair) -> tuple[str, str]:
    """Return the path that asks for a board, and the parameters beside it: the period as it is here."""
    name, _, day = key.second.partition("/")
    return f"{BOARDS_PATH}/{key.first}", f"&period={name}&at={day}"

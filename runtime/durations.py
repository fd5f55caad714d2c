"""Lengths of time as declarations write them: `5 seconds`, `1 hour`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from runtime.errors import DeclarationError

_DURATION: Final = re.compile(r"([1-9][0-9]{0,3}) (second|minute|hour|day)s?")
_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}


NO_GRACE: Final = "0 seconds"
"""What may be said where nothing is waited for; it is no length of time."""


def seconds_of(text: object) -> int | None:
    """Return how many seconds a text says, 1 to 9,999 of a unit; None when it says no length of time.

    >>> seconds_of("5 minutes"), seconds_of("1 day"), seconds_of("soon")
    (300, 86400, None)
    """
    return _seconds_of(text) if isinstance(text, str) else None


# Each row of a window asks its declaration how long it is.
@lru_cache
def _seconds_of(text: str) -> int | None:
    found = _DURATION.fullmatch(text)
    return None if found is None else int(found[1]) * _SECONDS[found[2]]


def check_lengths(said: str, of: object, names: Iterable[str]) -> None:
    """Refuse attributes that say no length of time; `grace` may be `NO_GRACE`.

    Args:
        said: how the refusal begins, such as "Session(gap='soon') has".
        of: what has the attributes.
        names: of the attributes.

    Raises:
        DeclarationError: one says none.
    """
    for name in names:
        given = getattr(of, name)
        if seconds_of(given) is None and (name, given) != ("grace", NO_GRACE):
            raise DeclarationError(
                f'{said} {name} {given!r}: give a length of time, as "5 seconds", "10 minutes" or "1 day"'
            )

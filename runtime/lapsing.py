"""Rows of stretches of time, of which some run now and others have passed, by the clock.

The stretch is the second part of the key. A window (`runtime.windows`) is of event time, and passes by the events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from runtime.keys import KeyValue

Stretch = KeyValue
"""The second part of a key."""


@dataclass(frozen=True)
class Lapsing:
    """What the clock says of the second parts of keys.

    Attributes:
        running: returns the one that runs now, by the name of its kind.
        passed: returns which of them have passed, as ranges of which the end is kept; their rows leave every copy and
            the topic. The begin of each range is always the same.
    """

    running: Mapping[str, Callable[[], Stretch]]
    passed: Callable[[], Sequence[tuple[Stretch, Stretch]]]

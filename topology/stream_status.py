"""What the stream thread says of itself: its states, their order, and a snapshot for readers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final


class StreamState(Enum):
    """The states of the stream thread.

                     ┌────────────────────── ERROR ◀─┐ (from any state but the last two)
                     ▼                               │
        CREATED ▸ STARTING ▸ CATCHING_UP ▸ RUNNING ──┤
                     ▲            ▲         ▲ │      │
                     │            │         │ ▼      │
                     └────────────┴──── REFRESHING ──┘
        any ▸ STOPPING ▸ STOPPED

    REFRESHING is the short stop between two real-time queries on one checkpoint, for newer tables and floors. It leads
    back to STARTING when a new generation begins, and to CATCHING_UP when real time has fallen behind.
    """

    CREATED = "created"
    STARTING = "starting"
    CATCHING_UP = "catching up"
    RUNNING = "running"
    REFRESHING = "refreshing"
    ERROR = "error"
    STOPPING = "stopping"
    STOPPED = "stopped"


NEXT_STATES: Final[Mapping[StreamState, frozenset[StreamState]]] = {
    StreamState.CREATED: frozenset({StreamState.STARTING, StreamState.STOPPING}),
    StreamState.STARTING: frozenset({StreamState.CATCHING_UP, StreamState.ERROR, StreamState.STOPPING}),
    StreamState.CATCHING_UP: frozenset({StreamState.RUNNING, StreamState.ERROR, StreamState.STOPPING}),
    StreamState.RUNNING: frozenset({StreamState.REFRESHING, StreamState.ERROR, StreamState.STOPPING}),
    StreamState.REFRESHING: frozenset(
        {
            StreamState.RUNNING,
            StreamState.CATCHING_UP,
            StreamState.STARTING,
            StreamState.ERROR,
            StreamState.STOPPING,
        }
    ),
    StreamState.ERROR: frozenset({StreamState.STARTING, StreamState.STOPPING}),
    StreamState.STOPPING: frozenset({StreamState.STOPPED}),
    StreamState.STOPPED: frozenset(),
}


class IllegalTransition(AssertionError):
    """The stream thread went where its diagram does not lead: a defect."""


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """What the stream thread says of itself; one immutable snapshot.

    Attributes:
        state: where it is in its diagram.
        error: why it is in ERROR, else None.
        generation: the generation that it works on, 0 before it knows.
        events: score events read since the thread started; after a failure some count again.
        invalid: those among them that could not be used.
        behind: score events that were waiting when the last batch ended.
    """

    state: StreamState = StreamState.CREATED
    error: str | None = None
    generation: int = 0
    events: int = 0
    invalid: int = 0
    behind: int = 0

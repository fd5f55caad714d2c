"""What the stream thread says of itself: its states, their order, and a snapshot for readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from aiokafka import TopicPartition

from runtime.histogram import Histogram

_BATCH_BOUNDS_S: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


_LONG_S: Final = 30.0
"""A start on a busy machine takes less."""


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
        waits_for: what has to come before it goes on, None while nothing has to.
        waits_since_s: since when, as wall-clock time in seconds.
        generation: the generation that it works on, 0 before it knows.
        events: events read since the thread started; after a failure some count again.
        invalid: those among them that could not be used.
        late: rows that came too late for their window.
        state_rows: how many rows Spark's state had when the last batch ended; None where Spark does not count them.
        behind: events that were waiting when the last batch ended.
        positions: where the next batch begins, by partition of the sources; empty before the first commit.
        batches_s: how long the batches took, in seconds.
        batch_ended_at_s: when the last one ended, as wall-clock time in seconds; None before that.
        failures: how often the stream stopped and started again, by the class of the error.
        keeps_failing: whether it has failed for minutes, not for want of Kafka, and nothing was committed in between.
        failed_at_s: when it did so last, as wall-clock time in seconds; None before that.
        dead_letters: records copied to the topic of dead letters, by topic and reason.
    """

    state: StreamState = StreamState.CREATED
    error: str | None = None
    waits_for: str | None = None
    waits_since_s: float | None = None
    generation: int = 0
    events: int = 0
    invalid: int = 0
    late: int = 0
    state_rows: int | None = 0
    behind: int = 0
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    batches_s: Histogram = field(default_factory=lambda: Histogram(_BATCH_BOUNDS_S))
    batch_ended_at_s: float | None = None
    failures: Mapping[str, int] = field(default_factory=dict)
    keeps_failing: bool = False
    failed_at_s: float | None = None
    dead_letters: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def trouble(self, now_s: float) -> str | None:
        """Return why it does not get to work: what it failed for, or has waited for long; None when all is well.

        Args:
            now_s: wall-clock time in seconds.
        """
        if self.error is not None:
            return self.error
        if self.waits_for is None or self.waits_since_s is None or now_s - self.waits_since_s < _LONG_S:
            return None
        return f"it has waited for {now_s - self.waits_since_s:.0f} s for {self.waits_for}"


_LEAST_FIRST: Final = (
    StreamState.ERROR,
    StreamState.CREATED,
    StreamState.STARTING,
    StreamState.CATCHING_UP,
    StreamState.REFRESHING,
    StreamState.RUNNING,
    StreamState.STOPPING,
    StreamState.STOPPED,
)


def combined(of_queries: Sequence[StreamStatus]) -> StreamStatus:
    """Return what the streams of several queries say, as one.

    The state is that of the query that is least far, and so are `behind` and `positions`. All queries read the same
    events: how many there were, and how many could not be used, is what the first one says.
    """
    first, *others = of_queries
    if not others:
        return first
    least = min(of_queries, key=lambda status: _LEAST_FIRST.index(status.state))
    failures: Counter[str] = Counter()
    for status in of_queries:
        failures.update(status.failures)
    known = all(status.positions for status in of_queries)
    counted = [status.state_rows for status in of_queries if status.state_rows is not None]
    return replace(
        first,
        state=least.state,
        error=least.error,
        waits_for=least.waits_for,
        waits_since_s=least.waits_since_s,
        generation=max(status.generation for status in of_queries),
        late=sum(status.late for status in of_queries),
        state_rows=sum(counted) if len(counted) == len(of_queries) else None,
        behind=max(status.behind for status in of_queries),
        positions={at: min(status.positions.get(at, 0) for status in of_queries) for at in first.positions}
        if known
        else {},
        failures=failures,
        keeps_failing=any(status.keeps_failing for status in of_queries),
        failed_at_s=max((at_s for status in of_queries if (at_s := status.failed_at_s) is not None), default=None),
    )

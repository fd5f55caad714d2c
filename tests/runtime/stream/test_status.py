"""The states of the stream thread."""

from collections.abc import Iterable

import pytest

from runtime.stream.status import NEXT_STATES, StreamState, StreamStatus


def reachable(start: StreamState) -> set[StreamState]:
    """Return every state that a chain of transitions leads to."""
    found: set[StreamState] = set()
    frontier: Iterable[StreamState] = {start}
    while frontier:
        found |= set(frontier)
        frontier = {after for state in frontier for after in NEXT_STATES[state]} - found
    return found


def test_every_state_can_be_reached() -> None:
    assert reachable(StreamState.CREATED) == set(StreamState)


@pytest.mark.parametrize("state", [each for each in StreamState if NEXT_STATES[each] - {StreamState.STOPPED}])
def test_every_state_can_be_stopped(state: StreamState) -> None:
    assert StreamState.STOPPING in NEXT_STATES[state]


def test_stopped_is_the_end() -> None:
    assert NEXT_STATES[StreamState.STOPPED] == frozenset()


def test_real_time_comes_only_after_catching_up() -> None:
    before = {state for state, following in NEXT_STATES.items() if StreamState.RUNNING in following}
    assert before == {StreamState.CATCHING_UP, StreamState.REFRESHING}


@pytest.mark.parametrize(
    ("status", "trouble"),
    [
        (StreamStatus(), None),
        (StreamStatus(waits_for="topics", waits_since_s=80.0), None),
        (StreamStatus(waits_for="topics", waits_since_s=70.0), "it has waited for 30 s for topics"),
        (StreamStatus(state=StreamState.ERROR, error="no JVM", waits_for="topics", waits_since_s=0.0), "no JVM"),
    ],
)
def test_trouble_is_a_failure_or_a_long_wait(status: StreamStatus, trouble: str | None) -> None:
    assert status.trouble(100.0) == trouble

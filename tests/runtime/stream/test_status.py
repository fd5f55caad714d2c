"""The states of the stream thread."""

from collections.abc import Iterable, Mapping

import pytest
from aiokafka import TopicPartition

from runtime.histogram import Histogram
from runtime.stream.status import NEXT_STATES, StreamState, StreamStatus, combined


def of(positions: Mapping[int, int]) -> dict[TopicPartition, int]:
    """Return positions by partition of a source."""
    return {TopicPartition("lines", partition): offset for partition, offset in positions.items()}


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


def test_the_stream_of_one_store_says_what_there_is_to_say() -> None:
    status = StreamStatus(StreamState.RUNNING, generation=3, events=7)
    assert combined([status]) is status


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ((StreamState.RUNNING, StreamState.CATCHING_UP), StreamState.CATCHING_UP),
        ((StreamState.ERROR, StreamState.RUNNING), StreamState.ERROR),
        ((StreamState.RUNNING, StreamState.REFRESHING), StreamState.REFRESHING),
        ((StreamState.RUNNING, StreamState.STARTING, StreamState.CATCHING_UP), StreamState.STARTING),
        ((StreamState.CREATED, StreamState.STARTING), StreamState.CREATED),
        ((StreamState.STOPPED, StreamState.STOPPING), StreamState.STOPPING),
        ((StreamState.STOPPED, StreamState.STOPPED), StreamState.STOPPED),
        ((StreamState.STOPPING, StreamState.RUNNING), StreamState.RUNNING),
    ],
)
def test_the_streams_of_several_stores_are_as_far_as_the_last_of_them(
    states: tuple[StreamState, ...], expected: StreamState
) -> None:
    assert combined([StreamStatus(state) for state in states]).state is expected
    assert combined([StreamStatus(state) for state in reversed(states)]).state is expected


def test_every_state_has_a_place_among_those_of_several_stores() -> None:
    for state in StreamState:
        assert combined([StreamStatus(StreamState.STOPPED), StreamStatus(state)]).state is state


def test_several_stores_read_the_same_events_and_fail_each_for_itself() -> None:
    batches_s = Histogram((1.0,)).plus(0.5)
    one = StreamStatus(
        StreamState.RUNNING,
        generation=1,
        events=10,
        invalid=2,
        behind=3,
        positions=of({0: 10, 1: 4}),
        batches_s=batches_s,
        failures={"QueryFailed": 1},
        failed_at_s=5.0,
        dead_letters={("lines", "no value"): 2},
    )
    other = StreamStatus(
        StreamState.ERROR,
        error="no Kafka",
        generation=4,
        events=12,
        invalid=1,
        behind=1,
        positions=of({0: 8, 1: 6}),
        failures={"QueryFailed": 2, "BrokerUnavailable": 1},
        keeps_failing=True,
        failed_at_s=7.0,
    )
    both = combined([one, other])
    assert (both.state, both.error, both.generation) == (StreamState.ERROR, "no Kafka", 4)
    assert (both.events, both.invalid, both.batches_s) == (10, 2, batches_s), "what the first one says"
    assert (both.behind, both.positions) == (3, of({0: 8, 1: 4}))
    assert both.failures == {"QueryFailed": 3, "BrokerUnavailable": 1}
    assert (both.keeps_failing, both.failed_at_s) == (True, 7.0)
    assert both.dead_letters == one.dead_letters


def test_nothing_is_known_of_where_several_stores_read_until_each_has_committed() -> None:
    assert combined([StreamStatus(positions=of({0: 5})), StreamStatus()]).positions == {}
    assert combined([StreamStatus(failed_at_s=None), StreamStatus(failed_at_s=None)]).failed_at_s is None


def test_the_rows_of_several_states_are_known_where_each_is_counted() -> None:
    counted, uncounted = StreamStatus(state_rows=3), StreamStatus(state_rows=None)
    assert combined([counted, counted]).state_rows == 6
    assert combined([counted, uncounted]).state_rows is None

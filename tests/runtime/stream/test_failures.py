"""How failures in a row are answered."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from runtime.errors import (
    BrokerUnavailable,
    GenerationOutdated,
    LeaderboardError,
    QueryFailed,
    StateUnusable,
    TopicChanged,
)
from runtime.stream.failures import Failures

FAILED = QueryFailed("Unexpected end-of-input")
IN_USE = QueryFailed("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log")
AWAY = BrokerUnavailable("Kafka does not answer")


def after(*errors: LeaderboardError, ran_s: float = 1.0, session_lives: bool = True) -> Failures:
    """Return what is decided after failures in a row."""
    failures = Failures()
    for error in errors:
        failures.add(error, ran_s=ran_s, session_lives=session_lives)
    return failures


@pytest.mark.parametrize(
    ("errors", "unusable"),
    [
        ([FAILED] * 2, False),
        ([FAILED] * 3, True),
        ([FAILED, AWAY, FAILED, AWAY, FAILED], True),
        ([AWAY] * 9, False),
        ([TopicChanged("grown")] * 9, False),
        ([IN_USE] * 9, False),
        ([QueryFailed("[STREAM_FAILED] …: java.io.IOException: No space left on device")] * 9, False),
        ([FAILED, FAILED, IN_USE], False),
        ([GenerationOutdated("results of generation 9")], True),
    ],
)
def test_a_checkpoint_is_unusable_when_queries_fail_on_it_again_and_again(
    errors: list[LeaderboardError], *, unusable: bool
) -> None:
    trouble = after(*errors).checkpoint_trouble
    assert (trouble is not None) is unusable
    assert not unusable or str(errors[-1]) in str(trouble)


def test_a_session_that_is_gone_says_nothing_about_the_checkpoint() -> None:
    assert after(*[FAILED] * 9, session_lives=False).checkpoint_trouble is None


def test_a_commit_shows_that_the_checkpoint_can_be_used() -> None:
    failures = after(FAILED, FAILED)
    failures.committed()
    failures.add(FAILED, ran_s=1, session_lives=True)
    assert failures.checkpoint_trouble is None


def test_waits_grow_up_to_half_a_minute_and_begin_anew_after_a_good_time() -> None:
    assert [after(*[AWAY] * count).backoff_s for count in (1, 2, 3, 7, 50)] == [0.5, 1, 2, 30, 30]
    assert after(*[AWAY] * 50, ran_s=61).backoff_s == 0.5


def test_every_third_try_has_a_new_session() -> None:
    assert [after(*[AWAY] * count).ask_for_new_session for count in range(1, 7)] == [
        False, False, True, False, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "after_s", "keep"),
    [
        (FAILED, 119, False),
        (FAILED, 121, True),
        (StateUnusable("/state cannot be written: No space left on device"), 121, True),
        (RuntimeError("unforeseen"), 121, True),
        (AWAY, 9999, False),
    ],
    ids=repr,
)
def test_failures_that_go_on_for_minutes_and_are_not_kafkas_are_told(
    error: Exception, after_s: float, *, keep: bool
) -> None:
    clock = Mock(side_effect=[1000.0, 1000.0 + after_s])
    failures = Failures(clock)
    for _ in range(2):
        failures.add(error, ran_s=1, session_lives=False)
    assert failures.keep is keep


def test_failures_that_go_on_are_forgotten_after_a_commit_and_when_kafka_was_away() -> None:
    now_s = 0.0
    failures = Failures(lambda: now_s)
    kept = []
    for break_off in (failures.committed, lambda: failures.add(AWAY, ran_s=1, session_lives=True)):
        failures.add(FAILED, ran_s=1, session_lives=True)
        now_s += 121
        failures.add(FAILED, ran_s=1, session_lives=True)
        kept.append(failures.keep)
        break_off()
        kept.append(failures.keep)
        failures.add(FAILED, ran_s=1, session_lives=True)
        kept.append(failures.keep)
    assert kept == [True, False, False] * 2

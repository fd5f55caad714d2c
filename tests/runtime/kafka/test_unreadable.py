"""Records that Spark cannot read: which they are, and how a stream gets through what lies between them."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.kafka.offsets import OffsetRange
from runtime.kafka.unreadable import Run, fewer, joined, may_be_of_a_record, steps, why_unreadable
from runtime.records import FURTHEST_MS, LARGEST_BYTES, TIMESTAMP_REASON, TOO_LARGE

NOW_MS: Final = 1_795_622_429_884


@pytest.mark.parametrize("timestamp", [NOW_MS, NOW_MS * 1000, -1, -2, 0, FURTHEST_MS, -FURTHEST_MS])
def test_a_time_that_spark_can_hold_is_readable(timestamp: int) -> None:
    assert why_unreadable(timestamp, None, b"{}") is None


@pytest.mark.parametrize("timestamp", [NOW_MS * 10**6, FURTHEST_MS + 1, -FURTHEST_MS - 1, 2**63 - 1, -(2**63)])
def test_a_time_that_spark_cannot_hold_is_not(timestamp: int) -> None:
    assert why_unreadable(timestamp, None, b"{}") == TIMESTAMP_REASON


def test_a_key_or_a_value_is_readable_up_to_its_limit() -> None:
    fits = bytes(LARGEST_BYTES)
    assert why_unreadable(NOW_MS, fits, fits) is None
    assert why_unreadable(NOW_MS, fits + b"x", None) == TOO_LARGE
    assert why_unreadable(NOW_MS, None, fits + b"x") == TOO_LARGE


@pytest.mark.parametrize(
    ("failure", "may_be"),
    [
        ("[STREAM_FAILED] Query terminated with exception: …: java.lang.ArithmeticException: long overflow", True),
        ("java.lang.OutOfMemoryError: Java heap space", True),
        ("Job aborted due to stage failure: Task 2 in stage 12.0 failed 1 times", True),
        ("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log", False),
        ("the query in real time ended by itself", False),
    ],
)
def test_what_a_query_says_tells_whether_to_look(failure: str, *, may_be: bool) -> None:
    assert may_be_of_a_record(failure) is may_be


PARTITION = st.tuples(st.integers(0, 5), st.lists(st.booleans(), max_size=12))
"""Where it begins, and for each record whether it can be read."""


@given(st.dictionaries(st.integers(0, 3), PARTITION, min_size=1), st.integers(0, 4))
def test_every_record_is_read_once_and_no_unreadable_one(
    partitions: dict[int, tuple[int, list[bool]]], near: int
) -> None:
    ranges = {p: OffsetRange(begin, begin + len(readable)) for p, (begin, readable) in partitions.items()}
    runs = {p: found for p, (begin, readable) in partitions.items() if (found := runs_of(begin, readable))}
    at = {p: every.begin for p, every in ranges.items()}
    read: dict[int, list[int]] = {p: [] for p in ranges}
    for step in steps(ranges, {p: joined(found, near) for p, found in runs.items()}):
        for partition, begin in at.items():
            read[partition] += range(begin, step.ends[partition])
            first, readable = partitions[partition]
            between = range(*step.mixed.get(partition, (0, 0)))
            assert not between or (between.start, between.stop) == (step.ends[partition], step.past[partition])
            read[partition] += [offset for offset in between if readable[offset - first]]
        assert all(step.past[p] >= step.ends[p] >= at[p] for p in ranges)
        at = step.past
    for partition, (begin, readable) in partitions.items():
        # The rest is what comes next, as it always would.
        read[partition] += range(at[partition], ranges[partition].end)
        assert read[partition] == [begin + number for number, each in enumerate(readable) if each]


def test_runs_that_are_near_to_each_other_are_one_with_what_lies_between() -> None:
    runs = [Run(2, 3, "a"), Run(5, 7, "b", 2), Run(10, 11, "c")]
    assert joined(runs, 2) == [Run(2, 7, "a", 3, mixed=True), Run(10, 11, "c")]
    assert joined(runs, 1) == runs
    assert joined(runs, 100) == [Run(2, 11, "a", 4, mixed=True)]
    assert joined([], 3) == []


def test_few_runs_stay_as_they_are_and_far_ones_as_well() -> None:
    near = [Run(2 * number, 2 * number + 1, "x") for number in range(9)]
    assert fewer(near[:8]) == near[:8]
    assert fewer(near) == [Run(0, 17, "x", 9, mixed=True)]
    far = [Run(1_000_000 * number, 1_000_000 * number + 1, "x") for number in range(9)]
    assert fewer(far) == far


def runs_of(begin: int, readable: list[bool]) -> list[Run]:
    """Return the runs of unreadable records, found in the plainest way."""
    found: list[Run] = []
    for number, each in enumerate(readable):
        offset = begin + number
        if each:
            continue
        if found and found[-1].past == offset:
            found[-1] = Run(found[-1].first, offset + 1, "x", found[-1].count + 1)
        else:
            found.append(Run(offset, offset + 1, "x"))
    return found

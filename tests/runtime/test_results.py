"""Which of two results a store keeps, and what is written of one."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from functools import reduce
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime import Count, Value, results
from runtime.errors import InvalidRecord
from runtime.results import Made, Result
from runtime.values import Fields

COUNTS = Fields({"count": Count("times")})


class Longest(Value):
    """The longest of some lengths: a lattice."""

    lattice: ClassVar[bool] = True
    spark = "bigint"
    json_type = "integer"
    columns: ClassVar[dict[str, str]] = {"length": "bigint"}

    def part(self) -> Any:
        raise AssertionError("there is no Spark here")

    def aggregate(self, part: Any) -> Any:  # noqa: ARG002  # there is no Spark here
        raise AssertionError("there is no Spark here")

    def check(self, value: Any) -> int:
        return int(value)

    def merge(self, held: int, new: int) -> int:
        return max(held, new)


LONGEST = Fields({"longest": Longest()})
BOTH = Fields({"longest": Longest(), "count": Count()})


def counted(count: int, *, generation: int = 1, version: int = 1, **offsets: dict[str, int]) -> Result:
    """Return a count with the offsets up to which it counts, by topic id and partition."""
    return Result(Made(generation, version, count, None, offsets), {"count": count})


def longest(length: int, *, generation: int = 1, version: int = 1, newest_ms: int | None = None) -> Result:
    return Result(Made(generation, version, length, newest_ms), {"longest": length})


# Lattices

lengths = st.builds(
    longest,
    st.integers(0, 5),
    generation=st.integers(1, 2),
    version=st.integers(1, 2),
    newest_ms=st.none() | st.integers(0, 3),
)


def merged(values: Fields, all_: list[Result]) -> Result:
    return reduce(lambda held, new: results.merge(values, held, new), all_[1:], results.merge(values, None, all_[0]))


@given(st.lists(lengths, min_size=1, max_size=6).flatmap(lambda all_: st.tuples(st.just(all_), st.permutations(all_))))
def test_the_order_of_results_that_merge_does_not_matter(orders: tuple[list[Result], list[Result]]) -> None:
    given_order, another_order = orders
    assert merged(LONGEST, given_order) == merged(LONGEST, another_order)


@given(st.lists(lengths, min_size=1, max_size=5), st.data())
def test_repeats_of_results_that_merge_do_not_matter(all_: list[Result], data: st.DataObject) -> None:
    repeats = data.draw(st.lists(st.sampled_from(all_), max_size=5))
    assert merged(LONGEST, [*all_, *repeats]) == merged(LONGEST, all_)


@given(lengths, lengths, lengths)
def test_merging_is_associative(one: Result, two: Result, three: Result) -> None:
    left = results.merge(LONGEST, results.merge(LONGEST, one, two), three)
    assert left == results.merge(LONGEST, one, results.merge(LONGEST, two, three))


@pytest.mark.parametrize(
    ("held", "new", "kept"),
    [
        (longest(5), longest(3), 5),
        (longest(3), longest(5), 5),
        (longest(5), longest(3, generation=2), 3),
        (longest(3, generation=2), longest(5), 3),
        (longest(5, generation=9), longest(3, version=2), 3),
        (longest(3, version=2), longest(5, generation=9), 3),
    ],
)
def test_a_later_version_and_then_a_later_generation_replaces(held: Result, new: Result, kept: int) -> None:
    assert results.merge(LONGEST, held, new).values == {"longest": kept}


def test_what_merges_is_as_new_as_the_newest_event_in_it() -> None:
    one, two, unknown = longest(3, newest_ms=7), longest(5, newest_ms=4), longest(4)
    pairs = itertools.permutations([one, two, unknown], 2)
    assert [results.merge(LONGEST, *pair).made.newest_ms for pair in pairs] == [7, 7, 7, 4, 7, 4]


@given(st.none() | lengths, lengths)
def test_a_record_stands_for_what_came_of_merging_it_only_when_a_store_that_has_it_alone_answers_the_same(
    held: Result | None, record: Result
) -> None:
    whole = results.merge(LONGEST, held, record)
    if results.stands_for(LONGEST, record, whole):
        assert record.values == whole.values
    assert results.stands_for(LONGEST, whole, whole)


# Accumulators


@pytest.mark.parametrize(
    ("held", "new", "taken"),
    [
        pytest.param(counted(3, a={"0": 5}), counted(4, a={"0": 6}), True, id="it counts more"),
        pytest.param(counted(4, a={"0": 6}), counted(3, a={"0": 5}), False, id="it counts less"),
        pytest.param(counted(3, a={"0": 5}), counted(5, a={"0": 6, "1": 0}), True, id="of one partition more"),
        pytest.param(counted(5, a={"0": 6, "1": 0}), counted(4, a={"0": 7}), False, id="it lacks a partition"),
        pytest.param(
            counted(5, a={"0": 6, "1": 2}), counted(9, a={"0": 99, "1": 1}), False, id="a replay folded others first"
        ),
        pytest.param(
            counted(9, a={"0": 99, "1": 1}), counted(5, a={"0": 6, "1": 2}), False, id="the same the other way round"
        ),
        pytest.param(
            counted(9, a={"0": 99, "1": 1}), counted(10, a={"0": 99, "1": 2}), True, id="in the end it has both"
        ),
        pytest.param(counted(3, a={"0": 5}), counted(1, b={"0": 99}), False, id="it counts of another topic alone"),
        pytest.param(counted(3, a={"0": 5}), counted(4, a={"0": 5}, b={"0": 0}), True, id="of a topic created anew"),
        pytest.param(counted(3, generation=2, a={"0": 5}), counted(4, a={"0": 6}), True, id="generations say nothing"),
        pytest.param(counted(4, a={"0": 6}), counted(3, generation=2, a={"0": 5}), False, id="nor does a later one"),
        pytest.param(counted(9, a={"0": 9}), counted(1, version=2, a={"0": 0}), True, id="a later version"),
        pytest.param(counted(1, version=2, a={"0": 0}), counted(9, a={"0": 9}), False, id="an earlier version"),
        pytest.param(counted(3), counted(4, a={"0": 0}), True, id="what says nothing of offsets gives way"),
        pytest.param(counted(4, a={"0": 0}), counted(3), False, id="and replaces nothing"),
    ],
)
def test_a_count_replaces_another_when_it_counts_all_that_the_other_does(
    held: Result, new: Result, *, taken: bool
) -> None:
    assert results.merge(COUNTS, held, new) == (new if taken else held)


def test_values_of_which_one_is_no_lattice_go_by_offsets_as_a_whole() -> None:
    held = Result(Made(1, offsets={"a": {"0": 5}}), {"longest": 9, "count": 3})
    new = Result(Made(1, offsets={"a": {"0": 4}}), {"longest": 11, "count": 2})
    assert not BOTH.lattice
    assert results.merge(BOTH, held, new) == held


@pytest.mark.parametrize(
    ("record", "whole", "stands"),
    [
        (counted(3, a={"0": 5}), counted(3, a={"0": 5}), True),
        (counted(3, a={"0": 5}), counted(4, a={"0": 6}), False),
        (counted(3, a={"0": 5}), counted(3, version=2, a={"0": 5}), False),
    ],
)
def test_a_count_stands_for_itself_alone(record: Result, whole: Result, *, stands: bool) -> None:
    assert results.stands_for(COUNTS, record, whole) is stands


class Driver:
    """A driver of one key: folds events by partition in their order, and publishes after each.

    Args:
        begin: by partition, what the checkpoint that it begins with counts.
    """

    def __init__(self, begin: dict[str, int]) -> None:
        self.counted = dict(begin)

    def fold(self, partition: str) -> Result:
        self.counted[partition] = self.counted.get(partition, -1) + 1
        return counted(sum(each + 1 for each in self.counted.values()), a=dict(self.counted))


@st.composite
def published(draw: st.DrawFn) -> tuple[list[Result], int]:
    """Return what two drivers of one checkpoint publish, the second one to the end; and how many events there are."""
    ends = {partition: draw(st.integers(0, 4)) for partition in ("0", "1", "2")}
    checkpoint = {partition: draw(st.integers(-1, end - 1)) for partition, end in ends.items()}
    checkpoint = {partition: last for partition, last in checkpoint.items() if last >= 0}
    rest = [p for p, end in ends.items() for _ in range(end - checkpoint.get(p, -1) - 1)]
    first, second = Driver(checkpoint), Driver(checkpoint)
    died = draw(st.permutations(rest).flatmap(lambda all_: st.integers(0, len(all_)).map(lambda many: all_[:many])))
    return [
        *(first.fold(partition) for partition in died),
        *(second.fold(partition) for partition in draw(st.permutations(rest))),
    ], sum(ends.values())


@given(published())
def test_a_count_never_goes_back_and_ends_with_every_event_in_whatever_order_a_replay_folds(
    case: tuple[list[Result], int],
) -> None:
    all_, events = case
    held: Result | None = None
    for record in all_:
        before, held = held, results.merge(COUNTS, held, record)
        assert before is None or held.values["count"] >= before.values["count"]
    assert held is None or held.values["count"] == events
    # Whoever reads all of it again keeps what is held.
    for record in all_:
        assert held == results.merge(COUNTS, held, record)


@given(published(), st.data())
def test_a_store_that_takes_over_at_any_record_comes_to_the_same_count(
    case: tuple[list[Result], int], data: st.DataObject
) -> None:
    all_, events = case
    # Compaction may take every record but the last.
    left = [record for record in all_[:-1] if data.draw(st.booleans())] + all_[-1:]
    assert not left or merged(COUNTS, left).values["count"] == events


# As bytes

mades = st.builds(
    Made,
    st.integers(1, 9),
    st.integers(1, 3),
    st.integers(0, 10**12),
    st.none() | st.integers(-(2**40), 2**45),
    st.dictionaries(
        st.uuids().map(str), st.dictionaries(st.integers(0, 99).map(str), st.integers(0, 2**62), max_size=3), max_size=3
    ),
)


@given(mades, st.integers(-(2**63), 2**63 - 1))
def test_a_result_survives_its_record_and_its_store(made: Made, count: int) -> None:
    result = Result(made, {"count": count})
    value = COUNTS.to_json(result.values)
    read = results.parse(COUNTS, value, made.to_headers())
    assert (read, read.made.to_headers()) == (result, made.to_headers())
    for stored in (results.to_stored(COUNTS, each, text) for each in (result, read) for text in (None, value)):
        assert results.from_stored(COUNTS, stored) == result
        assert (results.made_of(stored), results.values_of(stored)) == (made, value)


@given(mades, mades)
def test_offsets_are_the_same_however_they_are_spelled(made: Made, other: Made) -> None:
    headers = dict(made.to_headers())
    spelled = {**headers, "offsets": json.dumps(dict(made.offsets)).encode()}
    read, read_too = (Made.of_headers(each.items()) for each in (headers, spelled))
    assert read is not None
    assert read == read_too == read == made
    assert (read == other) == (made == other)
    assert (read.covers(other), other.covers(read)) == (made.covers(other), other.covers(made))


def test_the_bytes_of_a_record_are_kept_as_they_came() -> None:
    spelled = b'{ "count" : 1, "of another version": [1] }'
    stored = results.to_stored(COUNTS, counted(1), spelled)
    assert results.values_of(stored) == spelled
    assert results.from_stored(COUNTS, stored) == counted(1)


def test_headers_that_are_not_ours_change_nothing() -> None:
    made = Made(3, 1, 5, 7, {"a": {"0": 5}})
    assert Made.of_headers([("trace", b"\xff"), *made.to_headers(), ("also", b"")]) == made


def test_no_two_headers_make_up_for_each_other() -> None:
    torn = {
        "generation": b"1,1",
        "version": b"1",
        "events": b"1",
        "newest_ms": b'{"a":{"0":1}',
        "offsets": b'"b":{"0":2}}',
    }
    with pytest.raises(InvalidRecord, match="not a result"):
        Made.of_headers(torn.items())


def odd_headers() -> Iterator[Any]:
    """Yield headers that no driver writes, each a test's parameter."""
    odd: dict[str, list[bytes | None]] = {
        "generation": [
            None,
            b"",
            b"x",
            b"\xff",
            b"null",
            b"{}",
            b"1.5",
            b"true",
            b'"1"',
            b"1e999",
            b"+1",
            b"01",
            b"1,1",
            b"NaN",
        ],
        "version": [None, b"", b"x", b"null", b"[1]", b"true"],
        "events": [b"many", b"1.5"],
        "newest_ms": [None, b"", b"now", b"[]", b"null", b"01", b"7,7", b'7,{"a":{"0":1}}'],
        "offsets": [
            None,
            b"",
            b"[]",
            b"5",
            b'{"a": 5}',
            b'{"a": {"x": 5}}',
            b'{"a": {"0": "many"}}',
            b'{"a": {"0": null}}',
            b'{"a":5}',
            b'{"a":{"x":5}}',
            b'{"a":{"0":"many"}}',
            b'{"a":{"0":1.5}}',
            b'{"a":{"0":01}}',
            b'{"a":{"0":1},}',
            b'{"a":{"0":1,}}',
            b'{"a":{"0":9223372036854775808}}',
        ],
    }
    for name, values in odd.items():
        for value in values:
            for made in (Made(3), Made(3, newest_ms=7)):
                others = [header for header in made.to_headers() if header[0] != name]
                yield pytest.param([*others, (name, value)], id=f"{name} {value!r}, newest_ms {made.newest_ms}")
    yield pytest.param([("offsets", b"[" * 100_000), ("generation", b"1")], id="nested deep")


@pytest.mark.parametrize("headers", list(odd_headers()))
def test_headers_that_cannot_be_are_refused(headers: list[tuple[str, bytes]]) -> None:
    with pytest.raises(InvalidRecord, match="not a result"):
        results.parse(COUNTS, b'{"count":1}', headers)


def test_a_record_without_a_generation_is_none_of_ours() -> None:
    with pytest.raises(InvalidRecord, match="it has no header generation"):
        results.parse(COUNTS, b'{"count":1}', [("version", b"1")])


@pytest.mark.parametrize(
    "value",
    [
        b"", b"{", b"[]", b"7", b"null", b'"text"', b"\xff", b"[" * 100_000, b"{}", b'{"times":1}', b'{"count":null}',
        b'{"count":"1"}', b'{"count":1.0}', b'{"count":true}', b'{"count":[1]}', b'{"count":1e999}', b'{"count":NaN}',
        b'{"count":9223372036854775808}', b'{"count":1}xx',
    ],
)  # fmt: skip
def test_values_that_cannot_be_are_refused(value: bytes) -> None:
    with pytest.raises(InvalidRecord):
        results.parse(COUNTS, value, Made(1).to_headers())


def test_a_value_says_the_same_each_time_and_is_refused_each_time() -> None:
    long = b'{"count":2,"of another version":"%b"}' % (b"x" * 100)
    for _ in range(3):
        assert COUNTS.parse(b'{"count":2}') == COUNTS.parse(long) == {"count": 2}
        with pytest.raises(InvalidRecord):
            COUNTS.parse(b'{"count":null}')

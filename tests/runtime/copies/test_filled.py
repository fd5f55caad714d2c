"""A store that is filled for the first time takes results at a glance: what it holds is what it would hold by reading
each, and nobody is told more than that they came."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.copies.result_copy import ResultCopy
from runtime.keys import KeyPair
from runtime.results import Made
from runtime.serving.in_memory import TOPIC_ID, GivenRecord, InMemory
from topology.leaderboard.bests import Best
from topology.leaderboard.board import leaderboard
from topology.leaderboard.ranks import PERSONAL_BEST, STORE

BOARDS = leaderboard(ranks=True)


def value(*scores: float, offset: int = 7) -> bytes:
    """Return a record's value as Spark writes it."""
    bests = tuple(Best(score, 1_795_804_796_566, 1, offset, "topic-1") for score in scores)
    return PERSONAL_BEST.record.to_json({"best": bests, "hidden": None})


values = st.one_of(
    st.builds(value, st.sampled_from([9.0, 2.0, -1.5]), offset=st.integers(0, 3)),
    st.sampled_from([value(), value(3.0, 2.0), value(3.0).replace(b",", b" ,"), b"{}", b"no JSON", None]),
)
headers = st.one_of(
    st.builds(Made, st.integers(1, 2), st.integers(1, 2), st.integers(0, 3), st.none() | st.integers(0, 3)).map(
        Made.to_headers
    ),
    st.sampled_from([[], [("generation", b"no number")], [("generation", None)]]),
)
keys = st.sampled_from([b"1/1", b"1/2", b"2/1", b"01/1", b"none", None])
records = st.lists(st.tuples(keys, values, headers), max_size=12)


def given_records(of: Sequence[tuple[Any, ...]]) -> list[GivenRecord]:
    return [GivenRecord(offset, key, value, headers=headers) for offset, (key, value, headers) in enumerate(of)]


class Filled:
    """An instance in memory whose only partition of bests is filled with records.

    Args:
        of: the records.
        restored: whether the store was complete before they came.
    """

    def __init__(self, of: Sequence[GivenRecord], *, restored: bool) -> None:
        self.instance = InMemory(BOARDS)
        self.copy: ResultCopy = self.instance.copies.results[STORE].copies[0]
        self.told: list[Any] = []
        for view in (self.instance.views[STORE], self.instance.rankings[STORE]):
            view.watch(self.told.append)
        self.copy.begin(TOPIC_ID, 0)
        self.copy.resume(0 if restored else len(of))
        self.instance.copies.progressed()
        self.told.clear()
        self.copy.end = len(of)

    def read(self, of: Sequence[GivenRecord], slices: Sequence[int]) -> None:
        """Have the copy read records, with a write after some of them."""
        for first, end in zip([0, *slices], [*slices, len(of)], strict=True):
            done = 0
            while done < end - first:
                done = self.copy.apply(of[first:end], done)

    def holds(self) -> object:
        """Return all that the store and the copy know of what they have read."""
        store, fill = self.copy.store, self.copy.fill
        assert fill is not None
        lacking = [record.key for record in self.copy.lacking(0.0)]
        unusable = dict(self.instance.copies.unusable.counts)
        return [*store.scan()], [*store.indexed(b"", b"\xff" * 17)], fill.rows, fill.position, lacking, unusable


@given(records, st.data())
def test_what_is_filled_at_a_glance_is_what_is_filled_by_reading_each(of: list[Any], data: st.DataObject) -> None:
    found = given_records(of)
    slices = sorted(data.draw(st.sets(st.integers(0, len(found)), max_size=3)))
    at_a_glance, read = Filled(found, restored=False), Filled(found, restored=True)
    for each in (at_a_glance, read):
        each.read(found, slices)
    assert at_a_glance.holds() == read.holds()


def test_what_comes_behind_a_delete_is_merged_with_what_comes_after_it() -> None:
    made = Made(1, 1, 1, 1).to_headers()
    of = given_records([(b"1/1", each, made if each else []) for each in (value(1.0), None, value(9.0), value(5.0))])
    filled = Filled(of, restored=False)
    filled.read(of, [])
    filled.instance.copies.progressed()
    row = filled.instance.views[STORE].get(KeyPair(1, 1))
    assert row is not None
    assert [best["score"] for best in json.loads(row.body)["best"]] == [9.0, 5.0]


def test_results_are_not_parsed_while_a_store_is_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    of = given_records([(f"1/{player}".encode(), value(5.0), Made(1, 1, 1, 1).to_headers()) for player in range(9)])
    filled = Filled(of, restored=False)
    with monkeypatch.context() as patched:
        # Whoever parses one fails.
        patched.setattr("runtime.results.parse", None)
        filled.read(of, [4])
    assert filled.copy.restored
    assert filled.copy.measure().rows == len(of)
    filled.instance.copies.progressed()
    assert filled.instance.views[STORE].count([0]) == len(of)


def test_rows_that_were_read_before_a_store_was_complete_are_as_they_are_when_it_is() -> None:
    of = given_records([(b"1/1", value(score), Made(1, 1, 1, 1).to_headers()) for score in (5.0, 6.0)])
    filled = Filled(of, restored=False)
    view = filled.instance.views[STORE]
    for at in range(len(of)):
        filled.copy.apply(of[at : at + 1], 0)
        row = view.get(KeyPair(1, 1))
        assert row is not None
        assert f'"score":{5.0 + at}'.encode() in row.body
    assert filled.told == [KeyPair(1, 1)] * 3

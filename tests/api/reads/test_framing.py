"""Boards between instances: what goes in comes out, and nothing else does."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.reads.framing import compose, pack, unpack
from runtime.records import ID_MAX, ID_MIN

boards = st.lists(st.tuples(st.integers(ID_MIN, ID_MAX), st.binary(max_size=40)))


@given(boards)
def test_boards_come_out_as_they_went_in(sent: list[tuple[int, bytes]]) -> None:
    assert unpack(pack(sent)) == sent


@given(st.binary())
def test_any_bytes_are_frames_or_a_value_error(frames: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert pack(unpack(frames)) == frames


@given(boards.filter(bool), st.integers(1, 11))
def test_frames_that_are_cut_off_are_no_frames(sent: list[tuple[int, bytes]], missing: int) -> None:
    with pytest.raises(ValueError, match="cut off"):
        unpack(pack([*sent, (0, b"")])[:-missing])


def test_boards_are_composed_to_one_object_in_order() -> None:
    body = compose([(-3, b"[]"), (1, b'[{"score":1.0}]'), (10, b"[]")])
    assert body == b'{"-3":[],"1":[{"score":1.0}],"10":[]}'
    assert list(json.loads(body)) == ["-3", "1", "10"]
    assert compose([]) == b"{}"

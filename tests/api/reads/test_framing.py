"""Rows between instances: what goes in comes out, and nothing else does."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.leaderboard.routes import composed
from api.reads.framing import pack, unpack
from api.reads.stores import listed
from runtime.keys import Int64, KeyType, KeyValue, Text
from runtime.records import ID_MAX, ID_MIN

bodies = st.binary(max_size=40)
lists = st.tuples(st.just(Int64), st.lists(st.tuples(st.integers(ID_MIN, ID_MAX), bodies))) | st.tuples(
    st.just(Text), st.lists(st.tuples(st.text(min_size=1), bodies))
)
key_types = st.sampled_from([Int64, Text])

Sent = tuple[KeyType, list[tuple[KeyValue, bytes]]]


@given(lists)
def test_rows_come_out_as_they_went_in(sent: Sent) -> None:
    key_type, rows = sent
    assert unpack(pack(rows, key_type), key_type) == rows


@given(st.binary(), key_types)
def test_any_bytes_are_frames_or_a_value_error(frames: bytes, key_type: KeyType) -> None:
    with contextlib.suppress(ValueError):
        assert pack(unpack(frames, key_type), key_type) == frames


def test_a_key_of_another_type_is_no_frame() -> None:
    with pytest.raises(ValueError, match="no 64-bit integer"):
        unpack(pack([("hello", b"{}")], Text), Int64)


@given(lists.filter(lambda sent: bool(sent[1])), st.integers(1, 15))
def test_frames_that_are_cut_off_are_no_frames(sent: Sent, missing: int) -> None:
    key_type, rows = sent
    last = (0 if key_type is Int64 else "a" * 8, b"")
    with pytest.raises(ValueError, match="cut off"):
        unpack(pack([*rows, last], key_type)[:-missing], key_type)


def test_boards_are_composed_to_one_object_in_order() -> None:
    body = composed([(-3, b"[]"), (1, b'[{"score":1.0}]'), (10, b"[]")])
    assert body == b'{"-3":[],"1":[{"score":1.0}],"10":[]}'
    assert list(json.loads(body)) == ["-3", "1", "10"]
    assert composed([]) == b"{}"


def test_rows_are_listed_in_order() -> None:
    assert listed([("a", b'{"word":"a"}'), ("b", b"[]")]) == b'[{"word":"a"},[]]'
    assert listed([]) == b"[]"

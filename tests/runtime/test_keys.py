"""Keys: their text, and bytes in the order of the keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime import Int64, Text
from runtime.errors import InvalidRecord
from runtime.keys import KeyType, KeyValue, past_prefix

LOWEST = {Int64: -(2**63), Text: ""}
HIGHEST_BYTES = {Int64: Int64.encode(2**63 - 1), Text: b"\xff"}
"""No UTF-8 begins with this byte."""

integers = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(codec="utf-8"), min_size=1)
keys = st.tuples(st.just(Int64), integers, integers) | st.tuples(st.just(Text), texts, texts)


@given(keys)
def test_a_key_survives_its_text_and_its_bytes(case: tuple[KeyType, KeyValue, KeyValue]) -> None:
    of_type, key, _ = case
    assert of_type.parse(of_type.text(key)) == key
    assert of_type.decode(of_type.encode(key)) == key


@given(keys)
def test_the_order_of_the_bytes_is_that_of_the_keys(case: tuple[KeyType, KeyValue, KeyValue]) -> None:
    of_type, one, other = case
    assert (one < other) == (of_type.encode(one) < of_type.encode(other))
    assert of_type.encode(LOWEST[of_type]) <= of_type.encode(one) <= HIGHEST_BYTES[of_type]


@pytest.mark.parametrize(("of_type", "text"), [(Int64, "01"), (Int64, "x"), (Int64, str(2**63)), (Text, "")])
def test_a_text_that_is_no_key_is_refused(of_type: KeyType, text: str) -> None:
    with pytest.raises(InvalidRecord):
        of_type.parse(text)


edges = st.sampled_from(["a", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010fffe", "\U0010ffff"])
edge_texts = st.lists(edges, max_size=3).map("".join)


@given(edge_texts | texts, edge_texts | texts)
def test_a_prefix_ends_where_the_texts_that_begin_with_it_do(prefix: str, text: str) -> None:
    end = past_prefix(prefix)
    for each in (text, prefix + text):
        assert each.startswith(prefix) == (each >= prefix and (end is None or each.encode() < end.encode()))

"""Keys of windows: as text, and as bytes whose order is theirs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import InvalidRecord
from runtime.keys import Int64, KeyType, KeyValue, Text
from runtime.records import ID_MAX, ID_MIN
from runtime.types import FIRST_MS, LAST_MS
from runtime.windows import EqualWindows, Hopping, Tumbling, WindowKey, window_key

EVERY_MS = 2_000
WINDOWS = Hopping("5 seconds", "2 seconds")
FIRST_START = -(-FIRST_MS // EVERY_MS) * EVERY_MS
LAST_START = (LAST_MS - 5_000) // EVERY_MS * EVERY_MS
EDGES = st.sampled_from(["\0", "\1", "@", "a", "\uffff", "🎲", "\U0010ffff", "0", "-"])
TEXTS = st.lists(EDGES, min_size=1, max_size=5).map("".join) | st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8
)
NUMBERS = st.sampled_from([ID_MIN, -1, 0, 1, ID_MAX]) | st.integers(ID_MIN, ID_MAX)
STARTS = st.sampled_from([FIRST_START, -EVERY_MS, 0, EVERY_MS, LAST_START]) | st.integers(
    FIRST_START // EVERY_MS, LAST_START // EVERY_MS
).map(lambda number: number * EVERY_MS)


def keys_of(keys: st.SearchStrategy[KeyValue]) -> st.SearchStrategy[WindowKey]:
    return st.builds(WindowKey, keys, STARTS)


OF_TYPES = st.one_of(
    st.tuples(st.just(Text), st.lists(keys_of(TEXTS), max_size=8)),
    st.tuples(st.just(Int64), st.lists(keys_of(NUMBERS), max_size=8)),
)


@given(OF_TYPES)
def test_the_bytes_of_keys_are_in_the_order_of_keys(given_keys: tuple[KeyType, list[WindowKey]]) -> None:
    of, keys = given_keys
    key_type = window_key(of, WINDOWS)
    assert [key_type.decode(each) for each in sorted(map(key_type.encode, keys))] == sorted(keys)


@given(OF_TYPES)
def test_a_key_is_read_again_from_its_bytes_and_its_text(given_keys: tuple[KeyType, list[WindowKey]]) -> None:
    of, keys = given_keys
    key_type = window_key(of, WINDOWS)
    for key in keys:
        assert key_type.decode(key_type.encode(key)) == key
        assert key_type.parse(key_type.text(key)) == key


@given(OF_TYPES)
def test_nothing_is_between_a_key_and_the_one_that_follows(given_keys: tuple[KeyType, list[WindowKey]]) -> None:
    of, keys = given_keys
    key_type = window_key(of, WINDOWS)
    for key in keys:
        assert WINDOWS.first_of(key.key) <= key
        following = key_type.following(key)
        if key == WindowKey(ID_MAX, LAST_START):
            assert following is None
            assert key == max(keys)
            continue
        assert following is not None
        assert following > key
        assert not [each for each in keys if key < each < following]
        assert key_type.parse(key_type.text(following)) == following


@pytest.mark.parametrize(
    ("of", "key", "following"),
    [(Text, "b1", WindowKey("b1\0", FIRST_START)), (Int64, 7, WindowKey(8, FIRST_START)), (Int64, ID_MAX, None)],
)
def test_the_first_window_of_the_next_key_follows_the_last_one(
    of: KeyType, key: KeyValue, following: WindowKey | None
) -> None:
    assert window_key(of, WINDOWS).following(WindowKey(key, LAST_START)) == following


@pytest.mark.parametrize(
    "text",
    ["", "@", "a", "a@", "@0", "a@x", "a@1", "a@-0", "a@00", "a@ 0", "a@9223372036854775808", "a@2000@",
     f"a@{FIRST_START - EVERY_MS}", f"a@{LAST_START + EVERY_MS}"],
)  # fmt: skip
def test_a_text_that_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidRecord):
        window_key(Text, WINDOWS).parse(text)


def test_bytes_that_are_no_key_are_refused() -> None:
    for of in (Text, Int64):
        with pytest.raises(ValueError, match=r".+"):
            window_key(of, WINDOWS).decode(b"abc")


@given(
    st.sampled_from([WINDOWS, Tumbling("1 hour"), Hopping("10 minutes", "10 minutes")]),
    st.integers(FIRST_MS + 10_000_000, LAST_MS),
)
def test_an_instant_lies_in_each_of_its_windows_and_in_no_other(windows: EqualWindows, at_ms: int) -> None:
    starts = windows.starts(at_ms)
    assert starts == sorted(starts)
    assert starts
    around = range(starts[0] - windows.every_ms, starts[-1] + 2 * windows.every_ms, windows.every_ms)
    assert starts == [start for start in around if start <= at_ms < windows.end_ms(start)]

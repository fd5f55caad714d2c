"""Looking for any of many texts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.serving.texts import has_any

TEXTS = st.lists(st.text("ab", max_size=4).map(str.encode), max_size=5)


@given(TEXTS, st.text("ab", max_size=12).map(str.encode))
def test_a_text_has_one_of_some_when_one_of_them_is_in_it(texts: list[bytes], text: bytes) -> None:
    assert has_any(texts)(text) == any(each in text for each in texts)

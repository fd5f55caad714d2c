"""Positions as clients hand them back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.serving.position import Position

positions = st.builds(
    Position, st.uuids().map(str), st.integers(min_value=0, max_value=2**31 - 1), st.integers(0, 2**63 - 1)
)
AT = Position("c5a1f0de-0000-4000-8000-000000000001", 2, 17)


@given(positions, st.text())
def test_it_comes_back_as_it_was_given_out(position: Position, store: str) -> None:
    text = position.text(store)
    assert Position.of_text(text, store) == position
    assert set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@given(positions, st.integers(0, 41), st.characters())
def test_one_that_was_changed_is_none(position: Position, index: int, character: str) -> None:
    text = position.text("counts-store")
    changed = text[:index] + character + text[index + 1 :]
    if changed != text:
        with pytest.raises(ValueError, match=r"check|length|characters"):
            Position.of_text(changed, "counts-store")


@pytest.mark.parametrize("text", ["", "17", "=" * 43, "é" * 43, "A" * 43, AT.text("counts-store") + "A"])
def test_what_nobody_gave_out_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"check|length|characters"):
        Position.of_text(text, "counts-store")


def test_that_of_another_store_is_none() -> None:
    with pytest.raises(ValueError, match="check"):
        Position.of_text(AT.text("counts-store"), "letters-store")

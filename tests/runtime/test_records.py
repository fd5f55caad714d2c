"""Ids as bytes."""

from __future__ import annotations

import pytest

from runtime.errors import InvalidRecord
from runtime.records import parse_id


@pytest.mark.parametrize("text", ["0", "1", "-1", "42", str(2**63 - 1), str(-(2**63))])
def test_an_id_is_a_signed_64_bit_integer(text: str) -> None:
    assert str(parse_id(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "+1",
        "01",
        "-0",
        "00",
        "1.0",
        " 1",
        "1 ",
        "1e3",
        "0x1",
        "\u0661",
        "1_000",
        str(2**63),
        str(-(2**63) - 1),
    ],
)
def test_anything_else_is_no_id(text: str) -> None:
    with pytest.raises(InvalidRecord):
        parse_id(text)

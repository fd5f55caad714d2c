"""What a generation keeps of the periods that it began with."""

from __future__ import annotations

import pytest

from topology.leaderboard.period_upkeep import kept_from_of


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{"day":"2026-11-25","week":"2026-11-23"}', {"day": "2026-11-25", "week": "2026-11-23"}),
        ("{}", {}),
        (None, {}),
        ("", {}),
        ('{"day":"2026-', {}),
        ("[1]", {}),
    ],
)
def test_a_file_that_is_damaged_says_nothing(text: str | None, kept: dict[str, str]) -> None:
    assert kept_from_of(text) == kept

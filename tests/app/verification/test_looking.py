"""How often is looked: until nothing is unsettled."""

from __future__ import annotations

from typing import NamedTuple

from app.verification.looking import until_equal


class Look(NamedTuple):
    """What a look has found."""

    differences: int
    unsettled: int

    def still(self, before: Look) -> Look:
        """Return it as it is."""
        return self._replace(unsettled=min(self.unsettled, before.unsettled))

    def text(self) -> str:
        """Return nothing to read."""
        return ""

    def json(self) -> str:
        """Return nothing to read."""
        return "{}"


def test_what_cannot_be_proved_is_looked_at_again_since_the_stream_may_come_to_it() -> None:
    looks = iter([Look(0, 1), Look(0, 0)])
    assert until_equal(lambda: next(looks), within_s=60) == Look(0, 0)


def test_what_cannot_be_proved_in_time_is_the_result() -> None:
    assert until_equal(lambda: Look(0, 1), within_s=0) == Look(0, 1)

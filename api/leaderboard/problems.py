"""What may be wrong with a question for a board."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from api.http.errors import Kind, OwnProblem
from topology.leaderboard.periods import ALL, NAMES

_HIDDEN: Final = "GET /leaderboard/moderation lists what is hidden"


class NoSuchBoard(OwnProblem):
    """There is nothing to show for a product."""

    kind = Kind(404, "no-such-board", "No such board")

    def __init__(self, product_id: int) -> None:
        super().__init__(
            f"Product {product_id} has no board: it is unknown, or has no score of a known player yet, or all of its"
            f" scores are hidden. GET /leaderboard lists the boards there are; {_HIDDEN}."
        )


class NoSuchPeriodBoard(OwnProblem):
    """There is nothing to show for a product in a period."""

    kind = NoSuchBoard.kind

    def __init__(self, product_id: int, period: str) -> None:
        name, _, day = period.partition("/")
        super().__init__(
            f"Product {product_id} has no board of the {name} that began on {day}: it is unknown, or has no score of a"
            f" known player then, or all of its scores are hidden. GET /leaderboard?period={name}&at={day} lists the"
            f" boards there are; {_HIDDEN}."
        )


class PeriodHasPassed(OwnProblem):
    """The boards of a period are kept no longer."""

    kind = Kind(404, "period-has-passed", "The period has passed")

    def __init__(self, period: str, first: str) -> None:
        name, _, day = period.partition("/")
        super().__init__(
            f"The boards of the {name} that began on {day} are kept no longer: the oldest one that is began on"
            f" {first.partition('/')[2]}. LEADERBOARD_PERIODS_KEPT says for how long."
        )


class PeriodsAreOff(OwnProblem):
    """There are no boards of such a period here."""

    kind = Kind(404, "periods-are-off", "Periods are off")

    def __init__(self, name: str, there: Collection[str]) -> None:
        setting = ",".join((ALL, *(each for each in NAMES if each == name or each in there)))
        super().__init__(
            f"There are no boards of the {name} here: LEADERBOARD_PERIODS={setting} turns them on, at every instance."
        )


class NoSuchRank(OwnProblem):
    """A player holds no rank on a product, or the product is unknown."""

    kind = Kind(404, "no-such-rank", "No such rank")

    def __init__(self, product_id: int, player_id: int | None) -> None:
        super().__init__(
            f"Product {product_id} is unknown. GET /tables/products/keys/{product_id} asks for it."
            if player_id is None
            else f"Player {player_id} has no rank on product {product_id}: there is no score yet, the player or the"
            f" product is unknown, or the player or the score is hidden. {_HIDDEN}."
        )


class RanksAreOff(OwnProblem):
    """The ranks of players are not kept here."""

    kind = Kind(404, "ranks-are-off", "Ranks are off")

    def __init__(self) -> None:
        super().__init__("Ranks of players are not kept here: LEADERBOARD_RANKS=true turns them on, at every instance.")

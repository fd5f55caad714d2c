"""What may be wrong with a question for a board."""

from __future__ import annotations

from api.http.errors import Kind, OwnProblem


class NoSuchBoard(OwnProblem):
    """There is nothing to show for a product."""

    kind = Kind(404, "no-such-board", "No such board")

    def __init__(self, product_id: int) -> None:
        super().__init__(
            f"Product {product_id} has no board: it is unknown, or has no score of a known player yet."
            " GET /leaderboard lists the boards there are."
        )

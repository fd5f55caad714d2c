"""What the leaderboard answers beside what every topology does."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from api.leaderboard.live import WORDS, live_routes
from api.leaderboard.metric_names import METRIC_NAMES
from api.leaderboard.moderation import moderation_routes
from api.leaderboard.period_boards import BOARD_PATH, BoardAnswers
from api.leaderboard.ranks import rank_routes
from api.leaderboard.routes import board_routes, composed
from api.own import Own, Page
from api.serving import Serving
from runtime.declaration import Limits
from topology.leaderboard.board import PERIOD_STORE, STORE
from topology.leaderboard.periods import NAMES

_PAGE: Final = {
    "title": "Leaderboard",
    "about": "Live boards of every game, and the cluster that serves them",
    "things": "boards",
    "json": "leaderboard",
    "rows": "Boards",
    "source": "score events",
}


def _page_values(serving: Serving, limits: Limits) -> dict[str, str]:
    """Return the texts of the page; players and periods are shown where there are some."""
    periods = serving.parts[PERIOD_STORE].running if PERIOD_STORE in serving.parts else {}
    return {
        **_PAGE,
        "depth": str(limits.most),
        "players_hidden": "" if serving.rankings else " hidden",
        **{f"{name}_off": "" if name in periods else " hidden disabled" for name in NAMES},
    }


def leaderboard_routes(serving: Serving) -> Own:
    """Return the routes of the boards, their live updates, and the page for games.

    Args:
        serving: what the application answers from; its topology has a store `leader-boards`, whose rows are lists.
    """
    served = serving.stores[STORE]
    limits = served.store.limits
    assert limits is not None, f"rows of {STORE} are lists"
    boards = BoardAnswers(serving, composed, WORDS)
    return Own(
        routers=[
            # First: `events` is no product, and no end of a range.
            live_routes(boards, serving.traffic, limits),
            # And `moderation` is none either.
            moderation_routes(serving),
            # Before ranges, as `players` is no product either.
            rank_routes(serving),
            board_routes(serving, served, boards, limits),
        ],
        rows=[boards.board],
        page=Page(directory=Path(__file__).parent / "static", values=_page_values(serving, limits)),
        metrics=METRIC_NAMES,
        hint=f"/docs lists the routes, and {BOARD_PATH} is the board of a product.",
    )

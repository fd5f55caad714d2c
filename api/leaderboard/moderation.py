"""The route that says what is hidden, since when and why."""

from __future__ import annotations

from api.http.errors import TableUnavailable
from api.http.routes import Routes
from api.leaderboard.schemas import HiddenRow
from api.serving import Serving
from runtime.errors import StateUnusable
from runtime.serving.table_view import TimedRow
from runtime.windows import nearest_time_text
from topology.leaderboard.moderation import HiddenPlayer, ScoreName, named_by
from topology.leaderboard.topics import MODERATION

_UNAVAILABLE = {"description": "The table is not complete at this instance yet; try again after `Retry-After`"}


def moderation_routes(serving: Serving) -> Routes:
    """Return the route; every instance has all of the table, and asks nobody.

    Args:
        serving: what the application answers from.
    """
    router = Routes(tags=["leaderboard"])
    table = serving.components.tables[MODERATION]

    @router.get(
        "/leaderboard/moderation",
        operation_id="listHidden",
        summary="What is hidden, the oldest first",
        responses={503: _UNAVAILABLE},
    )
    async def all_hidden() -> list[HiddenRow]:
        if reason := table.reason():
            raise TableUnavailable(MODERATION, reason)
        try:
            return [_described(row) for row in table.rows() if row.fields["hidden"]]
        except StateUnusable as error:
            raise TableUnavailable(MODERATION, "its store cannot be read now") from error

    return router


def _described(row: TimedRow) -> HiddenRow:
    named = named_by(row.key)
    player_id, product_id = named if isinstance(named, HiddenPlayer) else (None, None)
    return HiddenRow(
        key=row.key,
        player_id=player_id,
        product_id=product_id,
        entry=row.key.removeprefix("score/") if isinstance(named, ScoreName) else None,
        since=nearest_time_text(row.time_ms),
        reason=row.fields["reason"],
    )

"""The route that says what is hidden."""

from __future__ import annotations

from tests.drivers.cluster import Cluster
from topology.leaderboard.topics import MODERATION

OF_2026_MS = 1_795_622_400_000


async def test_what_is_hidden_is_listed_whatever_the_time_of_its_record() -> None:
    times_ms = {
        "player/1": OF_2026_MS * 1_000_000,
        "player/2/product/6": -(10**15),
        "player/3": -1,
        "score/T/0/7": OF_2026_MS,
        "player/4": OF_2026_MS,
    }
    rows = {key: {"hidden": key != "player/4", "reason": "a cheat"} for key in times_ms}
    cluster = Cluster({}, table_rows={MODERATION: rows}, row_times_ms=times_ms)
    for instance in range(3):
        answer = await cluster.get("/leaderboard/moderation", at=instance)
        assert answer.status_code == 200
        assert [(row["key"], row["since"]) for row in answer.json()] == [
            ("player/2/product/6", "0001-01-01T00:00:00.000Z"),
            ("player/3", "1969-12-31T23:59:59.999Z"),
            ("score/T/0/7", "2026-11-25T16:00:00.000Z"),
            ("player/1", "9999-12-31T23:59:59.999Z"),
        ]

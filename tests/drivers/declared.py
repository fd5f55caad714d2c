"""Topologies for tests of the API: what is declared is all that matters, nothing computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from api.components import Components
from runtime.declaration import Limits, PlainText, Row, Store, Stream, Table, Tables, Topology
from runtime.description import describe
from runtime.keys import Int64, Key, Text
from runtime.serving.views import by_key
from runtime.values import Count
from tests.drivers.fake_view import Boards, FakeView
from tests.drivers.table_views import filled_tables
from topology.leaderboard.moderation import MODERATION_TABLE

DEFAULT_LIMIT = 3

_API = Path(__file__).parents[2] / "api"
STATIC = (_API / "static", _API / "leaderboard" / "static")
"""Where the files of the leaderboard's page are: those that every topology has, and its own."""
PAGE_FILES = frozenset(
    {f"/page/{path.name}" for directory in STATIC for path in directory.iterdir() if path.suffix != ".html"}
    | {"/page/topology.svg", "/page/topology-down.svg"}
)
"""The paths of the files that the leaderboard's page is made of."""


def leaderboard(depth: int = 10) -> Topology:
    """Return a topology with the names, the keys and the limits of the leaderboard's.

    Args:
        depth: the most entries served of a board.
    """
    return Topology(
        "leaderboard",
        source=Stream("score-events", PlainText()),
        tables=[
            *(Table(name, Key("id", Int64), {"name": Text}, key_field="id") for name in ("players", "products")),
            MODERATION_TABLE,
        ],
        stores=[
            Store(
                "leader-boards",
                topic="high-scores",
                rows=_nothing,
                key=Key("product_id", Int64),
                values={"entries": Count()},
                show=_entries,
                limits=Limits(min(DEFAULT_LIMIT, depth), depth),
            )
        ],
        settings={"DEPTH": depth},
    )


def boards_view(boards: Boards, partition_count: int = 4) -> FakeView:
    """Return a view of boards, product id to entries."""
    return FakeView(leaderboard().stores[0], boards, partition_count)


def components_of(view: FakeView, topology: Topology | None = None, **others: Any) -> Components:
    """Return what an instance with a view of one store answers with.

    Args:
        view: of the store.
        topology: whose store it is; by default the leaderboard.
        others: further components.
    """
    topology = topology or leaderboard()
    ready: dict[str, Any] = {"ready": lambda: None}
    return Components(
        topology=topology,
        stores={view.store.name: by_key(view)},
        tables=filled_tables(topology, {}),
        description=describe(topology),
        **(ready | others),
    )


def _nothing(source: Any) -> Any:
    return source


def _entries(row: Row, tables: Tables) -> Any:
    return row["entries"]

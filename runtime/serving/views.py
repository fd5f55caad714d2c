"""The views of a topology's stores and tables."""

from __future__ import annotations

from collections.abc import Mapping

from runtime.copies.copies import Copies
from runtime.serving.local_view import LocalView
from runtime.serving.part_view import Parts
from runtime.serving.ranked_view import RankedView
from runtime.serving.rendered_view import RenderedView
from runtime.serving.stored_view import StoredView
from runtime.serving.table_view import TableView
from runtime.serving.view import View
from runtime.serving.windowed_view import WindowedView


def views_of(copies: Copies) -> dict[str, LocalView]:
    """Return a view of the rows of each store, by its name, which follows what this instance holds of it."""
    views: dict[str, LocalView] = {}
    for store in copies.topology.stores:
        view = RenderedView(store, copies) if store.show is not None else StoredView(store, copies)
        copies.follow(store.name, view)
        views[store.name] = view
    return views


def rankings_of(copies: Copies) -> dict[str, RankedView]:
    """Return a view of the ranking of each store that has one, by its name, which follows what this instance holds."""
    views = {store.name: RankedView(store, copies) for store in copies.topology.stores if store.ranking is not None}
    for name, view in views.items():
        copies.follow(name, view)
    return views


def parts_of(views: Mapping[str, LocalView]) -> dict[str, Parts]:
    """Return views of the rows of one second part, of each store that is lapsing, by its name.

    Args:
        views: as `views_of` returns them.
    """
    return {name: Parts(view) for name, view in views.items() if view.store.lapsing is not None}


def by_key(view: View) -> View:
    """Return the view that has a row a key: of a store with windows, the list of those of the key."""
    return view if view.store.window is None else WindowedView(view)


def tables_of(copies: Copies) -> dict[str, TableView]:
    """Return a view of each table, by the name of its topic."""
    return {topic: TableView(copies, topic) for topic in copies.tables}

"""One instance on a socket whose rows a test changes while a page shows them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from api.main import create_app
from api.own import OwnRoutes, no_own_routes
from runtime.cluster.host_metadata import ClusterMap, HostMetadata
from runtime.declaration import Topology
from runtime.serving.view import Watcher
from tests.drivers.declared import components_of
from tests.drivers.fake_view import FakeView
from tests.drivers.http_instance import EVERY_PARTITION, free_host, serving


class ChangingView(FakeView):
    """Rows that a test changes from its own thread."""

    _loop: asyncio.AbstractEventLoop | None = None

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Have `watcher` told in the event loop of whoever serves."""
        with suppress(RuntimeError):
            self._loop = asyncio.get_running_loop()
        return super().watch(watcher)

    def change(self, key: Any, row: Any) -> None:
        """Have a row read differently from now on; an empty one is gone."""
        if self._loop is None:
            # Nobody serves it yet.
            self._change(key, row)
        else:
            self._loop.call_soon_threadsafe(self._change, key, row)

    def _change(self, key: Any, row: Any) -> None:
        self.shared_rows = {**self.shared_rows, key: row}
        self.changed(key)


@contextmanager
def instance(
    rows: Mapping[Any, Any], topology: Topology, own: OwnRoutes = no_own_routes
) -> Iterator[tuple[str, ChangingView]]:
    """Serve rows of a topology's first store; yields where, and the view that a test changes."""
    host = free_host()
    view = ChangingView(topology.stores[0], rows)
    view.hold(EVERY_PARTITION)
    cluster = ClusterMap((HostMetadata(host, EVERY_PARTITION, runs_stream=True),), len(EVERY_PARTITION))
    with serving(create_app(components_of(view, topology, cluster=lambda: cluster, host=host), own), host):
        yield f"http://{host}", view

"""A cluster in one process: every instance is a whole application, and a network of ASGI calls joins them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import httpx
from starlette.types import ASGIApp

from api.components import Components, PeerSettings, Stopping
from api.http.auth import Tokens
from api.http.delivery import Sharing
from api.leaderboard.own import leaderboard_routes
from api.main import create_app
from api.own import OwnRoutes
from runtime.cluster.host_metadata import ClusterMap, HostInfo, HostMetadata
from runtime.declaration import Topology
from runtime.description import describe
from runtime.keys import KeyValue
from runtime.measures import Measures
from runtime.serving.part_view import Parts
from runtime.serving.ranked_view import RankedView
from runtime.serving.view import View
from runtime.serving.views import by_key
from tests.drivers.declared import leaderboard
from tests.drivers.fake_view import RESTORING, FakeView, Rows
from tests.drivers.streams import AppStream, Events, StreamBody
from tests.drivers.table_views import TableRows, filled_tables, unfilled_tables


@dataclass
class Clock:
    """Monotonic seconds that only tests move."""

    now: float = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


class Apps(dict[HostInfo, ASGIApp]):
    """Who listens.

    Attributes:
        later: makes an application when it is first asked for: it takes 50 ms, and most tests ask one of three.
    """

    def __init__(self) -> None:
        super().__init__()
        self.later: dict[HostInfo, Callable[[], ASGIApp]] = {}

    def __contains__(self, host: object) -> bool:
        return super().__contains__(host) or host in self.later

    def __missing__(self, host: HostInfo) -> ASGIApp:
        app = self[host] = self.later[host]()
        return app


@dataclass
class Network(httpx.AsyncBaseTransport):
    """Carries requests to the application of the host they name.

    Attributes:
        apps: who listens.
        errors: what asking a host raises.
        requests: what was asked, in order.
        authorizations: the header `Authorization` of each, in the same order.
        streams: those that went on, in order.
    """

    apps: Apps = field(default_factory=Apps)
    errors: dict[HostInfo, Exception] = field(default_factory=dict)
    requests: list[tuple[HostInfo, str]] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)
    streams: list[tuple[HostInfo, AppStream]] = field(default_factory=list)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request, or fail as a host does."""
        host = HostInfo(request.url.host, request.url.port or 80)
        self.requests.append((host, request.url.raw_path.decode()))
        self.authorizations.append(request.headers.get("authorization"))
        if host in self.errors:
            raise self.errors[host]
        if host not in self.apps:
            raise httpx.ConnectError("nobody listens")
        if request.url.path.startswith("/internal/") and request.url.path.endswith("/events"):
            return await self._stream(host, request)
        return await _transport_to(self.apps[host]).handle_async_request(request)

    async def _stream(self, host: HostInfo, request: httpx.Request) -> httpx.Response:
        stream = AppStream(self.apps[host], request.url.raw_path.decode(), request.headers)
        self.streams.append((host, stream))
        await stream.open()
        return httpx.Response(stream.status, headers=stream.headers, stream=StreamBody(stream))

    def open_streams(self) -> list[HostInfo]:
        """Return who sends a stream to a peer now, one for each."""
        return [host for host, stream in self.streams if not stream.ended]


def _transport_to(app: ASGIApp) -> httpx.ASGITransport:
    # httpx and Starlette spell the same ASGI types differently.
    return httpx.ASGITransport(cast("Any", app))


class Cluster:
    """Instances that share the rows of a store; partition p is active on instance p modulo `size`, standby on the next.

    Args:
        rows: of the topology's first store, what is shown by what tells its rows apart; other stores are empty.
        size: how many instances.
        partitions: how many partitions each store has.
        depth: the most entries served of a board.
        sharing: who else may use answers.
        tokens: who may ask each instance; by default all may.
        topology: what runs; by default the leaderboard of this depth.
        own: what it answers beside what every one does.
        table_rows: of the topology's tables; others are empty.
        row_times_ms: the timestamps of their records, by key; 0 where none is said.
        unfilled: the numbers of instances that have not read their tables yet.
        rankings: where rows of stores stand, by instance; by default no store has a ranking.
        further: of other stores what is shown, by instance; by default nothing.
        parts: the rows of one second part of keys, by instance; by default no store has them.
        network: what carries requests; by default one that carries all.
        nearest: whether a current copy answers where it is asked.

    Attributes:
        views: of the rows of that store, by instance.
    """

    def __init__(
        self,
        rows: Rows,
        size: int = 3,
        partitions: int = 4,
        depth: int = 10,
        sharing: Sharing | None = None,
        tokens: Sequence[Tokens] = (),
        topology: Topology | None = None,
        own: OwnRoutes = leaderboard_routes,
        table_rows: TableRows | None = None,
        row_times_ms: Mapping[Any, int] | None = None,
        unfilled: Collection[int] = (),
        rankings: Sequence[Mapping[str, RankedView]] = (),
        further: Sequence[Mapping[str, View]] = (),
        parts: Sequence[Mapping[str, Parts]] = (),
        network: Network | None = None,
        *,
        nearest: bool = True,
    ) -> None:
        topology = topology or leaderboard(depth)
        first, *others = topology.stores
        self.clock = Clock()
        self.network = network or Network()
        self.hosts = [HostInfo(f"instance-{number}", 7000) for number in range(size)]
        self.views = [FakeView(first, rows, partitions) for _ in self.hosts]
        self.stopping = [Stopping() for _ in self.hosts]
        self.not_ready: str | None = None
        self.stream_trouble: str | None = None
        self.measures = Measures()
        members = []
        for number, host in enumerate(self.hosts):
            active = {each for each in range(partitions) if each % size == number}
            standby = {each for each in range(partitions) if (each + 1) % size == number} - active
            self.views[number].hold(active)
            self.views[number].hold(standby, "standby", lag=number)
            place = 1 if number == 1 else 0
            members.append(HostMetadata(host, frozenset(active), frozenset(standby), number == 0, place))
        self.map = ClusterMap(tuple(members), partitions, generation=1)
        for number, host in enumerate(self.hosts):
            given: Mapping[str, View] = further[number] if further else {}
            empty = [FakeView(each, {}, partitions) for each in others if each.name not in given]
            for view in empty:
                view.statuses = self.views[number].statuses
            components = Components(
                topology=topology,
                stores={**{view.store.name: by_key(view) for view in (self.views[number], *empty)}, **given},
                tables=(
                    unfilled_tables(topology)
                    if number in unfilled
                    else filled_tables(topology, table_rows or {}, row_times_ms)
                ),
                description=describe(topology),
                rankings=rankings[number] if rankings else {},
                parts=parts[number] if parts else {},
                cluster=lambda: self.map,
                host=host,
                ready=lambda: self.not_ready,
                measures=lambda: self.measures,
                stream_trouble=(lambda: self.stream_trouble) if number == 0 else lambda: None,
                peers=PeerSettings(down_for_s=2.0),
                transport=self.network,
                clock=self.clock,
                tokens=tokens[number] if tokens else Tokens(),
                sharing=sharing or Sharing(),
                stopping=self.stopping[number],
                nearest=nearest,
            )
            self.network.apps.later[host] = partial(create_app, components, own)

    def kill(self, number: int, error: Exception | None = None) -> None:
        """Let every request to an instance fail, from now on."""
        self.network.errors[self.hosts[number]] = error or httpx.ConnectError("refused")
        for host, stream in self.network.streams:
            if host == self.hosts[number] and not stream.ended:
                stream.break_off(httpx.ReadError("killed"))

    def revive(self, number: int) -> None:
        """Let an instance answer again."""
        del self.network.errors[self.hosts[number]]

    def client(self, number: int = 0) -> httpx.AsyncClient:
        """Return a client of one instance, as one from outside."""
        return httpx.AsyncClient(
            transport=_transport_to(self.network.apps[self.hosts[number]]), base_url="http://outside"
        )

    async def events(self, target: str, at: int = 0, last_event_id: str = "") -> Events:
        """Open live updates at one instance, as a browser does."""
        headers = {"last-event-id": last_event_id} if last_event_id else {}
        return Events(await AppStream(self.network.apps[self.hosts[at]], target, headers).open())

    def change(self, key: KeyValue, row: Any, at: Sequence[int] | None = None) -> None:
        """Have a row read differently from now on: at some instances, by default at all."""
        for number in range(len(self.hosts)) if at is None else at:
            view = self.views[number]
            view.shared_rows = {**view.shared_rows, key: row}
            view.advance(view.partition_for(key))
            view.changed(key)

    async def get(self, target: str, at: int = 0, **headers: str) -> httpx.Response:
        """Ask one instance; underscores in names of headers stand for dashes."""
        async with self.client(at) as client:
            return await client.get(target, headers={name.replace("_", "-"): text for name, text in headers.items()})

    def holders(self, key: KeyValue) -> tuple[int, int, int]:
        """Return the numbers of the active, the standby and another instance for a row."""
        active = self.views[0].partition_for(key) % len(self.hosts)
        return active, (active + 1) % len(self.hosts), (active + 2) % len(self.hosts)


def cluster_with_everything(rows: Rows, **settings: Any) -> Cluster:
    """Return three instances with local, forwarded, standby and missing copies.

    Args:
        rows: what is shown, by key.
        settings: further ones of the cluster.
    """
    cluster = Cluster(rows, **settings)
    cluster.views[1].statuses[1] = RESTORING
    cluster.views[2].statuses.clear()
    return cluster

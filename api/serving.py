"""What routes are made of: each store as this instance answers for it, from its own copies and from its peers'."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Final

from fastapi import Request, Response

from api.cluster.peers import Peers
from api.cluster.router import Router
from api.components import Components
from api.http.answers import Answer
from api.http.delivery import Delivery
from api.http.errors import InvalidRequest, PartitionsUnavailable
from api.http.schemas import Address, KeyHosts
from api.http.traffic import Traffic
from api.live.event_stream import Words
from api.live.feeds import Feeds
from api.reads.framing import Rows
from api.reads.gather import Gather
from api.reads.one_row import OneRow
from api.reads.ranks import RankPaths, Ranks
from api.reads.told import Told
from runtime.cluster.host_metadata import HostInfo
from runtime.declaration import Store
from runtime.errors import Fix, InvalidRecord
from runtime.keys import KeyValue
from runtime.serving.part_view import Parts
from runtime.serving.ranked_view import RankedView
from runtime.serving.view import View

_PARTS_KEPT: Final = 64
"""What answers for so many second parts stays made; it costs a millisecond to make."""


class ServedStore:
    """One store.

    Args:
        view: what this instance's copies have of each key.
        components: what the instance answers with.
        peers: the other instances.
        told: of what answers from the same copies; None where nothing else does.

    Attributes:
        view: the same.
        told: how far the copies had read whose answers were given.
    """

    def __init__(self, view: View, components: Components, peers: Peers, told: Told | None = None) -> None:
        self.view = view
        self.told = told or Told(view)
        self._peers = peers
        self._stopping = components.stopping
        self._router = Router(view, components.cluster, components.host, peers.down, nearest=components.nearest)

    @property
    def store(self) -> Store:
        """What it is declared as."""
        return self.view.store

    def parsed(self, text: str, of: View | None = None) -> KeyValue:
        """Return the key of a view, by default `view`, that a text is; raises InvalidRequest when it is none."""
        try:
            return (self.view if of is None else of).key_type.parse(text)
        except InvalidRecord as error:
            raise InvalidRequest(f"{self.store.key.name}: {error}") from error

    def one_row(
        self,
        path: str,
        missing: Callable[[KeyValue], Fix],
        asked: Callable[[KeyValue], tuple[str, str]] | None = None,
    ) -> OneRow:
        """Return what answers a route of one row.

        Args:
            path: the template of the route's path; its last part is the key.
            missing: makes the problem of a key without a row to show.
            asked: see `OneRow`.
        """
        return OneRow(self.view, self._router, self._peers, self.told, path, missing, asked)

    def gather(self, compose: Callable[[Rows], bytes], of: View | None = None) -> Gather:
        """Return what answers routes of many rows.

        Args:
            compose: makes one body of rows, in their order.
            of: the view whose rows they are; by default that by key.
        """
        return Gather(of or self.view, self._router, self._peers, self.told, compose)

    def feeds(self, words: Words, of: View | None = None, *, keeps: bool = True) -> Feeds:
        """Return what live updates come from; they end when the instance stops.

        Args:
            words: what they call things.
            of: the view whose rows they bring; by default that by key.
            keeps: see `Feeds`; not where there are as many as a client can name.
        """
        feeds = Feeds(of or self.view, self._router, self._peers, words, keeps=keeps)
        self._stopping.tell(feeds.end)
        return feeds

    @cached_property
    def plain_feeds(self) -> Feeds:
        """What peers follow, once one does."""
        return self.feeds(Words())

    def hosts_of(self, key: KeyValue) -> KeyHosts:
        """Return who holds a key; raises PartitionsUnavailable while the partitions are not known."""
        if not self.view.partition_count:
            raise PartitionsUnavailable({})
        found = self._router.cluster().key_metadata(self.view.partition_for(key))
        return KeyHosts(
            partition=found.partition,
            active=_address(found.active) if found.active else None,
            standbys=[_address(standby) for standby in found.standbys],
        )


class ServedRanking(ServedStore):
    """Where the rows of one store stand.

    Args:
        view: what this instance's copies say of each row.
        components: what the instance answers with.
        peers: the other instances.

    Attributes:
        ranked: the same view, with all that it can be asked.
    """

    def __init__(self, view: RankedView, components: Components, peers: Peers) -> None:
        super().__init__(view, components, peers)
        self.ranked = view

    def ranks(self, paths: RankPaths) -> Ranks:
        """Return what answers routes about ranks.

        Args:
            paths: what these routes are called, and what is said where there is nothing.
        """
        return Ranks(self.ranked, self._router, self._peers, self.told, paths)


class ServedParts:
    """The rows of one second part of keys, of a store that is lapsing.

    Args:
        parts: what this instance's copies have of them.
        served: makes what answers for a view.

    Attributes:
        running: those of the second parts that run now, by the name of their kind.
        of: returns what answers for the rows of one second part.
    """

    def __init__(self, parts: Parts, served: Callable[[View], ServedStore]) -> None:
        self._parts = parts
        self.of = lru_cache(_PARTS_KEPT)(lambda second: served(parts.of(second)))
        self.running = {name: served(view) for name, view in parts.running.items()}
        self._by_name = {each.view.name: each for each in self.running.values()}

    def named(self, view: str) -> ServedStore | None:
        """Return what answers for a view, by the name that peers know it by; None of another store's."""
        if (running := self._by_name.get(view)) is not None:
            return running
        second = self._parts.second_of(view)
        return None if second is None else self.of(second)


@dataclass(frozen=True, slots=True)
class Serving:
    """What one application answers from.

    Attributes:
        components: what the instance answers with.
        peers: the other instances.
        stores: in the order in which the topology declares them, by name.
        rankings: where rows of stores stand, by the name of the store.
        parts: the rows of one second part of keys, by the name of the store.
        delivery: makes answers about rows ready to be sent.
        traffic: counts answers and open streams.
    """

    components: Components
    peers: Peers
    stores: Mapping[str, ServedStore]
    rankings: Mapping[str, ServedRanking]
    parts: Mapping[str, ServedParts]
    delivery: Delivery
    traffic: Traffic

    async def sent(self, request: Request, answer: Answer) -> Response:
        """Return an answer about rows as it is sent to who asks."""
        return (await self.delivery.of(answer, request.scope["headers"])).to_response()

    @classmethod
    def of(cls, components: Components) -> Serving:
        """Return what an instance with these components answers from."""
        peers = Peers(components.peers, components.transport, components.clock, components.tokens)
        stores = {
            store.name: ServedStore(components.stores[store.name], components, peers)
            for store in components.topology.stores
        }
        rankings = {name: ServedRanking(view, components, peers) for name, view in components.rankings.items()}
        parts = {
            name: ServedParts(of, partial(ServedStore, components=components, peers=peers, told=stores[name].told))
            for name, of in components.parts.items()
        }
        return cls(components, peers, stores, rankings, parts, Delivery(components.sharing), Traffic())


def _address(info: HostInfo) -> Address:
    return Address(host=info.host, port=info.port)

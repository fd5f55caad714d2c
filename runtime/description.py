"""What a topology does, as a graph for people: its sources, steps, result topics and stores, and what flows where.

It is made from the declaration, without Spark. Text and pictures are made from it (`runtime.diagram`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from runtime.declaration import Store, Stream, Table, Topology
from runtime.windows import Session

Kind = Literal["stream", "table", "step", "sink", "store", "reader"]


@dataclass(frozen=True, slots=True)
class Node:
    """One part of a topology.

    Attributes:
        name: what it is called everywhere; no two nodes have the same.
        kind: what it is; a sink is the source of a store as well.
        brief: a few words, for a picture.
        text: what it is or does, in one line.
        lane: the way of the stream is 0, further sources and stores have those below it; tables go beside it, at -1 and
            so on.
        function: of a step, the function that does it, if there is one.
    """

    name: str
    kind: Kind
    brief: str
    text: str
    lane: int = 0
    function: str = ""


Flow = tuple[str, str]
"""From which node to which, by their names."""


class Description(NamedTuple):
    """A topology in words.

    Attributes:
        name: of the topology.
        nodes: in the order in which a record meets them.
        flows: between them.
        summary: what it does, in a few sentences.
    """

    name: str
    nodes: tuple[Node, ...]
    flows: tuple[Flow, ...]
    summary: str


# None is the name of a topic, which has no spaces.
_READ: Final = "read records"
_JOIN: Final = "join streams"
_ANSWER: Final = "interactive queries"


def describe(topology: Topology) -> Description:
    """Return the description that follows from a declaration."""
    sources, tables = topology.sources, topology.tables
    invalid = " and ".join(source.invalid_topic for source in sources)
    branches = [_branch(topology, number) for number in range(len(topology.stores))]
    nodes = (
        *(_stream(source, number) for number, source in enumerate(sources)),
        *(_table(table, -1 - number) for number, table in enumerate(tables)),
        Node(_READ, "step", "drop the unusable", f"what cannot be used goes to {invalid}"),
        *_join(topology),
        *(node for branch in branches for node in branch.nodes),
        *(_table_store(table, -1 - number) for number, table in enumerate(tables)),
        Node(_ANSWER, "reader", "get, range, all", "rows, over HTTP at any instance"),
    )
    flows = (
        *((source.topic, _READ) for source in sources),
        *((_READ, node.name) for node in _join(topology)),
        *(flow for branch in branches for flow in branch.flows),
        *((table.topic, _stored(table)) for table in tables),
        *((_stored(table), _ANSWER) for table in tables),
    )
    return Description(topology.name, nodes, flows, _summary(topology))


def _stream(source: Stream, lane: int) -> Node:
    columns = ", ".join(f"{name} {of_type}" for name, of_type in source.columns.items())
    return Node(source.topic, "stream", "stream", f"stream                 {columns}", lane)


def _join(topology: Topology) -> tuple[Node, ...]:
    join = topology.join
    if join is None:
        return ()
    text = f"by {join.on}, each two within {join.within} of each other"
    return (Node(_JOIN, "step", f"by {join.on}, in {join.within}", text),)


class _Branch(NamedTuple):
    nodes: tuple[Node, ...]
    flows: tuple[Flow, ...]


def _branch(topology: Topology, number: int) -> _Branch:
    """Return the way from what is read, or joined, to one store."""
    store = topology.stores[number]
    nodes = tuple(_way(topology, store, number))
    first = _READ if topology.join is None else _JOIN
    ways = (first, *(node.name for node in nodes), _ANSWER)
    joined = ((table.topic, nodes[0].name) for table in topology.joined(store).values())
    return _Branch(nodes, (*pairwise(ways), *joined))


def _way(topology: Topology, store: Store, number: int) -> Iterator[Node]:
    nth = f" {number + 1}" if len(topology.stores) > 1 else ""
    key = store.key.name
    if store.rows is not None:
        # What is callable need not have a name, such as what `functools.partial` makes.
        name = getattr(store.rows, "__name__", "rows")
        yield Node(f"make rows{nth}", "step", name, _first_line(store), number, name)
    of = _of(store)
    if store.of_join:
        text = f"by {key}, one of each two, which the copies merge: {_values(store)}"
        yield Node(f"make results{nth}", "step", f"by {key}", text, number)
    else:
        if store.final:
            text = "events of sessions that are written already"
            yield Node(f"leave out ended{nth}", "step", "from before", text, number)
        yield Node(f"aggregate rows{nth}", "step", f"by {of}", f"by {of}: {_values(store)}", number)
    if not store.final:
        yield Node(f"merge seed{nth}", "step", "from before", "the rows that the generation began with", number)
    yield Node(store.topic, "sink", "compacted", f"compacted, by {of}", number)
    # A store may be called as its topic is.
    name = store.name if store.name not in topology.topics else f"store {store.name}"
    text = f"a row for each {of}, a partition's active and standby instances"
    yield Node(name, "store", "by partition", text, number)


def _of(store: Store) -> str:
    """Return what tells rows apart."""
    if store.window is None:
        return store.key.name
    return f"{store.key.name} and {'session' if isinstance(store.window, Session) else 'window'}"


def _first_line(store: Store) -> str:
    lines = (store.rows.__doc__ or "").strip().splitlines()
    return lines[0] if lines else f"of store {store.name}"


def _values(store: Store) -> str:
    if isinstance(store.values, Mapping):
        return ", ".join(f"{name} ({type(value).__name__})" for name, value in store.values.items())
    return type(store.record).__name__


def _table(table: Table, lane: int) -> Node:
    text = f"{f'global table, by {table.key.name}':<22} {', '.join(table.fields)}"
    return Node(table.topic, "table", "global table", text, lane)


def _stored(table: Table) -> str:
    return f"store {table.topic}"


def _table_store(table: Table, lane: int) -> Node:
    text = f"{', '.join(table.fields)} of each {table.key.name}, at every instance"
    return Node(_stored(table), "store", "at every instance", text, lane)


def _summary(topology: Topology) -> str:
    kept = " and ".join(f"by {_of(store)} on the topic {store.topic}" for store in topology.stores)
    looked_up = " and from the tables" if topology.tables else ""
    at_pace = "" if topology.every_s is None else f", at most once in {topology.pace}"
    of_each = "" if topology.every_s is None or any(store.final for store in topology.stores) else " for each key"
    records = " and ".join(topology.source_topics)
    join = topology.join
    joined = "" if join is None else f", joined by {join.on} where they are within {join.within} of each other,"
    added_up = "added up" if join is None else "merged"
    follows = (
        f"Records of {records}{joined} become rows, which are {added_up} {kept}{at_pace}{of_each}. Every instance fills"
        f" its stores from there{looked_up}, and answers queries from them."
    )
    return f"{topology.about} {follows}".strip()

"""What a topology declares, for people and programs: `GET /topology`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from api.components import Components
from api.http.openapi import model_name
from api.http.routes import Routes
from api.http.schemas import (
    Column,
    DeclaredStore,
    JoinFacts,
    SessionFacts,
    SourceFacts,
    TableFacts,
    TopologyFacts,
    WindowFacts,
)
from runtime.declaration import Store, Table, Topology
from runtime.keys import Key
from runtime.types import Timestamp
from runtime.values import Fields
from runtime.windows import WINDOW_END, WINDOW_START, EqualWindows, Session

_TYPES: Final = {"string": "text", "int": "integer"}
"""What the types of Spark and of JSON are called here."""


_OF_WINDOW: Final[Mapping[str, Mapping[str, Any]]] = {
    name: dict(Timestamp.json_schema) for name in (WINDOW_START, WINDOW_END)
}


def topology_routes(components: Components) -> Routes:
    """Return the route `/topology`.

    Args:
        components: what the instance answers with.
    """
    router = Routes(tags=["operations"])
    facts = facts_of(components.topology, components.description.flows)

    @router.get(
        "/topology",
        operation_id="getTopology",
        summary="What the topology declares, and what flows where",
        responses={200: {"content": {"application/json": {"example": facts.model_dump(mode="json", by_alias=True)}}}},
    )
    async def topology() -> TopologyFacts:
        return facts

    return router


def facts_of(topology: Topology, flows: tuple[tuple[str, str], ...]) -> TopologyFacts:
    """Return what a topology declares.

    Args:
        topology: the declaration.
        flows: from which part to which, by their names.
    """
    join = topology.join
    return TopologyFacts(
        name=topology.name,
        about=topology.about,
        pace=topology.pace,
        source=SourceFacts(topic=topology.events.topic, columns=_columns(topology)),
        sources=topology.source_topics,
        join=None if join is None else JoinFacts(on=join.on, within=join.within, grace=join.grace),
        tables=[
            TableFacts(
                topic=table.topic,
                key=key_column(table.key),
                columns=table_columns(table),
            )
            for table in topology.tables
        ],
        stores=[
            DeclaredStore(
                name=store.name,
                topic=store.topic,
                key=key_column(store.key),
                columns=columns_of(store),
                window=window_of(store),
                version=store.version,
            )
            for store in topology.stores
        ],
        flows=list(flows),
    )


def key_column(key: Key) -> Column:
    """Return what a key is called, and its type; of one of two parts both names and types, with `/` between."""
    return Column(name=key.name, type=key.type.name)


def key_columns(key: Key) -> list[Column]:
    """Return the columns that a key is in."""
    return [key_column(column) for column in key.columns]


def columns_of(store: Store) -> list[Column]:
    """Return the columns of a store's rows beside the key and the window; none when a row is no object of columns."""
    record = store.record
    if not isinstance(record, Fields):
        return []
    return [
        Column(name=name, type=_TYPES.get(value.json_type, value.json_type))
        for name, value in record.values.items()
        if name != WINDOW_END or store.window is None
    ]


def window_of(store: Store) -> WindowFacts | SessionFacts | None:
    """Return the windows of a store; None where a key has one row."""
    match store.window:
        case EqualWindows() as window:
            return WindowFacts(size=window.size, every=window.every, keep=window.keep, grace=window.grace)
        case Session() as window:
            return SessionFacts(gap=window.gap, keep=window.keep, grace=window.grace)
        case _:
            return None


def table_columns(table: Table) -> list[Column]:
    """Return the columns of a table's rows beside the key."""
    return [Column(name=name, type=of_type.name) for name, of_type in table.fields.items()]


def store_schema(store: Store) -> dict[str, Any]:
    """Return the JSON Schema of a row of a store, as it is without `show`."""
    record = store.record
    values = record.values if isinstance(record, Fields) else {}
    columns = {name: value.json_schema for name, value in values.items()}
    fields = columns if store.window is None else {**_OF_WINDOW, **columns}
    may_lack = [name for name, value in values.items() if value.left_out]
    return _row_schema(model_name(store.name, "Row"), store.key, fields, may_lack)


def table_schema(table: Table) -> dict[str, Any]:
    """Return the JSON Schema of a row of a table."""
    columns = {name: dict(of_type.json_schema) for name, of_type in table.fields.items()}
    return _row_schema(model_name(table.topic, "TableRow"), table.key, columns)


def _row_schema(
    title: str, key: Key, columns: Mapping[str, Mapping[str, Any]], may_lack: Sequence[str] = ()
) -> dict[str, Any]:
    of_key = {column.name: column.type.key_schema for column in key.columns}
    fields = {**of_key, **{name: dict(schema) for name, schema in columns.items()}}
    required = [name for name in fields if name not in may_lack]
    return {"title": title, "type": "object", "properties": fields, "required": required}


def _columns(source: Topology) -> list[Column]:
    names = {name: of_type.name for name, of_type in source.types.items()}
    return [Column(name=name, type=names.get(name, _TYPES.get(spark, spark))) for name, spark in source.columns.items()]

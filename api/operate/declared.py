"""What a topology declares, for people and programs: `GET /topology`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fastapi import APIRouter

from api.components import Components
from api.http.schemas import Column, DeclaredStore, SourceFacts, TableFacts, TopologyFacts
from runtime.declaration import Store, Table, Topology
from runtime.keys import Key
from runtime.values import Fields

_TYPES: Final = {"string": "text", "bigint": "integer", "int": "integer", "double": "number"}
"""What Spark's types are called here."""


def topology_routes(components: Components) -> APIRouter:
    """Return the route `/topology`.

    Args:
        components: what the instance answers with.
    """
    router = APIRouter(tags=["operations"])
    facts = facts_of(components.topology, components.description.flows)

    @router.get(
        "/topology",
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
    return TopologyFacts(
        name=topology.name,
        about=topology.about,
        pace=topology.pace,
        source=SourceFacts(topic=topology.source.topic, columns=_columns(topology.source.format.columns)),
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
                version=store.version,
            )
            for store in topology.stores
        ],
        flows=list(flows),
    )


def key_column(key: Key) -> Column:
    """Return the column that a key is in."""
    return Column(name=key.name, type=key.type.name)


def columns_of(store: Store) -> list[Column]:
    """Return the columns of a store's rows beside the key; none when a row is no object of columns."""
    record = store.record
    if not isinstance(record, Fields):
        return []
    return [Column(name=name, type=value.json_type) for name, value in record.values.items()]


def table_columns(table: Table) -> list[Column]:
    """Return the columns of a table's rows beside the key."""
    return [Column(name=name, type=of_type.name) for name, of_type in table.fields.items()]


def row_schema(key: Key, columns: Iterable[Column]) -> dict[str, Any]:
    """Return the JSON Schema of a row of a key and these columns."""
    fields = {key.name: dict(key.type.json_schema)}
    fields |= {column.name: {"type": "string" if column.type == "text" else column.type} for column in columns}
    return {"type": "object", "properties": fields, "required": list(fields)}


def _columns(of_source: Mapping[str, str]) -> list[Column]:
    return [Column(name=name, type=_TYPES.get(of_type, of_type)) for name, of_type in of_source.items()]

"""The routes of global tables: which there are, one row, how many. Every instance has all of each, and asks nobody."""

# Annotations are read as they stand: those of a table's parameters are made when its routes are.
from typing import Annotated, Any, Final

from fastapi import HTTPException, Path, Request, Response
from pydantic import BeforeValidator, WithJsonSchema

from api.http.answers import JSON_TYPE, SERVED_BY, STORE_LAG, Answer
from api.http.errors import NoSuchRow, NoSuchTable, TableUnavailable
from api.http.key_route import KeyRoute
from api.http.openapi import operation_id
from api.http.parameters import parser_of
from api.http.routes import Routes
from api.http.schemas import TableCount
from api.operate.declared import key_column, table_columns, table_schema
from api.operate.examples import example_of, example_table_row
from api.reads.stores import ETAG_HEADER, KEEP_HEADER, described
from api.serving import Serving
from runtime.errors import StateUnusable
from runtime.keys import KeyValue
from runtime.serving.table_view import TableView

_HEADERS: Final = {
    "X-Served-By": "host:port of the instance that answered",
    "X-Store-Lag": "records that its copy is behind the end of the table's topic",
}
_INVALID: Final = {"description": "A key that cannot be"}
_UNAVAILABLE: Final = {"description": "The table is not complete at this instance yet; try again after `Retry-After`"}


class _Answers:
    """What the routes of one table answer.

    Args:
        view: the table, as this instance has it.
        address: host:port of this instance.
    """

    def __init__(self, view: TableView, address: str) -> None:
        self.view = view
        self.table = view.table
        self._served_by = (SERVED_BY, address.encode())

    async def facts(self) -> TableCount:
        """Return what the table is."""
        try:
            count = await self._count()
        except TableUnavailable:
            count = None
        table = self.table
        return TableCount(name=table.topic, key=key_column(table.key), fields=table_columns(table), count=count)

    async def count(self) -> Answer:
        """Return how many rows it has; raises TableUnavailable."""
        count = await self._count()
        return Answer(200, self._headers(), b"%d" % count)

    def row(self, key: KeyValue) -> Answer:
        """Return the row of a key; raises TableUnavailable, and NoSuchRow when there is none."""
        self._check()
        try:
            rendered = self.view.get(key)
        except StateUnusable as error:
            raise self._unreadable() from error
        if rendered is None:
            raise NoSuchRow(self.table.topic, self.table.key.type.text(key))
        etag = rendered.etag.encode()
        return Answer(200, [*self._headers(), (b"etag", etag)], rendered.body, etag)

    async def _count(self) -> int:
        self._check()
        try:
            return await self.view.count()
        except StateUnusable as error:
            raise self._unreadable() from error

    def _check(self) -> None:
        if reason := self.view.reason():
            raise TableUnavailable(self.table.topic, reason)

    def _unreadable(self) -> TableUnavailable:
        return TableUnavailable(self.table.topic, "its store cannot be read now")

    def _headers(self) -> list[tuple[bytes, bytes]]:
        return [JSON_TYPE, self._served_by, (STORE_LAG, b"%d" % self.view.lag())]


def table_routes(serving: Serving) -> Routes:
    """Return the routes below `/tables`.

    Args:
        serving: what the application answers from.
    """
    router = Routes(tags=["tables"], route_class=KeyRoute)
    address = str(serving.components.host)
    views = serving.components.tables
    tables = {table.topic: _Answers(views[table.topic], address) for table in serving.components.topology.tables}

    @router.get("/tables", operation_id="listTables", summary="Every table of the topology")
    async def all_tables() -> list[TableCount]:
        return [await table.facts() for table in tables.values()]

    for table in tables.values():
        router.add(_routes_of(table, serving))

    @router.get("/tables/{table}", include_in_schema=False)
    @router.get("/tables/{table}/{rest:path}", include_in_schema=False)
    async def unknown(table: str) -> None:
        if table in tables:
            raise HTTPException(404)
        raise NoSuchTable(table, tables)

    return router


def _routes_of(of: _Answers, serving: Serving) -> Routes:
    """Return the routes of one table."""
    table, path = of.table, f"/tables/{of.table.topic}"
    router = Routes(prefix=path, tags=["tables"], route_class=KeyRoute)
    key_example = example_of(key_column(table.key))

    @router.get(
        "/count",
        operation_id=operation_id("count", table.topic, "TableRows"),
        summary=f"Number of rows of {table.topic}",
        response_model=int,
        responses={200: described("A bare JSON number", _HEADERS), 503: _UNAVAILABLE},
    )
    async def count(request: Request) -> Response:
        return await serving.sent(request, await of.count())

    @router.get(
        "/keys/{key}",
        operation_id=operation_id("get", table.topic, "TableRow"),
        summary=f"One row of {table.topic}",
        response_class=Response,
        responses={
            200: described(
                "The row",
                ETAG_HEADER | _HEADERS | KEEP_HEADER,
                table_schema(table),
                example_table_row(table),
            ),
            304: {"description": "The row is the one that `If-None-Match` names"},
            400: _INVALID,
            404: {"description": "No such key"},
            503: _UNAVAILABLE,
        },
    )
    async def one_row(
        request: Request,
        key: Annotated[
            Any,
            BeforeValidator(parser_of(table.key.type)),
            WithJsonSchema({**table.key.type.key_schema, "examples": [key_example]}),
            Path(description=f"a {table.key.name}, percent-encoded"),
        ],
    ) -> Response:
        return await serving.sent(request, of.row(key))

    return router

"""The routes that every topology has for its stores: what they are, one row, many, live, how many, who holds a key.

Each store has paths of its own, so that the document of the routes knows its keys, its columns and its limits.
"""

# Annotations are read as they stand: those of a store's parameters are made when its routes are.
import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final
from urllib.parse import quote, urlencode

from fastapi import HTTPException, Path, Query, Request, Response
from pydantic import BeforeValidator, WithJsonSchema

from api.http.answers import is_hop
from api.http.errors import InvalidRequest, NoSuchKey, NoSuchStore, PartitionsUnavailable
from api.http.key_route import KeyRoute
from api.http.openapi import operation_id
from api.http.parameters import (
    HowMany,
    Order,
    Partial,
    limit_of,
    page_size_of,
    page_within,
    parser_of,
)
from api.http.routes import Routes
from api.http.schemas import KeyHosts, StoreFacts
from api.live.event_stream import Words
from api.live.events import HOW_IT_GOES_ON, described_stream, stream_for
from api.live.feeds import Feeds, Scope
from api.operate.declared import columns_of, key_column, store_schema, window_of
from api.operate.examples import example_of, example_row, example_row_name
from api.reads.cut import Instant, cut_within, since_of, until_of
from api.reads.demand import Demand, demanded
from api.reads.framing import Rows
from api.reads.gather import Gather
from api.reads.one_row import OneRow
from api.serving import ServedStore, Serving
from runtime.declaration import Store
from runtime.keys import KeyType, KeyValue, Text, past_prefix
from runtime.serving.view import Range, inclusive

ROW_HEADERS: Final = {
    "X-Served-By": "host:port of the instance whose store answered",
    "X-Store-Role": "`active` or `standby`",
    "X-Store-Lag": "records that the store is behind the end of its topic partition",
    "X-Store-Position": "how far the store has read; hand it back as `min_position`, so that no answer is older",
}
MISSING_HEADER: Final = {"X-Missing-Partitions": "those that are not in the answer, when a part was asked for"}
KEEP_HEADER: Final = {"Cache-Control": "how long the answer may be kept; `no-store` when it is a part"}
UNAVAILABLE: Final = {"description": "No copy can answer right now; try again after `Retry-After`"}
UNKNOWN_HOSTS: Final = {"description": "The partitions are not known yet; try again after `Retry-After`"}

ETAG_HEADER: Final = {"ETag": "changes with the row; send it back as `If-None-Match`"}
_INVALID: Final = {"description": "A key, a limit or a range that cannot be"}
_PAGED_WITH: Final = (
    "from", "to", "prefix", "order", "limit", "page_size", "partial", "min_position", "require", "max_lag"
)  # fmt: skip
_NOT_NAMED: Final = ("from", "to", "prefix", "order", "page_size", "after")
"""What says which rows of all, and so nothing of those that are named."""
NAMED_MAX: Final = 1000

_ROWS: Final = "The rows; of those that are named, null where there is none"
_ROWS_OF_WINDOWS: Final = (
    "The rows, a window each; of keys that are named, the list of a key's rows, the oldest first, and null where there"
    " is none"
)
_ONE_EVENTS: Final = (
    "`row`: the row, exactly as the route without `/events` gives it, at once and at each change; `gone`: there is no"
    " row to show. A slow client gets the newest row." + HOW_IT_GOES_ON
)
_ALL_EVENTS: Final = (
    "`reset`: forget every row, all come again; `row`: a key and its row; `gone`: the key has no row any more;"
    " `complete`: from here on the client has every row in the cluster." + HOW_IT_GOES_ON
)


class _ServedRoutes:
    """What the routes of one store answer from."""

    def __init__(self, served: ServedStore) -> None:
        self.served = served
        self.path = f"/stores/{served.store.name}"
        name, key_type = served.store.name, served.store.key.type
        self.row: OneRow = served.one_row(f"{self.path}/keys/{{key}}", lambda key: NoSuchKey(name, key_type.text(key)))
        self.by_key: Gather = served.gather(listed)
        self.feeds: Feeds = served.feeds(Words())
        self.gather, self.feeds_of_rows = self.by_key, self.feeds
        if (by_row := served.view.by_row) is not served.view:
            self.gather, self.feeds_of_rows = served.gather(listed, by_row), served.feeds(Words(), by_row)

    def in_rows(self, keys: Range) -> Range:
        """Return the range of rows that those of a range of keys are."""
        windows = self.served.store.window
        if windows is None:
            return keys
        first, end = (None if key is None else windows.first_of(key) for key in (keys.first, keys.end))
        return keys._replace(first=first, end=end)

    async def facts(self, *, hop: bool) -> StoreFacts:
        """Return what the store is."""
        store = self.served.store
        return StoreFacts(
            name=store.name,
            topic=store.topic,
            key=key_column(store.key),
            columns=columns_of(store),
            window=window_of(store),
            partitions=self.served.view.partition_count,
            count=await self._count(hop=hop),
        )

    async def _count(self, *, hop: bool) -> int | None:
        try:
            return int((await self.gather.count(hop=hop, partial=False)).body)
        except PartitionsUnavailable:
            return None


def store_routes(serving: Serving) -> tuple[Routes, list[OneRow]]:
    """Return the routes below `/stores`, and what answers those of one row.

    Args:
        serving: what the application answers from.
    """
    router = Routes(tags=["stores"], route_class=KeyRoute)
    stores = {name: _ServedRoutes(served) for name, served in serving.stores.items()}

    @router.get("/stores", operation_id="listStores", summary="Every store of the topology")
    async def all_stores(request: Request) -> list[StoreFacts]:
        hop = is_hop(request.scope["headers"])
        return list(await asyncio.gather(*(store.facts(hop=hop) for store in stores.values())))

    for store in stores.values():
        router.add(_routes_of(store, serving))

    @router.get("/stores/{store}", include_in_schema=False)
    @router.get("/stores/{store}/{rest:path}", include_in_schema=False)
    async def unknown(store: str) -> None:
        if store in stores:
            raise HTTPException(404)
        raise NoSuchStore(store, stores)

    return router, [store.row for store in stores.values()]


def _routes_of(of: _ServedRoutes, serving: Serving) -> Routes:
    """Return the routes of one store."""
    store, limits = of.served.store, of.served.store.limits
    router = Routes(prefix=of.path, tags=["stores"], route_class=KeyRoute)
    limit_parameter, default_limit = limit_of(limits, "a row"), None if limits is None else limits.default
    is_key = BeforeValidator(parser_of(store.key.type))
    schema = WithJsonSchema(store.key.type.key_schema)
    is_row_key = BeforeValidator(parser_of(store.row_key))
    row_schema = schema if store.window is None else WithJsonSchema({"type": "string"})
    schema_of_row, schema_of_key = _row_schema(store), _key_schema(store)
    many = {"type": "array", "items": _any_of(schema_of_row, schema_of_key, {"type": "null"})}
    example, key_example = example_row(serving.components.topology, store), example_of(key_column(store.key))
    example_of_key = example if store.window is None or example is None else [example]
    key_parameter = Path(description=f"a {store.key.name}, percent-encoded")
    path_schema = WithJsonSchema({**store.key.type.key_schema, "examples": [key_example]})
    is_text = store.key.type is Text
    one, by_window = ("One row", "") if store.window is None else ("The windows of one key", " and windows")
    Demanded = Annotated[Demand, demanded(store.name)]  # noqa: N806  # a type, of this store

    @router.get("", operation_id=operation_id("describe", store.name), summary=f"Store {store.name}")
    async def one_store(request: Request) -> StoreFacts:
        return await of.facts(hop=is_hop(request.scope["headers"]))

    @router.get(
        "/count",
        operation_id=operation_id("count", store.name, "Rows"),
        summary=f"Number of rows of {store.name} in the cluster",
        response_model=int,
        responses={200: described("A bare JSON number", MISSING_HEADER), 400: _INVALID, 503: UNAVAILABLE},
    )
    async def count(request: Request, demand: Demanded, partial: Partial = False) -> Response:
        answer = await of.gather.count(hop=is_hop(request.scope["headers"]), partial=partial, demand=demand)
        return await serving.sent(request, answer)

    @router.get(
        "/keys",
        operation_id=operation_id("list", store.name, "Rows"),
        summary=f"Rows of {store.name}, in the order of their keys{by_window}, or those that are named",
        response_class=Response,
        responses={
            200: described(
                _ROWS if store.window is None else _ROWS_OF_WINDOWS,
                MISSING_HEADER | _link_header(of.path) | KEEP_HEADER,
                many,
                None if example is None else [example],
            ),
            400: _INVALID,
            503: UNAVAILABLE,
        },
    )
    async def rows(
        request: Request,
        demand: Demanded,
        key: Annotated[
            list[Annotated[Any, is_key, schema]],
            Query(
                default_factory=list,
                description=f"only these rows, at most {NAMED_MAX}, in this order; goes with `limit` and `partial`",
                json_schema_extra={"maxItems": NAMED_MAX},
            ),
        ],
        first: Annotated[Any, is_key, schema, Query(alias="from", description="the lowest key, inclusive")] = None,
        last: Annotated[Any, is_key, schema, Query(alias="to", description="the highest key, inclusive")] = None,
        limit: Annotated[HowMany, limit_parameter] = default_limit,
        page_size: Annotated[HowMany, page_size_of("at most so many rows; all when left out")] = None,
        after: Annotated[
            Any,
            is_row_key,
            row_schema,
            Query(description="only rows that come after this one, the last of the page before"),
        ] = None,
        prefix: Annotated[
            str | None,
            WithJsonSchema({"type": "string"}),
            Query(description="only keys that begin with this text", include_in_schema=is_text),
        ] = None,
        order: Order = "asc",
        partial: Partial = False,
    ) -> Response:
        cut, size = cut_within(store, limit), page_within(page_size, after, "rows")
        hop = is_hop(request.scope["headers"])
        if key:
            _check_named(key, request.query_params)
            answer = await of.by_key.named(key, cut, hop=hop, partial=partial, demand=demand)
            return await serving.sent(request, answer)
        within = of.in_rows(_range(store.key.type, first, last, prefix))._replace(descending=order == "desc")
        if size is None:
            answer = await of.gather.rows(cut, within, hop=hop, partial=partial, demand=demand)
            return await serving.sent(request, answer)
        answer, end = await of.gather.page(cut, after, size, within, hop=hop, partial=partial, demand=demand)
        if end is not None:
            link = next_page(f"{of.path}/keys", request.query_params, _PAGED_WITH, store.row_key.text(end))
            answer = answer._replace(headers=[*answer.headers, link])
        return await serving.sent(request, answer)

    @router.get(
        "/keys/{key}",
        operation_id=operation_id("get", store.name, "Row"),
        summary=f"{one} of {store.name}",
        response_class=Response,
        responses={
            200: described(
                "The row" if store.window is None else "The rows of its windows, the oldest first",
                ETAG_HEADER | ROW_HEADERS | KEEP_HEADER,
                schema_of_key,
                example_of_key,
            ),
            304: {"description": "The row is the one that `If-None-Match` names"},
            400: _INVALID,
            404: {"description": "No such key"},
            503: UNAVAILABLE,
        },
    )
    async def one_row(
        request: Request,
        demand: Demanded,
        key: Annotated[Any, is_key, path_schema, key_parameter],
        limit: Annotated[HowMany, limit_parameter] = default_limit,
        since: Annotated[Instant, since_of(store)] = None,
        until: Annotated[Instant, until_of(store)] = None,
    ) -> Response:
        cut, hop = cut_within(store, limit, since, until), is_hop(request.scope["headers"])
        return await serving.sent(request, await of.row.answer(key, cut, hop=hop, demand=demand))

    @router.get(
        "/events",
        operation_id=operation_id("watch", store.name, "Rows"),
        summary=f"Every row of {store.name}, live",
        response_class=Response,
        responses={200: described_stream(_ALL_EVENTS, _all_example(example_row_name(store), example)), 400: _INVALID},
    )
    async def all_events(request: Request, limit: Annotated[HowMany, limit_parameter] = default_limit) -> Response:
        return stream_for(request, of.feeds_of_rows, serving.traffic, Scope(cut_within(store, limit)))

    @router.get(
        "/keys/{key}/events",
        operation_id=operation_id("watch", store.name, "Row"),
        summary=f"{one} of {store.name}, live",
        response_class=Response,
        responses={200: described_stream(_ONE_EVENTS, _one_example(example_of_key)), 400: _INVALID},
    )
    async def events_of(
        request: Request,
        key: Annotated[Any, is_key, path_schema, key_parameter],
        limit: Annotated[HowMany, limit_parameter] = default_limit,
        since: Annotated[Instant, since_of(store)] = None,
        until: Annotated[Instant, until_of(store)] = None,
    ) -> Response:
        return stream_for(request, of.feeds, serving.traffic, Scope(cut_within(store, limit, since, until), key))

    @router.get(
        "/keys/{key}/host",
        operation_id=operation_id("get", store.name, "RowHosts"),
        summary=f"Who holds a key of {store.name}",
        responses={400: _INVALID, 503: UNKNOWN_HOSTS},
    )
    async def hosts_of(
        key: Annotated[Any, is_key, path_schema, key_parameter],
    ) -> KeyHosts:
        return of.served.hosts_of(key)

    return router


def listed(rows: Rows) -> bytes:
    """Return the JSON list of rows, in the given order."""
    return b"[%b]" % b",".join([row for _, row in rows])


def next_page(path: str, query: Mapping[str, str], kept: tuple[str, ...], last: str) -> tuple[bytes, bytes]:
    """Return the header that leads to the next page (RFC 8288).

    Args:
        path: of all pages.
        query: what this page was asked for with.
        kept: which of these the next page has as well.
        last: the text of the last key of this page.
    """
    parameters = {name: query[name] for name in kept if name in query} | {"after": last}
    return b"link", f'<{path}?{urlencode(parameters, quote_via=quote)}>; rel="next"'.encode()


def described(description: str, headers: Mapping[str, str], schema: Any = None, example: Any = None) -> dict[str, Any]:
    """Return what the document of the routes says of an answer.

    Args:
        description: what it is.
        headers: what each says.
        schema: of the body, when FastAPI cannot know it.
        example: a body, if one is known.
    """
    said: dict[str, Any] = {
        "description": description,
        "headers": {name: {"description": text, "schema": {"type": "string"}} for name, text in headers.items()},
    }
    content = {name: value for name, value in (("schema", schema), ("example", example)) if value is not None}
    return said | {"content": {"application/json": content}} if content else said


def _link_header(path: str) -> dict[str, str]:
    return {"Link": f'the next page, `<{path}/keys?page_size=2&after=…>; rel="next"`, while there is one'}


def _range(key_type: KeyType, first: KeyValue | None, last: KeyValue | None, prefix: str | None) -> Range:
    if prefix is not None:
        if key_type is not Text:
            raise InvalidRequest(f"prefix: keys of this store are of the type {key_type.name}; ask with from and to")
        if first is not None or last is not None:
            raise InvalidRequest("prefix: it is a range by itself; leave it out, or from and to")
        # Every key begins with nothing.
        return Range(prefix or None, past_prefix(prefix))
    if first is not None and last is not None and first > last:
        above, below = (json.dumps(key_type.text(key) if isinstance(key, tuple) else key) for key in (first, last))
        raise InvalidRequest(f"from: {above} is above to: {below}; the lower key comes first")
    return inclusive(key_type, first, last)


def _check_named(keys: Sequence[KeyValue], query: Mapping[str, str]) -> None:
    if len(keys) > NAMED_MAX:
        raise InvalidRequest(f"key: {len(keys)} keys are more than {NAMED_MAX}; ask for them in several requests")
    if others := [name for name in _NOT_NAMED if name in query]:
        raise InvalidRequest(f"key: it names the rows; leave out {', '.join(others)}")


def _one_example(row: Any) -> str:
    return f"retry: 500\n\nid: 1f0c6a52e1b8a3d09f4e7c2b\nevent: row\ndata: {_data(row)}\n\n:\n\n"


def _all_example(key: KeyValue, row: Any) -> str:
    return (
        "retry: 500\n\n"
        "id:\nevent: reset\ndata: {}\n\n"
        f"id: 8b1f5c0a77d2-1\nevent: row\ndata: {_data({'key': key, 'row': row})}\n\n"
        'id: 8b1f5c0a77d2-1\nevent: complete\ndata: {"rows":1}\n\n:\n\n'
    )


def _data(shown: Any) -> str:
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


def _row_schema(store: Store) -> dict[str, Any]:
    """Return the JSON Schema of a row, as far as the declaration says it."""
    if store.limits is not None:
        return {"type": "array", "items": {}, "maxItems": store.limits.most}
    if store.show is not None:
        return {}
    return store_schema(store)


def _key_schema(store: Store) -> dict[str, Any]:
    """Return the JSON Schema of what a key has: a row, or a list of those of its windows."""
    row = _row_schema(store)
    return row if store.window is None else {"type": "array", "items": row}


def _any_of(*schemas: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema for at, schema in enumerate(schemas) if schema not in schemas[:at]]}

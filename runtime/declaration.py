"""What a topology is: frozen values that check themselves when they are made, so when a topology is loaded.

Topology ── source: Stream … (a topic, and how its records are read; several that are read alike are one)
         │          or Joined … (two, joined where their records are of about the same time)
         ├─ tables: Table … (a topic, a key and fields; every instance holds all of it)
         ├─ stores: Store … (rows of the source, a key, values; a result topic)
         └─ upkeep: what only few topologies need while their stream runs
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from runtime.durations import NO_GRACE, check_lengths, seconds_of
from runtime.errors import DeclarationError
from runtime.kafka.partitioner import partition_by_part, partition_for
from runtime.keys import Int64, Key, KeyType, KeyValue, Text
from runtime.lapsing import Lapsing
from runtime.ranking import Ranking
from runtime.types import FIELD_DIGITS, Boolean, ColumnType, Decimal, Double, Timestamp
from runtime.values import Fields, Value, Values
from runtime.windows import WINDOW_END, WINDOW_START, Session, SessionEnd, Windows, window_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BESIDE_STORES: Final = frozenset({"lock", "notes", "spark", "spark.log"})
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")
_TOPIC: Final = re.compile(r"(?!\.\.?$)[A-Za-z0-9._-]{1,200}")
_COLUMN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")

_SPELLED: Final = {
    _NAME: "a letter, then letters, digits, _ or -, 100 at most",
    _TOPIC: "letters, digits, ., _ or -, 200 at most",
    _COLUMN: "a letter or _, then letters, digits or _, 100 at most",
}

_RESERVED: Final = re.compile(r"(?i)at|made|values|(__|made_|part_).*")
"""Names of the runtime's own columns beside a key."""
_RESERVED_BESIDE_VALUES: Final = re.compile(r"(?i)(__|made_|part_).*")

_LONGEST_PACE_S: Final = 3600

REAL_TIME: Final = "real time"
"""The pace at which each event changes a result at once."""

Row = Mapping[str, Any]
"""What is served of a key: the key's column and those of the values, by name."""

Tables = Mapping[str, Any]
"""The tables as they are now, by the name of their topic: rows by key, each a mapping of fields. Each look-up is
remembered, so that a change of the row is seen at once. Of a table that is held whole it is what `Whole` makes."""


class Concern(NamedTuple):
    """Which results may read differently when a row of a table has changed that is held whole.

    Attributes:
        rows: those that have looked at one of these rows: the name of a table's topic, and the key.
        text: those whose values have this in their JSON, as bytes; None: none because of that.
    """

    rows: Sequence[tuple[str, KeyValue]] = ()
    text: bytes | None = None


@dataclass(frozen=True)
class Whole:
    """How a table is held whole: as one value in memory, so that `show` need not look up a row for each question.

    For tables of few rows: with each change the value is made anew of all of them.

    Attributes:
        make: a pure function from the rows, keys with their fields, to a value that does not change.
        concerns: a pure function from a key to the results that its row may change.
    """

    make: Callable[[Mapping[Any, Mapping[str, Any]]], Any]
    concerns: Callable[[KeyValue], Concern]


class RecordFormat(Protocol):
    """How the records of a source are read.

    `judge` returns every record with `reason string`, why it cannot be used or null, the declared columns and that of
    the key, and `partition int, offset bigint, timestamp timestamp`; `topic string` as well where the records have it,
    for sources that are several topics. A declared column that is called as one of these is called
    `runtime.spark.beside_value.column_of` it until there is `at`.
    """

    @property
    def columns(self) -> Mapping[str, str]:
        """The columns that rows are made of, and their Spark types."""

    def judge(self, records: DataFrame, key: Key | None = None) -> DataFrame:
        """Return what each record says.

        Args:
            records: `key binary, value binary, partition int, offset bigint, timestamp timestamp`.
            key: what the record's key is, where it is a column.
        """


@dataclass(frozen=True)
class PlainText:
    """A record is a line of text: one column, `text`. What is no UTF-8, and a record without a value, is unusable."""

    @property
    def columns(self) -> Mapping[str, str]:
        """The column `text`."""
        return {"text": "string"}

    def judge(self, records: DataFrame, key: Key | None = None) -> DataFrame:
        """Return what each record says; see `RecordFormat`."""
        from runtime.spark.text import judge

        return judge(records, key)


@dataclass(frozen=True)
class Json:
    """A record is a JSON object: a column a field, null where an optional one is missing. Other fields are ignored.

    What is no such object is unusable, and so is one without a field, or with a field that is not of its type. Numbers,
    booleans and times may be in quotes. A `Timestamp` is ISO 8601 with a zone, or milliseconds from 1970. The five
    bytes that the serializers of schema registries put in front are passed over.

    >>> Json({"user": Text, "city": Text}, optional=["city"]).columns
    {'user': 'string', 'city': 'string'}

    Attributes:
        fields: their types by name: `Text`, `Int64`, `Decimal(n)`, `Double`, `Boolean`, `Timestamp`.
        optional: those of them that may be missing, or null.
    """

    fields: Mapping[str, ColumnType]
    optional: Collection[str] = ()

    def __post_init__(self) -> None:
        if not _is_mapping(self.fields):
            raise DeclarationError('Json has no fields: name at least one, as in Json({"user": Text})')
        for name, of_type in self.fields.items():
            _check_source_column(name, "a field of Json")
            if not isinstance(of_type, ColumnType):
                raise DeclarationError(
                    f"field {name} of Json is {of_type!r}: give it a type,"
                    " Text, Int64, Decimal(n), Double, Boolean or Timestamp"
                )
        _check_case(self.fields, "fields of Json")
        if isinstance(self.optional, str):
            raise DeclarationError(f'optional of Json is {self.optional!r}: write ["{self.optional}"]')
        for name in self.optional:
            if name not in self.fields:
                raise DeclarationError(f"optional of Json names {name}, which is none of its fields: give it a type")
        # Whether two are alike is not a matter of how it was written.
        object.__setattr__(self, "optional", tuple(self.optional))

    @property
    def columns(self) -> Mapping[str, str]:
        """A column a field."""
        return {name: of_type.spark for name, of_type in self.fields.items()}

    def judge(self, records: DataFrame, key: Key | None = None) -> DataFrame:
        """Return what each record says; see `RecordFormat`."""
        from runtime.spark.json import judge

        return judge(records, self.fields, self.optional, key)


@dataclass(frozen=True)
class Stream:
    """A topic of events.

    Attributes:
        topic: its name; what cannot be used of it goes to `<topic>-invalid`.
        format: how a record is read.
        partitions: how many it gets where it does not exist.
        key: what the key of a record is, where it is a column: of a record without one nothing can be used then.
    """

    topic: str
    format: RecordFormat
    partitions: int = 4
    key: Key | None = None

    def __post_init__(self) -> None:
        _check(_TOPIC, self.topic, "the topic of a Stream")
        if isinstance(self.format, type) or not hasattr(self.format, "judge"):
            raise DeclarationError(
                f'the format of stream {self.topic} is {self.format!r}: give PlainText() or Json({{"user": Text}})'
            )
        _check_partitions(self.partitions, f"stream {self.topic}")
        if self.key is not None:
            _check_key(self.key, f"stream {self.topic}")
            _check_one_part(self.key, f"stream {self.topic}")
            _check_source_column(self.key.name, f"the key of stream {self.topic}")
            if self.key.name in self.format.columns:
                raise DeclarationError(
                    f"stream {self.topic} has a column {self.key.name}, as its key: give the key another name"
                )
            _check_case((self.key.name, *self.format.columns), f"columns of stream {self.topic}")

    @property
    def columns(self) -> Mapping[str, str]:
        """The columns that rows are made of, and their Spark types; beside them there is `at`."""
        of_key = {} if self.key is None else {self.key.name: self.key.type.spark}
        return {**of_key, **self.format.columns}

    @property
    def types(self) -> dict[str, ColumnType]:
        """The types of those columns of which a declaration has one."""
        found = {name: _type_of(spark) for name, spark in self.columns.items()}
        return {name: of_type for name, of_type in found.items() if of_type is not None}

    def judge(self, records: DataFrame) -> DataFrame:
        """Return what each record says; see `RecordFormat`."""
        return self.format.judge(records, self.key)

    @property
    def invalid_topic(self) -> str:
        """The topic of its dead letters."""
        return f"{self.topic}-invalid"


@dataclass(frozen=True)
class Table:
    """A compacted topic of rows, of which every instance holds all.

    A record is the key's text, and a JSON object with the fields; a null value deletes the row.

    Attributes:
        topic: its name, and the table's.
        key: what tells its rows apart.
        fields: what a row has beside the key, and its types.
        key_field: a field of the JSON object that has to repeat the key, if there is one.
        partitions: how many the topic gets where it does not exist.
        whole: how `show` is given it as one value; left out, it looks rows up by key.
        own: whether the service creates the topic where it does not exist, as it does those of results: nobody has to
            have sent anything to it.
    """

    topic: str
    key: Key
    fields: Mapping[str, ColumnType]
    key_field: str | None = None
    partitions: int = 4
    whole: Whole | None = None
    own: bool = False

    def __post_init__(self) -> None:
        _check(_TOPIC, self.topic, "the topic of a Table")
        _check_key(self.key, f"table {self.topic}")
        _check_partitions(self.partitions, f"table {self.topic}")
        if not isinstance(self.fields, Mapping):
            raise DeclarationError(
                f'the fields of table {self.topic} are {self.fields!r}: name them with types, as in {{"name": Text}}'
            )
        _check_one_part(self.key, f"table {self.topic}")
        for name in (self.key.name, *self.fields):
            _check(_COLUMN, name, f"a column of table {self.topic}")
        if not self.fields:
            raise DeclarationError(f"table {self.topic} has no fields: name at least one")
        for name, of_type in self.fields.items():
            if not isinstance(of_type, ColumnType):
                raise DeclarationError(
                    f'field {name} of table {self.topic} is {of_type!r}: give it a type, as {{"{name}": Text}}'
                )
        if self.key.name in self.fields:
            raise DeclarationError(f"table {self.topic} has a field {self.key.name}, as its key: give it another name")
        _check_case((self.key.name, *self.fields), f"columns of table {self.topic}")


@dataclass(frozen=True)
class Joined:
    """Two streams joined: an event for each two records, one of each, with the same `on` and not too far apart in time.

    It has the columns of the left stream, then those of the right one. Its `at` is that of the later record. For
    topologies at a pace.

    >>> orders = Stream("orders", Json({"order": Int64, "item": Text}))
    >>> payments = Stream("payments", Json({"order": Int64, "paid": Decimal(2)}))
    >>> Joined(orders, payments, on="order", within="5 minutes").columns
    {'order': 'bigint', 'item': 'string', 'paid': 'decimal(18,2)'}

    Attributes:
        left: a stream.
        right: another one.
        on: the column that is the same in both records. A record without it cannot be used.
        within: how far apart their timestamps may be at most, whichever comes first.
        grace: how late a record may come, in stream time; what is later is left out.
    """

    left: Stream
    right: Stream
    on: str
    within: str
    grace: str = NO_GRACE

    def __post_init__(self) -> None:
        for side in self.sides:
            if not isinstance(side, Stream):
                raise DeclarationError(f"Joined has {side!r}: join two streams, as Stream(topic, format)")
            if self.on not in side.columns:
                there = ", ".join(side.columns)
                raise DeclarationError(
                    f"{self._said} on {self.on}, which {side.topic} does not have (it has {there}): name a column of"
                    " both"
                )
        types = [side.columns[self.on] for side in self.sides]
        if types[0] != types[1]:
            raise DeclarationError(f"{self._said} on {self.on}, which is {' and '.join(types)}: give it one type")
        if twice := (self.left.columns.keys() & self.right.columns.keys()) - {self.on}:
            raise DeclarationError(
                f"{self._said} with column {min(twice)} in both: leave the field out of one stream's Json, or have its"
                " producer name it otherwise"
            )
        _check_case([*self.left.columns, *self.right.columns.keys() - {self.on}], f"columns of {self._said}")
        check_lengths(f"{self._said} with", self, ("within", "grace"))

    @property
    def sides(self) -> tuple[Stream, Stream]:
        """Both streams."""
        return self.left, self.right

    @property
    def columns(self) -> dict[str, str]:
        """The columns that rows are made of, and their Spark types."""
        return {**self.left.columns, **self.right.columns}

    @property
    def types(self) -> dict[str, ColumnType]:
        """The types of those columns of which a declaration has one."""
        return {**self.left.types, **self.right.types}

    @property
    def within_s(self) -> int:
        """How far apart the records may be, in seconds."""
        return seconds_of(self.within) or 0

    @property
    def late_ms(self) -> int:
        """How far behind stream time a record is that comes too late, in milliseconds."""
        return (seconds_of(self.grace) or 0) * 1000 + 1

    @property
    def _said(self) -> str:
        return f"{self.left.topic} and {self.right.topic} are joined"


class Limits(NamedTuple):
    """How much of a row that is a list a reader gets.

    Attributes:
        default: entries when a reader does not say.
        most: what a reader may ask for.
    """

    default: int
    most: int


Rows = Callable[..., "DataFrame"]
Show = Callable[[Row, Tables], Any]


@dataclass(frozen=True)
class Beside:
    """Another store whose rows a store's query makes as well, so that each record is read once for both.

    Attributes:
        store: the other one, of the same values and without windows. Its key is the first part of the store's.
        second: the second part of the key that the rows of the other one have in the query, a text which no row of the
            store's own has there.
        rows: makes the rows of both; as `rows` of a store, which makes those of one.
    """

    store: Store
    second: str
    rows: Rows


@dataclass(frozen=True)
class Store:
    """What is kept of the source, and served.

    Attributes:
        name: of the store.
        topic: the result topic; compacted.
        rows: a pure function from the source's columns to rows, each with the key, `at` and what the values are made
            of. Beside the source it is given the tables that its further parameters are named for (`-` as `_`). Left
            out: the source's own columns.
        key: what tells rows apart; one of two parts, as in `Key("city", Text) / Key("year", Int64)`, has all rows of
            the first part in one partition.
        values: named values, or one that is the whole record.
        show: a pure function of a row and the tables as they are now to what is served, or None to hide it. Left out:
            the row itself.
        limits: of what `show` returns, when that is a list.
        keys_only: whether `rows` only asks which rows tables have, and is given their keys alone.
        version: raised when rows, values or windows are others than before. What earlier versions have left is answered
            until this one has read all that its sources hold, and is deleted then.
        partitions: how many the result topic gets where it does not exist.
        window: the stretches of event time of which each has a row of its own, `Tumbling`, `Hopping` or `Session`; left
            out where a key has one row.
        ranking: how rows with the same first part of the key are ranked, where they are.
        records_per_batch: at most so many records are read at a time while a backlog is read; left out, some millions.
            What a batch adds up of very many keys has to fit into the heap of the driver.
        lapsing: what the clock says of the second part of keys, where that is a stretch of time.
        settings: what its rows depend on, by the names of settings: another value begins a new generation.
        beside: another store of the topology that has no query, since the one of this store makes its rows as well.
        of_join: whether its rows are of two streams that are joined; its topology knows.
    """

    name: str
    topic: str
    key: Key
    values: Mapping[str, Value] | Values
    rows: Rows | None = None
    show: Show | None = None
    limits: Limits | None = None
    keys_only: bool = False
    version: int = 1
    partitions: int = 4
    window: Windows | None = None
    ranking: Ranking | None = None
    records_per_batch: int | None = None
    lapsing: Lapsing | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    beside: Beside | None = None
    of_join: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        _check(_NAME, self.name, "the name of a Store")
        _check(_TOPIC, self.topic, f"the topic of store {self.name}")
        _check_key(self.key, f"store {self.name}")
        _check_partitions(self.partitions, f"store {self.name}")
        self._check_functions()
        self._check_numbers()
        for column in self.key.columns:
            _check(_COLUMN, column.name, f"the key of store {self.name}")
            if _RESERVED.fullmatch(column.name):
                raise DeclarationError(
                    f"store {self.name} has the key {column.name}, a column of the runtime's own: give it another name"
                )
        if not isinstance(self.values, Values):
            self._check_fields(self.values)
        if self.window is not None:
            self._check_window(self.window)
        if self.lapsing is not None and not self.key.parts:
            raise DeclarationError(f"store {self.name} is lapsing: give it a key of two parts, the second one the time")
        if self.ranking is not None and [part.type for part in self.key.parts[1:]] != [Int64]:
            raise DeclarationError(
                f"store {self.name} has a ranking and the key {self.key.name}: give it a key of two parts, of which the"
                " second one is an Int64"
            )
        if self.limits is not None and self.show is None:
            raise DeclarationError(f"store {self.name} has limits and no show: only what show returns can be a list")
        if self.beside is not None:
            self._check_beside(self.beside)

    def _check_beside(self, beside: object) -> None:
        of = f"store {self.name}"
        if not isinstance(beside, Beside):
            raise DeclarationError(f'beside of {of} is {beside!r}: give Beside(store, "all", rows), the rows of both')
        other: object = beside.store
        second: object = beside.second
        if not isinstance(other, Store) or not _takes(beside.rows, least=1):
            raise DeclarationError(f"beside of {of} is {beside!r}: give it a store, and a function for both")
        alike = ("values", "version", "partitions", "keys_only", "records_per_batch")
        keys_fit = [part.type for part in self.key.parts] == [other.key.type, Text]
        are_alike = all(getattr(self, each) == getattr(other, each) for each in alike) and other.window is None
        if not (keys_fit and are_alike):
            raise DeclarationError(
                f"{of} has {other.name} beside it: give both the same {', '.join(alike)} and no window, and {self.name}"
                f" the key of {other.name} with a text as its second part"
            )
        if not isinstance(second, str) or not second:
            raise DeclarationError(
                f"{of} has rows of {other.name} without a key: name the second part of these in second, a text"
            )

    def _check_functions(self) -> None:
        if self.rows is not None and not _takes(self.rows, least=1):
            raise DeclarationError(
                f"rows of store {self.name} is {self.rows!r}: give a function of the source's DataFrame, and of tables"
            )
        if self.show is not None and not _takes(self.show, least=2, most=2):
            raise DeclarationError(
                f"show of store {self.name} is {self.show!r}: give a function of two parameters, a row and the tables"
            )

    def _check_numbers(self) -> None:
        for name, number in (("version", self.version), ("records_per_batch", self.records_per_batch)):
            if number is not None and not _is_positive(number):
                raise DeclarationError(f"{name} of store {self.name} is {number!r}: give a whole number from 1 on")
        if self.limits is not None and not 1 <= self.limits.default <= self.limits.most:
            raise DeclarationError(
                f"limits of store {self.name} are {self.limits}: give a default from 1 on, and as many at most or more"
            )

    def _check_fields(self, values: Mapping[str, Value]) -> None:
        if not _is_mapping(values):
            said = "has no values" if not values else f"has the values {values!r}"
            raise DeclarationError(f'store {self.name} {said}: name at least one, as in {{"count": Count()}}')
        for name, value in values.items():
            _check(_COLUMN, name, f"a value of store {self.name}")
            if not isinstance(value, Value):
                raise DeclarationError(f"value {name} of store {self.name} is {value!r}: give a value, as Count()")
            if _RESERVED_BESIDE_VALUES.fullmatch(name):
                raise DeclarationError(
                    f"store {self.name} has a value {name}, a column of the runtime's own: give it another name"
                )
            if name.lower() in {column.name.lower() for column in self.key.columns}:
                raise DeclarationError(f"store {self.name} has a value {name}, as its key: give it another name")
        _check_case(values, f"values of store {self.name}")

    def _check_window(self, window: object) -> None:
        if not isinstance(window, Windows):
            raise DeclarationError(
                f'store {self.name} has window {window!r}: give Tumbling("1 hour"), Hopping("1 hour", "5 minutes") or'
                ' Session("30 seconds")'
            )
        if isinstance(window, Session) and isinstance(self.values, Values):
            raise DeclarationError(f"store {self.name} has sessions and {self.values!r}: give its values names")
        if self.key.parts:
            raise DeclarationError(f"store {self.name} has windows and a key of two parts: give it one of both")
        own = {WINDOW_START.lower(), WINDOW_END.lower()}
        for name in (self.key.name, *self.record.columns, *self._names):
            if name.lower() in own:
                raise DeclarationError(f"store {self.name} has a column {name}, as its windows: give it another name")
        if self.limits is not None:
            raise DeclarationError(f"store {self.name} has a window and limits: the row of a window cannot be a list")

    @property
    def _names(self) -> Iterable[str]:
        return self.values if isinstance(self.values, Mapping) else ()

    @property
    def row_key(self) -> KeyType:
        """The type of what tells its rows apart: of the key, with a window of `runtime.windows.WindowKey`."""
        return self.key.type if self.window is None else window_key(self.key.type, self.window)

    def owner(self, row_key: KeyValue) -> KeyValue:
        """Return the key that a row is of, by what tells rows apart."""
        return row_key if self.window is None else row_key.key

    def partition_for(self, key: KeyValue, partitions: int) -> int:
        """Return the partition that all rows of a key are in, of one of two parts all that have the first part.

        Args:
            key: of the store, without a window.
            partitions: how many the result topic has, at least 1.
        """
        if self.key.parts:
            return partition_by_part(key.first, partitions)
        return (partition_for if self.window is None else partition_by_part)(key, partitions)

    @property
    def query_name(self) -> str:
        """What its query is called, and what that keeps: as the query of the store beside it would be."""
        return self.name if self.beside is None else self.beside.store.name

    @property
    def made(self) -> list[Store]:
        """The stores whose rows its query makes: itself, and the one beside it."""
        return [self] if self.beside is None else [self, self.beside.store]

    @property
    def state_form(self) -> str:
        """What tells that the state of its query is another than that of a checkpoint, which is of no use then."""
        of_values = self.record.state_form
        return of_values if self.beside is None else f"{of_values}; by {self.key.name}, {self.beside.second}"

    @property
    def by_part(self) -> bool:
        """Whether a part of what tells its rows apart says the partition, and not all of it."""
        return self.window is not None or bool(self.key.parts)

    @property
    def final(self) -> bool:
        """Whether a row is written when nothing can change it any more."""
        return self.of_join or isinstance(self.window, Session)

    @property
    def in_bursts(self) -> bool:
        """Whether an event makes several results at once: it lies in several windows."""
        return self.window is not None and self.window.overlap

    @property
    def record(self) -> Values:
        """What a result record's value is: the values, and of a session before them when it ends."""
        if isinstance(self.values, Values):
            return self.values
        ends = {WINDOW_END: SessionEnd()} if isinstance(self.window, Session) else {}
        return Fields(MappingProxyType({**ends, **self.values}), final=self.final)

    @property
    def joined(self) -> tuple[str, ...]:
        """The parameters of `rows` beside the source: tables, with `_` for `-` and `.`."""
        return tuple(inspect.signature(self.rows).parameters)[1:] if self.rows is not None else ()

    def given(self, table: Table) -> dict[str, ColumnType]:
        """Return the columns of a table that `rows` is given, and their types."""
        return {table.key.name: table.key.type, **({} if self.keys_only else table.fields)}


@dataclass(frozen=True)
class Topology:
    """A source, tables, and the stores that are made of them.

    Attributes:
        name: in the group, in metrics and in problems.
        source: the events: a stream; several of one format and key, whose records are one source together; or two that
            are `Joined`.
        stores: one or more.
        tables: those that `rows` and `show` look into.
        pace: `REAL_TIME`, or from "1 second" to "1 hour": how often results come. A key's result is written at most
            once in each such interval, whatever comes.
        upkeep: makes what looks after the stream of each query, a `runtime.stream.upkeep.Upkeep` of its `Care`; by
            default nothing has to. These stand upon declarations, so their types are not named here.
        settings: those that it was made with and that have to be the same at every instance.
        about: what it does, in a sentence or two.
    """

    name: str
    source: Stream | Sequence[Stream] | Joined
    stores: Sequence[Store]
    tables: Sequence[Table] = ()
    pace: str = REAL_TIME
    upkeep: Callable[[Any], Any] | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    about: str = ""

    def __post_init__(self) -> None:
        _check(_NAME, self.name, "the name of a Topology")
        if not isinstance(self.source, (Stream, Joined)):
            _check_list(self.source, Stream, f"the source of topology {self.name}")
        _check_list(self.stores, Store, f"the stores of topology {self.name}")
        _check_list(self.tables, Table, f"the tables of topology {self.name}")
        self._check_sources()
        if not self.stores:
            raise DeclarationError(f"topology {self.name} has no stores: declare at least one")
        if self.every_s is not None and not 1 <= self.every_s <= _LONGEST_PACE_S:
            raise DeclarationError(
                f'topology {self.name} has pace {self.pace!r}: give REAL_TIME, or from "1 second" to "1 hour"'
            )
        self._check_names()
        for store in self.each_with_rows:
            self._check_store(store)
        object.__setattr__(self, "stores", [self._with_types(store) for store in self.stores])

    @property
    def sources(self) -> tuple[Stream, ...]:
        """The streams that the source is, in the order in which they are named."""
        if isinstance(self.source, Joined):
            return self.source.sides
        return (self.source,) if isinstance(self.source, Stream) else tuple(self.source)

    @property
    def join(self) -> Joined | None:
        """How the sources are joined; None where they are one source."""
        return self.source if isinstance(self.source, Joined) else None

    @property
    def source_topics(self) -> list[str]:
        """The topics of the sources."""
        return [source.topic for source in self.sources]

    @property
    def inputs(self) -> list[str]:
        """The topics that it reads, which belong to producers: those of the sources, then those of the tables."""
        return [*self.source_topics, *(table.topic for table in self.tables)]

    @property
    def events(self) -> Stream:
        """The first of the sources, which says how all are read that are not joined."""
        return self.sources[0]

    @property
    def columns(self) -> Mapping[str, str]:
        """The columns that rows are made of, and their Spark types; beside them there is `at`."""
        return (self.join or self.events).columns

    @property
    def types(self) -> dict[str, ColumnType]:
        """The types of those columns of which a declaration has one."""
        return (self.join or self.events).types

    @property
    def every_s(self) -> int | None:
        """The interval of the pace in seconds; None in real time, 0 where it is no pace."""
        if self.pace == REAL_TIME:
            return None
        return seconds_of(self.pace) or 0

    @property
    def has_windows(self) -> bool:
        """Whether a store has windows, so that records are judged by their times."""
        return any(store.window is not None for store in self.stores)

    @property
    def in_bursts(self) -> bool:
        """Whether an event makes several results of a store at once."""
        return any(store.in_bursts for store in self.stores)

    @property
    def queries(self) -> list[Store]:
        """The stores that have a query of their own, each with the rows that this makes."""
        beside = {store.beside.store.name for store in self.stores if store.beside is not None}
        with_rows = (store if store.beside is None else replace(store, rows=store.beside.rows) for store in self.stores)
        return [store for store in with_rows if store.name not in beside]

    @property
    def each_with_rows(self) -> list[Store]:
        """The stores, and those whose query makes other rows than they have: what has to be able to run."""
        return [*self.stores, *(query for query in self.queries if query.beside is not None)]

    def store(self, name: str) -> Store:
        """Return a store by its name; raises KeyError."""
        return {store.name: store for store in self.stores}[name]

    def table(self, topic: str) -> Table:
        """Return a table by the name of its topic; raises KeyError."""
        return {table.topic: table for table in self.tables}[topic]

    def joined(self, store: Store) -> dict[str, Table]:
        """Return the tables that `rows` of a store is given, by the name of the parameter."""
        by_parameter = {_parameter(table): table for table in self.tables}
        return {name: by_parameter[name] for name in store.joined}

    @property
    def topics(self) -> list[str]:
        """The topics that it reads and writes, those of dead letters apart."""
        return [*self.inputs, *(store.topic for store in self.stores)]

    def _check_sources(self) -> None:
        if not self.sources:
            raise DeclarationError(f"topology {self.name} has no source: name a Stream, or several")
        if self.join is not None:
            if self.every_s is None:
                raise DeclarationError(
                    f"topology {self.name} joins {' and '.join(self.source_topics)} and runs in real time, which joins"
                    ' no streams: give the topology pace="1 second"'
                )
            return
        for other in self.sources[1:]:
            if (other.format, other.key) != (self.events.format, self.events.key):
                raise DeclarationError(
                    f"the sources {self.events.topic} and {other.topic} of topology {self.name} are not read alike:"
                    " give them the same format and key, since their records are one source"
                )

    def _check_names(self) -> None:
        names = [*(store.name for store in self.stores), *(table.topic for table in self.tables)]
        for name in _repeated(names):
            raise DeclarationError(f"topology {self.name} has {name} twice: stores and tables need names of their own")
        for name in _BESIDE_STORES.intersection(names):
            raise DeclarationError(
                f"topology {self.name} has a store or table {name}, as what stands beside them in the state directory:"
                " give it another name"
            )
        parameters = [_parameter(table) for table in self.tables]
        for name in _repeated(parameters):
            both = " and ".join(table.topic for table in self.tables if _parameter(table) == name)
            raise DeclarationError(f"tables {both} are both parameter {name} of rows: give one topic another name")
        if len({store.partitions for store in self.stores}) > 1:
            said = ", ".join(f"{store.name} {store.partitions}" for store in self.stores)
            raise DeclarationError(
                f"the stores of topology {self.name} have different numbers of partitions ({said}): give all the same,"
                " since an instance has the same partitions of each"
            )
        beside = {store.name: store.beside.store for store in self.stores if store.beside is not None}
        for name, other in beside.items():
            if other not in self.stores:
                raise DeclarationError(
                    f"store {name} has {other.name} beside it, which is no store of topology {self.name}: name it in"
                    " stores as well"
                )
        for name in _repeated([*beside, *(other.name for other in beside.values())]):
            raise DeclarationError(
                f"store {name} of topology {self.name} is beside two stores, or has one and is beside another: two"
                " stores have a query together, and no more"
            )
        for topic in _repeated([*self.topics, *(source.invalid_topic for source in self.sources)]):
            raise DeclarationError(
                f"topology {self.name} names topic {topic} twice:"
                " source, dead letters, tables and stores need a topic each"
            )

    def _check_store(self, store: Store) -> None:
        known = {_parameter(table) for table in self.tables}
        for name in store.joined:
            if name not in known:
                there = ", ".join(sorted(known)) or "none"
                raise DeclarationError(
                    f"rows of store {store.name} want {name}, which is no table (there are {there}):"
                    " name the parameter as the table's topic"
                )
        if isinstance(store.window, Session) and self.every_s is None:
            raise DeclarationError(
                f"store {store.name} has sessions, of which a row comes when they have ended, and topology {self.name}"
                ' runs in real time: give the topology pace="1 second"'
            )
        if store.ranking is not None:
            self._check_ranking(store, store.ranking)
        if self.join is not None:
            self._check_joined(store)
        if store.rows is None:
            columns = self.columns
            of_key = {column.name: column.type.spark for column in store.key.columns}
            for name, wanted in {**of_key, **store.record.columns}.items():
                if name not in columns:
                    there = ", ".join(columns)
                    raise DeclarationError(
                        f"store {store.name} wants column {name}, which {self._read} does not have"
                        f" (it has {there}): name one of these, or make it in rows"
                    )
                if wanted not in ("", columns[name]):
                    raise DeclarationError(
                        f"store {store.name} wants column {name} as {wanted}, and {self._read} has it as"
                        f" {columns[name]}: leave its type to the source, or make another column in rows"
                    )

    def _check_ranking(self, store: Store, ranking: Ranking) -> None:
        tables = {table.topic: table for table in self.tables}
        for part, topic in zip(store.key.parts, (ranking.first_in, ranking.second_in), strict=True):
            if topic is not None and (topic not in tables or tables[topic].key.type != part.type):
                raise DeclarationError(
                    f"the ranking of store {store.name} looks for {part.name} in {topic}, which is no table with such a"
                    " key: name one, or None"
                )

    def _check_joined(self, store: Store) -> None:
        values = store.values if isinstance(store.values, Mapping) else {"": store.values}
        for name, value in values.items():
            if not (isinstance(value, Value) and value.is_its_part):
                raise DeclarationError(
                    f"store {store.name} has {f'{name}: ' if name else ''}{type(value).__name__} of streams that are"
                    " joined: each two records are a result of their own, so give values that merge, as Latest, Min or"
                    " Max"
                )
        if store.window is not None:
            raise DeclarationError(
                f"store {store.name} has a window, and its rows are of streams that are joined: leave the window out"
            )

    @property
    def _read(self) -> str:
        """What is read, for people."""
        return self.events.topic if self.join is None else f"the join of {' and '.join(self.source_topics)}"

    def _with_types(self, store: Store) -> Store:
        """Return a store whose values know what their columns hold: what the source has under the name.

        That `rows` leaves it so is seen in the plan.
        """
        if isinstance(store.values, Values):
            return store
        of_join = self.join is not None
        typed = {name: value.of(self.types) for name, value in store.values.items()}
        values = {name: value.of_join() for name, value in typed.items()} if of_join else typed
        for name, value in values.items():
            try:
                value.check_type()
            except DeclarationError as error:
                raise DeclarationError(f"value {name} of store {store.name}: {error}") from error
        if values == store.values and of_join == store.of_join:
            return store
        beside = store.beside
        if beside is not None:
            # At once: what is alike stays so.
            beside = replace(beside, store=replace(beside.store, values=values, of_join=of_join))
        return replace(store, values=values, of_join=of_join, beside=beside)


def _parameter(table: Table) -> str:
    """Return the parameter of `rows` that a table is given as."""
    return re.sub(r"[^A-Za-z0-9]", "_", table.topic)


def _type_of(spark: str) -> ColumnType | None:
    """Return the type that Spark calls so, None when it is none of a declaration's."""
    of_decimal = re.fullmatch(rf"decimal\({FIELD_DIGITS},([0-9]+)\)", spark)
    types = {each.spark: each for each in (Int64, Text, Double, Boolean, Timestamp)}
    return Decimal(int(of_decimal[1])) if of_decimal else types.get(spark)


def _check_source_column(name: str, what: str) -> None:
    _check(_COLUMN, name, what)
    if name == "at" or name.startswith("__"):
        raise DeclarationError(f"{what} is {name!r}: at, and what begins with __, are columns of the runtime's own")


def _check_one_part(key: Key, what: str) -> None:
    if key.parts:
        raise DeclarationError(f"{what} has a key of two parts, {key.name}: only stores have such keys")


def _check(pattern: re.Pattern[str], text: object, what: str) -> None:
    if not isinstance(text, str) or pattern.fullmatch(text) is None:
        raise DeclarationError(f"{what} is {text!r}: it has to be {_SPELLED[pattern]}")


def _check_key(key: object, what: str) -> None:
    if not isinstance(key, Key):
        raise DeclarationError(f'the key of {what} is {key!r}: name a column and its type, as in Key("user", Text)')


def _check_partitions(count: object, what: str) -> None:
    if not _is_positive(count):
        raise DeclarationError(f"partitions of {what} is {count!r}: give a whole number from 1 on")


def _check_list(given: object, of: type, what: str) -> None:
    """Refuse what is no list of such values; one alone, above all."""
    if not isinstance(given, Sequence) or isinstance(given, str) or not all(isinstance(each, of) for each in given):
        raise DeclarationError(f"{what} is {given!r}: give a list, as in [{of.__name__}(…)]")


def _is_mapping(given: object) -> bool:
    return isinstance(given, Mapping) and bool(given)


def _is_positive(number: object) -> bool:
    return type(number) is int and number >= 1


def _takes(function: object, *, least: int, most: int | None = None) -> bool:
    """Return whether something can be called with so many arguments by their place; also where nobody can tell."""
    if not callable(function):
        return False
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return True
    placed = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return True
    needed = [each for each in placed if each.default is each.empty]
    return len(placed) >= least and (most is None or len(needed) <= most)


def _check_case(names: Iterable[str], what: str) -> None:
    """Refuse names that differ in upper and lower case alone: Spark takes them for one."""
    seen: dict[str, str] = {}
    for name in names:
        if (other := seen.setdefault(name.lower(), name)) != name:
            raise DeclarationError(f"{what} are {other} and {name}, which are one name to Spark: give one another name")


def _repeated(names: Sequence[str]) -> Iterator[str]:
    return (name for position, name in enumerate(names) if name in names[:position])


__all__ = [
    "REAL_TIME",
    "Beside",
    "DeclarationError",
    "Joined",
    "Json",
    "Limits",
    "PlainText",
    "Row",
    "Store",
    "Stream",
    "Table",
    "Tables",
    "Text",
    "Topology",
]

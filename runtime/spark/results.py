"""Results in Spark: rows to result records, and published records back to what a generation begins with.

    events ─ rows ─▶ parts ─┐
                            ├─ by key ─▶ aggregates ─▶ result records: key, value, headers
    published ─ seed parts ─┘

The Spark half of `runtime.results`. Every step is a built-in expression, so that no record passes through Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from operator import and_, itemgetter
from typing import Final

from pyspark.sql import Column, DataFrame, GroupedData, Row, Window
from pyspark.sql import functions as F

from runtime.declaration import Store
from runtime.keys import Key, Text
from runtime.results import delete_headers, parse
from runtime.rows import of_each
from runtime.spark.beside_value import OF_RECORD, declared_name
from runtime.values.base import TOPIC_ID
from runtime.windows import STREAM_TIME, STREAM_TIME_KEY, WINDOW_END, EqualWindows, Session, SessionEnd

HEADERS: Final = ("generation", "version", "events", "newest_ms", "offsets")
RECORD: Final = "key string, value string, headers array<struct<key: string, value: binary>>"
AT: Final = ("source", "partition", "offset", "timestamp")
"""The fields of `at`, which record a row is of."""
_NUMBERS: Final = ("generation", "version", "events", "newest_ms")
_WHOLE: Final = r"^-?(0|[1-9][0-9]*)$"
_MADE: Final = "made_"
_OFFSETS: Final = "map<string, map<string, bigint>>"
_START: Final = "__start"
"""When a row's window begins, in milliseconds from 1970; only rows of windows have it."""
_END: Final = "__end"
"""When a published session ends."""
_TIME: Final = "__time"
_WINDOW: Final = "__window"
_KEY_OF_WINDOW: Final = r"(?s)^(.+)@([^@]+)$"
_KEY_OF_NUMBER_FIRST: Final = r"(?s)^([^/]+)/(.+)$"
_KEY_OF_TEXT_FIRST: Final = r"(?s)^(.+)/([^/]+)$"
_OFFSET_BITS: Final = 48
"""Of a place on a topic as one number, beside its partition."""
ENDLESS_MS: Final = 10**13
"""Some three hundred years."""
_WATERMARKED: Final = "spark.watermarkDelayMs"
"""In the metadata of a column: Spark lets a group go when its watermark has passed the end of this window."""


@dataclass(frozen=True, slots=True)
class SourceTopic:
    """A topic that events come from, as a generation began on it.

    Attributes:
        topic: its name.
        topic_id: what tells it from another of that name.
        partitions: how many it has.
    """

    topic: str
    topic_id: str
    partitions: int


def with_at(events: DataFrame, topics: Sequence[str]) -> DataFrame:
    """Add `at`, which record an event comes from, in place of the columns that say so.

    Args:
        events: has `partition int, offset bigint, timestamp timestamp`, and others that stay; of several topics `topic
            string` as well.
        topics: where they come from.
    """
    topic = F.lit(topics[0]) if len(topics) == 1 else F.col("topic")
    at = F.struct(topic.alias(AT[0]), *AT[1:])
    others = [F.col(name).alias(declared_name(name)) for name in events.columns if name not in OF_RECORD]
    return events.select(*others, at.alias("at"))


@dataclass(frozen=True, slots=True)
class Results:
    """The results of one store in one generation.

    Attributes:
        store: what it is declared as.
        sources: where its events come from.
        generation: the number that each result carries.
        partitions: how many the result topic has.
        stream_ms: the stream time that the generation began with, where the store has windows: what this lets go has
            been let go before, and a session that has ended by it has been written.
        has_older: whether published results count events of topics that the sources were before they were created anew.
            Without any, all that results are made of are numbers, which Spark adds up without sorting.
    """

    store: Store
    sources: Sequence[SourceTopic]
    generation: int
    partitions: int = 1
    stream_ms: int | None = None
    has_older: bool = False

    @property
    def keeps_offsets(self) -> bool:
        """Whether results say up to where they have counted: lattices need not, nor what does not change."""
        return not self.store.record.lattice and not self.store.final

    def in_windows(self, rows: DataFrame, late_ms: int | None = None) -> DataFrame:
        """Return a row for each window that a row lies in; rows as they are of a store without windows.

        In which session a row lies is known when all are there (`of_parts`): it gets its time alone here.

        Args:
            rows: the key, `at`, and what the values are made of. Those without a key are left out where there are
                windows.
            late_ms: how far behind stream time a window may end that a row is taken for; without it, however far.
        """
        window = self.store.window
        if window is None:
            return rows
        # What has no key moves no time either.
        timed = rows.where(has_key(self.store)).withColumn(_TIME, F.col("at.timestamp"))
        timed = timed.withWatermark(_TIME, f"{ENDLESS_MS if late_ms is None else late_ms} milliseconds")
        if isinstance(window, Session):
            return timed.withColumn(SessionEnd().column, F.timestamp_millis(F.unix_millis(_TIME) + window.gap_ms))
        assert isinstance(window, EqualWindows), window
        at_ms, every_ms = F.unix_millis(_TIME), F.lit(window.every_ms)
        last = at_ms - F.pmod(at_ms, every_ms)
        if window.size_ms == window.every_ms:
            return timed.select("*", last.alias(_START)).drop(_TIME)
        starts = F.sequence(last, at_ms - F.lit(window.size_ms - 1), -every_ms)
        return of_each(timed, starts, _START).drop(_TIME)

    @property
    def let_go(self) -> Column | None:
        """Whether a row's window had been let go when the generation began; None where none had, and of sessions."""
        window = self.store.window
        if not isinstance(window, EqualWindows) or self.stream_ms is None:
            return None
        return F.col(_START) + window.size_ms <= window.last_let_go(self.stream_ms)

    def alive(self, rows: DataFrame) -> DataFrame:
        """Return the rows, of events or published, whose window had not been `let_go`."""
        return rows if self.let_go is None else rows.where(~self.let_go)

    def parts(self, rows: DataFrame) -> DataFrame:
        """Return the parts that rows are: the key, of what each is made, and those of the values.

        Args:
            rows: as `in_windows` returns them. Rows without a key are left out; where results say up to where they have
                counted, those too of partitions that the source has got since: nothing could say that they are counted,
                and a generation for all of its partitions is about to begin.
        """
        made = [
            F.lit(1).cast("bigint").alias(f"{_MADE}events"),
            F.unix_millis("at.timestamp").alias(f"{_MADE}newest_ms"),
        ]
        offsets = [
            F.when(self._is_of(source, partition), F.col("at.offset")).alias(name)
            for source, partition, name in self._places()
        ]
        older = [F.lit(None).cast("string").alias(name) for name in self._older_names]
        rows = self._with_topic_id(rows)
        keyed = rows.where(has_key(self.store))
        if self.keeps_offsets:
            keyed = keyed.where(self._is_of_a_place())
        of_window = [] if self.store.window is None else [_TIME if self._sessions else _START]
        return keyed.select(*self._keys(), *of_window, *made, *offsets, *older, *self.store.record.parts(rows))

    def of_parts(self, parts: DataFrame, *, each: bool = False) -> DataFrame:
        """Return what parts add up to, as records of the result topic: see `RECORD`; `partition` as well where a part
        of the key says it, and `topic` where another store is beside.

        Args:
            parts: see `parts`.
            each: whether each row is a result of its own, as in real time: those that change nothing are left out, as
                far as the values tell.
        """
        made = [F.sum(f"{_MADE}events").alias(f"{_MADE}events"), F.max(f"{_MADE}newest_ms").alias(f"{_MADE}newest_ms")]
        offsets = [F.max(name).alias(name) for name in self._offset_names]
        older = [F.max(name).alias(name) for name in self._older_names]
        if self.store.of_join:
            # No aggregate may follow a join: each row is a result, and the copies merge them.
            added = parts.select("*", *self.store.record.of_one_part())
        else:
            added = self._grouped(parts).agg(*made, *offsets, *older, *self.store.record.aggregates())
        if (changed := self.store.record.changed()) is not None:
            # Both ways need the same aggregates: Spark leaves out of the state what nobody uses, and they share it. So
            # a condition that is true of all results is no constant.
            is_one = F.coalesce(F.col(f"{_MADE}events"), F.lit(0)) >= 0
            added = added.where(changed if each else changed | is_one)
        if isinstance(self.store.window, Session) and self.stream_ms is not None:
            # All that had ended by then has been written: what is left of such is events that came too late.
            # By what was added up: Spark would look at the end of the window before it has put events together.
            end_ms = F.col(f"{_MADE}newest_ms") + self.store.window.gap_ms
            added = added.where(end_ms > self.stream_ms - self.store.window.late_ms)
        added = self._with_own_topic_id(added)
        record = self.store.record
        ignore = {"ignoreNullFields": "false" if record.says_nulls else "true"}
        value = F.to_json(F.struct(*record.published(self.generation)), ignore)
        return added.select(*self._places_on_topics(), value.alias("value"), self._headers().alias("headers"))

    def _places_on_topics(self) -> list[Column]:
        """Return where a result goes: `key`, and what of `partition` and `topic` is not the same for all of them."""
        key = _text_of(self.store.key)
        if self.store.window is not None:
            key = F.concat(key, F.lit("@"), F.unix_millis(f"{_WINDOW}.start").cast("string"))
        if not self.store.by_part:
            return [key.alias("key")]
        # All rows of a part in one partition; `runtime.kafka.partitioner.partition_by_part` is the same in Python.
        part = F.col(self.store.key.columns[0].name).cast("string").cast("binary")
        partition = (F.crc32(part) % self.partitions).cast("int")
        if self.store.beside is None:
            return [key.alias("key"), partition.alias("partition")]
        other = self.store.beside.store
        is_own = F.col(self.store.key.columns[1].name) != self.store.beside.second
        return [
            F.when(is_own, key).otherwise(_text_of(self.store.key.parts[0])).alias("key"),
            # Without one it is Kafka's own, of the key's text.
            F.when(is_own, partition).alias("partition"),
            F.when(is_own, self.store.topic).otherwise(other.topic).alias("topic"),
        ]

    def _grouped(self, parts: DataFrame) -> GroupedData:
        window = self.store.window
        if window is None:
            return parts.groupBy(*keys_of(self.store))
        if isinstance(window, Session):
            return parts.groupBy(
                self.store.key.name, F.session_window(_TIME, f"{window.gap_ms} milliseconds").alias(_WINDOW)
            )
        assert isinstance(window, EqualWindows), window
        start, end = (F.timestamp_millis(F.col(_START) + after) for after in (0, window.size_ms))
        stretch = F.struct(start.alias("start"), end.alias("end"))
        marked = stretch.alias(_WINDOW, metadata={_WATERMARKED: window.keep_ms})
        return parts.select("*", marked).groupBy(self.store.key.name, _WINDOW)

    def counts_older(self, published: DataFrame) -> bool:
        """Return whether published results count events of other topics than the sources.

        Args:
            published: as `published` returns it.
        """
        if not self.keeps_offsets:
            return False
        topic_ids = F.map_keys("made.offsets")
        return not published.where(F.exists(topic_ids, lambda each: ~each.isin(*self._topic_ids))).isEmpty()

    def seed(self, published: DataFrame) -> DataFrame:
        """Return the parts that published results are, for the state that a generation begins with.

        Sessions do not come into the state again: of them this is when they begin and end.

        Args:
            published: as `latest` returns it.
        """
        if self._sessions:
            ended = published.withColumn(_END, F.col(f"values.{WINDOW_END}").cast("timestamp"))
            return ended.select(*keys_of(self.store), _END)
        of_window = [] if self.store.window is None else [F.col(_START)]
        others = [
            *self._keys(),
            *of_window,
            F.col("made.events").alias(f"{_MADE}events"),
            F.col("made.newest_ms").alias(f"{_MADE}newest_ms"),
        ]
        offsets, older = [], []
        if self.keeps_offsets:
            of_topics = F.col("made.offsets")
            offsets = [
                of_topics.getItem(source.topic_id).getItem(str(partition)).alias(name)
                for source, partition, name in self._places()
            ]
            rest = F.map_filter(of_topics, lambda topic_id, _: ~topic_id.isin(*self._topic_ids))
            # The fields of a JSON object, to stand behind those of the source.
            text = F.regexp_extract(F.to_json(rest), r"^\{(.*)\}$", 1)
            older = [F.when(F.size(rest) > 0, text).alias(name) for name in self._older_names]
        flat = self._with_own_topic_id(self.alive(published).select(*others, *offsets, *older, "values"))
        parts = self.store.record.parts_of_published(flat, keys_of(self.store))
        return parts.select(*self.part_names(parts))

    def part_names(self, parts: DataFrame) -> list[str]:
        """Return the columns of parts, in the order in which `parts` makes them."""
        made = [f"{_MADE}events", f"{_MADE}newest_ms", *self._offset_names]
        first = [*keys_of(self.store), *made, *self._older_names]
        return first + [name for name in parts.columns if name not in (*first, "values", TOPIC_ID)]

    def uncovered(self, rows: DataFrame, seed: DataFrame) -> DataFrame:
        """Return the rows of events that the seed does not count already.

        Args:
            rows: see `parts`.
            seed: see `seed`.
        """
        keys = keys_of(self.store)
        if isinstance(self.store.window, Session):
            return self._in_no_session(rows, seed, self.store.window)
        if not self.keeps_offsets:
            return self.store.record.uncovered(self._with_topic_id(rows), seed, keys)
        up_to = seed.select(*keys, F.array(*self._offset_names).alias("__counted"))
        counted = up_to.groupBy(*keys).agg(F.max("__counted").alias("__counted"))
        joined = rows.join(counted, keys, "left")
        last = F.get("__counted", self._number_of_place())
        return joined.where(last.isNull() | (F.col("at.offset") > last)).drop("__counted")

    def _in_no_session(self, rows: DataFrame, seed: DataFrame, window: Session) -> DataFrame:
        """Return the rows that no published session has, nor had when they came too late for it.

        What is behind the last event of a session, and in its gap, came when its row was there already: it began
        another one.
        """
        key = self.store.key.name
        sessions = seed.select(
            F.col(key).alias("__of"), F.col(_START).alias("__from"), F.unix_millis(_END).alias("__to")
        )
        at_ms = F.unix_millis(_TIME)
        lies_in = (at_ms >= F.col("__from") - window.gap_ms) & (at_ms <= F.col("__to") - window.gap_ms)
        return rows.join(sessions, (F.col(key) == F.col("__of")) & lies_in, "left_anti")

    @property
    def _sessions(self) -> bool:
        return isinstance(self.store.window, Session)

    def _with_topic_id(self, rows: DataFrame) -> DataFrame:
        """Add of which topic the records are, where a value names that."""
        if not self.store.record.names_topic:
            return rows
        topic_id = F.lit(self.sources[-1].topic_id)
        for source in self.sources[:-1]:
            topic_id = F.when(F.col("at.source") == source.topic, source.topic_id).otherwise(topic_id)
        return rows.withColumn(TOPIC_ID, topic_id)

    def _with_own_topic_id(self, frame: DataFrame) -> DataFrame:
        """Add the id of the topic that is read, where a value names that."""
        return frame.withColumn(TOPIC_ID, F.lit(self.sources[-1].topic_id)) if self.store.record.names_topic else frame

    def _keys(self) -> list[Column]:
        return [F.col(key.name).cast(key.type.spark).alias(key.name) for key in self.store.key.columns]

    def _places(self) -> Iterator[tuple[SourceTopic, int, str]]:
        """Yield every partition of the sources, and the column of the last offset of it; none where none is kept."""
        if self.keeps_offsets:
            every = ((source, partition) for source in self.sources for partition in range(source.partitions))
            for number, (source, partition) in enumerate(every):
                yield source, partition, f"{_MADE}offset_{number}"

    @property
    def _offset_names(self) -> list[str]:
        return [name for _, _, name in self._places()]

    @property
    def _older_names(self) -> list[str]:
        """The column of the offsets of older topics; none where there are no such."""
        return [f"{_MADE}older"] if self.keeps_offsets and self.has_older else []

    @property
    def _topic_ids(self) -> list[str]:
        return [source.topic_id for source in self.sources]

    def _is_of(self, source: SourceTopic, partition: int) -> Column:
        """Return whether a row's record lies there."""
        lies = F.col("at.partition") == partition
        return lies if len(self.sources) == 1 else (F.col("at.source") == source.topic) & lies

    def _is_of_a_place(self) -> Column:
        """Return whether a row's record lies in one of the partitions that `_places` counts."""
        *others, last = self.sources
        partitions = F.lit(last.partitions)
        for source in others:
            partitions = F.when(F.col("at.source") == source.topic, source.partitions).otherwise(partitions)
        return F.col("at.partition") < partitions

    def _number_of_place(self) -> Column:
        """Return the number of the partition that a row's record lies in, as `_places` counts them."""
        first, *others = self.sources
        number, before = F.col("at.partition"), first.partitions
        for source in others:
            number = F.when(F.col("at.source") == source.topic, F.col("at.partition") + before).otherwise(number)
            before += source.partitions
        return number

    def _headers(self) -> Column:
        said = {
            "generation": F.lit(str(self.generation)),
            "version": F.lit(str(self.store.version)),
            "events": F.col(f"{_MADE}events").cast("string"),
            "newest_ms": F.col(f"{_MADE}newest_ms").cast("string"),
            "offsets": self._offsets_as_json() if self.keeps_offsets else F.lit("{}"),
        }
        listed = [F.struct(F.lit(name).alias("key"), text.cast("binary").alias("value")) for name, text in said.items()]
        # A result of before there were headers says of none when its newest event was, nor how many there were.
        return F.filter(F.array(*listed), lambda header: header.value.isNotNull())

    def _offsets_as_json(self) -> Column:
        here: list[Column] = []
        for source, places in groupby(self._places(), itemgetter(0)):
            of_source = [F.col(name).alias(str(partition)) for _, partition, name in places]
            # Fields that are null are left out.
            here += [F.lit(f'{"," if here else "{"}"{source.topic_id}":'), F.to_json(F.struct(*of_source))]
        older = [F.coalesce(F.concat(F.lit(","), F.col(name)), F.lit("")) for name in self._older_names]
        return F.concat(*here, *older, F.lit("}"))


Consumed = tuple[bytes, bytes, list[tuple[str, bytes]]]
"""Key, value and headers of a result record, as a consumer has them."""


def as_consumed(row: Row) -> Consumed:
    """Return a row of `RECORD` as a consumer would have it."""
    return row.key.encode(), row.value.encode(), [(each.key, bytes(each.value)) for each in row.headers]


def written(
    store: Store, made: Iterable[Consumed], stream_ms: int | None = None
) -> tuple[Iterable[Consumed], int | None]:
    """Return what a stream has written by now of the results that a batch makes: of sessions those that have ended.

    And of sessions the stream time by which that is, None without any event, and of other results.

    Args:
        store: whose they are.
        made: all of them.
        stream_ms: stream time where it is later than what these tell, in milliseconds from 1970.
    """
    if not isinstance(store.window, Session):
        return made, None
    made = list(made)
    parsed = [parse(store.record, value, headers) for _, value, headers in made]
    told = [] if stream_ms is None else [stream_ms]
    newest = max((*told, *(each.made.newest_ms for each in parsed if each.made.newest_ms is not None)), default=None)
    if newest is None:
        return [], None
    # Where a session begins says nothing of its end.
    ends = [store.window.end_ms(0, each.values) for each in parsed]
    up_to = newest - store.window.late_ms
    return [each for each, end_ms in zip(made, ends, strict=True) if end_ms <= up_to], newest


def keys_of(store: Store) -> list[str]:
    """Return the columns that tell rows apart: those of the key, and of windows when they begin."""
    names = [key.name for key in store.key.columns]
    return names if store.window is None else [*names, _START]


def has_key(store: Store) -> Column:
    """Return whether a row has a key: one that is there, and is not empty; of two parts both."""
    return reduce(and_, map(_is_there, store.key.columns))


def _is_there(key: Key) -> Column:
    column = F.col(key.name)
    # No text of a number is empty; to write each would take longer than all else that is looked at here.
    return column.isNotNull() & (column != "") if key.type is Text else column.isNotNull()


def _text_of(key: Key) -> Column:
    """Return the text of a key, without a window."""
    texts = [F.col(column.name).cast("string") for column in key.columns]
    # Null where a part is: `concat_ws` would leave it out.
    return texts[0] if len(texts) == 1 else F.concat(texts[0], F.lit("/"), texts[1])


def published(store: Store, records: DataFrame) -> DataFrame:
    """Return the results on a topic that stores take, several of a key as they may be.

    Args:
        store: whose they are.
        records: as Spark's Kafka source gives them, with headers.

    Returns:
        The key, of windows when they begin, `made`, of what it is made, as `runtime.results.Made`, and `values`.
    """
    text = F.col("key").cast("string")
    read = F.struct(
        F.from_json(
            F.col("value").cast("string"), store.record.published_schema, dict(store.record.published_options)
        ).alias("values"),
        *(_number_said(name).alias(f"__{name}") for name in _NUMBERS),
        F.from_json(_said("offsets"), _OFFSETS).alias("__offsets"),
        *(_has(name).alias(f"__has_{name}") for name in HEADERS),
    )
    # In one column: Spark moves each condition about a value below a projection that only reads it, and reads it there
    # again. A projection with `rlike` it holds to be expensive, and leaves conditions above it.
    fields = records.select(text.alias("__text"), *_keys_of_text(store, text), read.alias("__read"))
    fields = fields.select("*", "__read.*").drop("__read")
    for name in HEADERS:
        fields = fields.where(F.col(f"__{name}").isNotNull() | ~F.col(f"__has_{name}"))
    # Of before there were headers, a value may say itself of which generation it is.
    of_value = store.record.published_generation()
    generation = F.col("__generation") if of_value is None else F.coalesce("__generation", of_value)
    fields = fields.withColumn("__generation", generation).where(
        # No more than what the stores take: a record that they leave out must not replace a result that they serve.
        _is_key(store) & F.col("__generation").isNotNull()
    )
    # Those of another version were made in another way: a later one begins without them.
    of_version = F.coalesce("__version", F.lit(1)) == store.version
    made = F.struct(*(F.col(f"__{name}").alias(name) for name in HEADERS))
    return fields.where(store.record.is_published() & of_version).select(*keys_of(store), made.alias("made"), "values")


def in_query(store: Store, of: Store, results: DataFrame) -> DataFrame:
    """Return results on the topic of a store with the keys that they have in the query which makes them.

    A key that the rows of the store beside it have in the query is none of the store's own.

    Args:
        store: whose query it is.
        of: it, or the store beside it.
        results: with the columns of its key first, as `published` and `texts_of_generation` return them.
    """
    if store.beside is None:
        return results
    first, second = (key.name for key in store.key.columns)
    if of is store:
        return results.where(F.col(second) != store.beside.second)
    of_key = [F.col(of.key.name).alias(first), F.lit(store.beside.second).alias(second)]
    return results.select(*of_key, *(name for name in results.columns if name != of.key.name))


def later_than(records: DataFrame, generation: int) -> DataFrame:
    """Return the records of a result topic but those that say themselves that they are of no later generation.

    Args:
        records: see `published`.
        generation: its number.
    """
    return records.where(F.coalesce(_number_said("generation") > generation, F.lit(True)))


def last_of_each(records: DataFrame, tasks: int) -> DataFrame:
    """Return the last record of each key in each partition of a result topic.

    The topic is read twice for it: to read what many records say takes much longer.

    Args:
        records: see `published`; with `partition` and `offset`.
        tasks: of a stage of the first read.
    """
    # One number, for which Spark has a table of its own.
    place = F.shiftleft(F.col("partition").cast("bigint"), _OFFSET_BITS) + F.col("offset")
    keyed = records.where(F.col("key").isNotNull()).coalesce(tasks)
    last = keyed.groupBy("partition", "key").agg(F.max("offset").alias("offset")).coalesce(tasks)
    # It has to be sent to the tasks: so it is there before the topic is read again, up to a later end.
    return records.withColumn("__place", place).join(
        F.broadcast(last.select(place.alias("__place"))), "__place", "left_semi"
    )


def texts_of_generation(store: Store, records: DataFrame, generation: int) -> DataFrame:
    """Return the results on a topic that say themselves that they are of a generation, without a look at their values.

    Args:
        store: whose they are.
        records: see `published`.
        generation: its number.

    Returns:
        The key, of windows when they begin, and `text`, the values as they stand in the record.
    """
    is_of_it = (_said("generation") == str(generation)) & (_said("version") == str(store.version))
    key, value = (F.col(name).cast("string") for name in ("key", "value"))
    texts = records.where(is_of_it).select(key.alias("__text"), *_keys_of_text(store, key), value.alias("text"))
    # As in `published`: the stores refuse another spelling of a key.
    return texts.where(_is_key(store)).drop("__text")


def deletes_of_earlier(store: Store, records: DataFrame) -> DataFrame:
    """Return the records that delete the results of earlier versions which none of this version has replaced.

    Also where their keys are none of this version. A copy that has a result of this version by then keeps it.

    Args:
        store: of this version.
        records: as Spark's Kafka source gives them, with headers.

    Returns:
        Records of the result topic: `key binary, value binary, headers, partition`.
    """
    version = F.coalesce(_said("version").try_cast("bigint"), F.lit(1))
    said = F.struct(F.col("value").isNotNull().alias("is_there"), version.alias("version"))
    keyed = records.where(F.col("key").isNotNull())
    last = keyed.groupBy("partition", "key").agg(F.max_by(said, "offset").alias("last"))
    header = [
        F.struct(F.lit(name).alias("key"), F.lit(value).alias("value")) for name, value in delete_headers(store.version)
    ]
    return last.where(F.col("last.is_there") & (F.col("last.version") < store.version)).select(
        "key", F.lit(None).cast("binary").alias("value"), F.array(*header).alias("headers"), "partition"
    )


def told_stream_ms(store: Store, records: DataFrame) -> int | None:
    """Return the stream time that a stream has told last on a result topic; None where none has told any.

    Args:
        store: whose topic it is; what another version of it had read says nothing of its rows.
        records: as Spark's Kafka source gives them, with headers.
    """
    is_of_it = F.coalesce(_said("version").try_cast("bigint"), F.lit(1)) == store.version
    told = records.where((F.col("key") == F.lit(STREAM_TIME_KEY)) & is_of_it)
    newest = told.agg(F.max(_said(STREAM_TIME).try_cast("bigint"))).first()
    return None if newest is None or newest[0] is None else int(newest[0])


def stream_ms_of(store: Store, results: DataFrame) -> int | None:
    """Return the stream time that published results tell of; None without any, and of a store without windows.

    Args:
        store: whose they are.
        results: as `published` returns them.
    """
    newest = None if store.window is None else results.agg(F.max("made.newest_ms")).first()
    return None if newest is None or newest[0] is None else int(newest[0])


def latest(store: Store, results: DataFrame) -> DataFrame:
    """Return what stores keep of results: of a lattice, all of a key's last generation; else the one that counts most.

    Args:
        store: whose they are.
        results: as `published` returns them.

    Returns:
        The same columns; of a lattice several rows of a key as they may be, which merge.
    """
    keys = keys_of(store)
    if store.record.lattice:
        last = Window.partitionBy(*keys)
        of_last = results.withColumn("__last", F.max("made.generation").over(last))
        return of_last.where("made.generation = __last").drop("__last")
    # A result that covers another one has no lower offset, and so the higher sum; the first record of a partition, at
    # offset 0, is one more than none. Of two that do not, either will do.
    per_topic = F.transform(
        F.map_values("made.offsets"),
        lambda each: F.aggregate(F.map_values(each), F.lit(0).cast("bigint"), lambda a, b: a + b + 1),
    )
    counted = F.aggregate(per_topic, F.lit(0).cast("bigint"), lambda a, b: a + b)
    best = results.withColumn("__counted", F.coalesce(counted, F.lit(-1)))
    only = best.groupBy(*keys).agg(F.max_by(F.struct("made", "values"), "__counted").alias("best"))
    return only.select(*keys, "best.*")


def _keys_of_text(store: Store, text: Column) -> list[Column]:
    """Return the columns of `keys_of`, of the text of a record's key; null where it is none."""
    if store.window is not None:
        key, start = (F.regexp_extract(text, _KEY_OF_WINDOW, group) for group in (1, 2))
        return [key.try_cast(store.key.type.spark).alias(store.key.name), start.try_cast("bigint").alias(_START)]
    columns = store.key.columns
    texts = [text]
    if store.key.parts:
        form = _KEY_OF_TEXT_FIRST if columns[0].type is Text else _KEY_OF_NUMBER_FIRST
        texts = [F.regexp_extract(text, form, group) for group in (1, 2)]
    return [of.try_cast(key.type.spark).alias(key.name) for of, key in zip(texts, columns, strict=True)]


def _is_key(store: Store) -> Column:
    """Return whether the text of a record's key is the one form of what it says."""
    key = _text_of(store.key)
    if store.window is None:
        return key == F.col("__text")
    begins = F.pmod(F.col(_START), F.lit(store.window.every_ms)) == 0
    return begins & (F.concat(key, F.lit("@"), F.col(_START).cast("string")) == F.col("__text"))


def _said(header: str) -> Column:
    """Return the text of a header, null without one."""
    return F.expr(f"CAST(element_at(filter(headers, each -> each.key = '{header}'), -1).value AS string)")


def _number_said(header: str) -> Column:
    """Return the whole number of 64 bits that a header says, null without one."""
    return F.when(_said(header).rlike(_WHOLE), _said(header)).try_cast("bigint")


def _has(header: str) -> Column:
    """Return whether there is a header of this name, whatever it says."""
    return F.expr(f"coalesce(exists(headers, each -> each.key = '{header}'), false)")

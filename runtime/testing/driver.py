"""A topology on given records: what a service would show of them, without a broker.

    records ─ format ▸ rows ▸ values, by Spark ─▶ result records ─▶ stores in memory ▸ show ─▶ rows

Every step is the service's own. What was given before is what a generation begins with: so results go on from call to
call, and a table that `rows` joins counts as it was when the events came.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from runtime.copies.local_tables import LocalTables
from runtime.declaration import Store, Topology
from runtime.errors import InvalidRecord
from runtime.keys import KeyValue
from runtime.records import json_bytes
from runtime.serving.in_memory import GivenRecord, InMemory
from runtime.serving.rendered_view import RenderedView
from runtime.serving.views import by_key
from runtime.spark.plan_check import check_declared
from runtime.spark.results import written
from runtime.spark.rows import unusable
from runtime.stream.tables import tables_in_memory
from runtime.table_records import parse_row
from runtime.testing.frames import EPOCH, EPOCH_MS, Record, ResultRecord, StoreOnFrames, records_frame
from runtime.testing.session import session_for_tests
from runtime.windows import Session


class DeadLetter(NamedTuple):
    """A record that could not be used.

    Attributes:
        topic: that it was sent to.
        value: its value.
        reason: why.
    """

    topic: str
    value: bytes | None
    reason: str


class TopologyDriver:
    """Runs a topology over the records that it is given.

    >>> driver = TopologyDriver(WORD_COUNT)  # doctest: +SKIP
    >>> driver.send("lines", "hello world", "hello kafka")  # doctest: +SKIP
    >>> driver.row("hello")  # doctest: +SKIP
    {'word': 'hello', 'count': 2}

    Args:
        topology: what is tried.
        session: any Spark session; by default the one that the process has, else one is started, until the process
            ends.

    Attributes:
        now: the timestamp of the records that are sent; it stands still until it is set.

    Raises:
        DeclarationError: the topology cannot run as it is declared.
        QueryFailed: Spark did not start.
    """

    def __init__(self, topology: Topology, session: SparkSession | None = None) -> None:
        self.topology = topology
        self.now: datetime = EPOCH
        self._session = session_for_tests(session)
        for store in topology.each_with_rows:
            check_declared(self._session, topology, store)
        self._shown = InMemory(topology)
        for view in self._shown.views.values():
            if isinstance(view, RenderedView):
                view.raises = True
        self._by_key = {name: by_key(view) for name, view in self._shown.views.items()}
        self._offsets: dict[tuple[str, int], int] = {}
        self._waiting: list[Record] = []
        self._published: dict[str, dict[bytes, ResultRecord]] = {store.name: {} for store in topology.stores}
        self._as_of_ms = EPOCH_MS
        # Of stores with sessions: stream time.
        self._ended_ms: dict[str, int | None] = dict.fromkeys(self._published)
        # Of stores whose rows do not change: what may be in one that is yet to come.
        self._open: dict[str, list[Record]] = {name: [] for name in self._published}
        self._dead_letters: list[DeadLetter] = []

    def send(self, topic: str, *values: Any, key: Any = None, partition: int = 0) -> None:
        """Send records to a source or to a table, at the time `now`.

        Args:
            topic: a source's or a table's.
            values: text and bytes as they are, anything else as JSON. None is no value, and deletes a row of a table.
            key: of each of the records: a text, bytes, or a number.
            partition: of the source.

        Raises:
            ValueError: the topology does not read the topic, or the source has no such partition.
        """
        sources = {source.topic: source for source in self.topology.sources}
        if topic not in self.topology.inputs:
            there = ", ".join(self.topology.inputs)
            raise ValueError(f"topology {self.topology.name} does not read {topic}: it reads {there}")
        if not 0 <= partition < (sources[topic].partitions if topic in sources else 1):
            raise ValueError(f"topic {topic} has no partition {partition} here")
        for value in values:
            offset = self._offsets.get((topic, partition), 0)
            self._offsets[topic, partition] = offset + 1
            key_bytes, value_bytes = _encoded(key), _encoded(value)
            if topic in sources:
                at_ms = (self.now - EPOCH) // timedelta(milliseconds=1)
                self._as_of_ms = max(self._as_of_ms, EPOCH_MS + at_ms)
                self._waiting.append(Record(value_bytes, partition, offset, at_ms, key_bytes, topic))
            else:
                self._change_table(topic, offset, key_bytes, value_bytes)

    def rows(self, store: str | None = None) -> list[Any]:
        """Return what `GET /stores/{store}/keys` answers: every row that is shown, ascending by key.

        What `show` raises is raised here, where a service hides the row.

        Args:
            store: by its name; the first one when left out.

        Raises:
            KeyError: there is no such store.
        """
        self._settle()
        return [json.loads(body) for _, body in self._shown.rows(self._store(store).name)]

    def row(self, key: KeyValue, store: str | None = None) -> Any:
        """Return what `GET /stores/{store}/keys/{key}` answers; None where that is 404.

        Args:
            key: a text or a number, as the store's key is.
            store: see `rows`.
        """
        self._settle()
        rendered = self._by_key[self._store(store).name].get(key)
        return None if rendered is None else json.loads(rendered.body)

    @property
    def dead_letters(self) -> list[DeadLetter]:
        """The records that could not be used, in no particular order."""
        self._settle()
        return list(self._dead_letters)

    def _store(self, name: str | None) -> Store:
        return self.topology.stores[0] if name is None else self.topology.store(name)

    def _change_table(self, topic: str, offset: int, key: bytes | None, value: bytes | None) -> None:
        if any(store.joined for store in self.topology.stores):
            # What was sent before the table changed is not joined with what it is then.
            self._settle()
        try:
            parse_row(self.topology.table(topic), key, value)
        except InvalidRecord as error:
            self._dead_letters.append(DeadLetter(topic, value, error.reason))
        time_ms = int(self.now.timestamp() * 1000)
        self._shown.read_table(topic, 0, [GivenRecord(offset, key, value, time_ms)])

    def _settle(self) -> None:
        """Work off what was sent."""
        records, self._waiting = self._waiting, []
        if not records:
            return
        self._note_unusable(records)
        for store in self.topology.stores:
            published = self._published[store.name]
            on_frames = StoreOnFrames(
                self._session,
                self.topology,
                name=store.name,
                partitions=max(source.partitions for source in self.topology.sources),
                joined=tables_in_memory(self._session, self.topology, store, LocalTables(self._shown.copies)),
                stream_ms=self._stream_ms(store),
                as_of_ms=self._as_of_ms,
            )
            if published and not store.of_join:
                on_frames.seed = on_frames.seed_of(list(published.values()))
            made = on_frames.records(self._with_open(store, records))
            news, self._ended_ms[store.name] = written(store, made, self._ended_ms[store.name])
            published.update({record[0]: record for record in news})
            given = [GivenRecord(0, key, value, headers=headers) for key, value, headers in news]
            self._shown.read_results(store.name, given)
            self._let_windows_go(store)

    def _with_open(self, store: Store, records: list[Record]) -> list[Record]:
        """Return records, and before them what may be in a row with them; without those that come too late."""
        if not store.final:
            return records
        late_ms = self._late_ms(store)
        self._open[store.name] += [record for record in records if late_ms is None or record.at_ms > late_ms]
        return self._open[store.name]

    def _late_ms(self, store: Store) -> int | None:
        """Return when records of a store were that come too late, or before that; from `EPOCH`, as theirs."""
        join, stream_ms = self.topology.join, self._ended_ms[store.name]
        if join is not None:
            times = [[each.at_ms for each in self._open[store.name] if each.topic == side.topic] for side in join.sides]
            return min(map(max, times)) - join.late_ms if all(times) else None
        if stream_ms is None or not isinstance(store.window, Session):
            return None
        return stream_ms - store.window.late_ms - store.window.gap_ms - EPOCH_MS

    def _let_windows_go(self, store: Store) -> None:
        """Have the windows of a store go that its events have left behind."""
        stream_ms = self._stream_ms(store)
        for key in [] if stream_ms is None else self._shown.let_go(store.name, stream_ms):
            del self._published[store.name][key]

    def _stream_ms(self, store: Store) -> int | None:
        """Return how far the events of a store have come, where it has windows."""
        if store.window is None or isinstance(store.window, Session):
            return self._ended_ms[store.name]
        return self._shown.copies.freshness[store.name].newest_ms

    def _note_unusable(self, records: list[Record]) -> None:
        frame = records_frame(self._session, records)
        by_place = {(record.topic, record.partition, record.offset): record for record in records}
        for found in unusable(self.topology, self.topology.stores[0], frame, self._as_of_ms).collect():
            topic = found.asDict().get("topic", self.topology.events.topic)
            value = by_place[topic, found.partition, found.offset].value
            self._dead_letters.append(DeadLetter(topic, value, found.reason))


def _encoded(part: Any) -> bytes | None:
    """Return a key or a value as bytes."""
    if part is None or isinstance(part, bytes):
        return part
    return part.encode() if isinstance(part, str) else json_bytes(part)

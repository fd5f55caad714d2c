"""Wherever the rows of an id lie and in whatever order they are read, the newest counts; beside a plain reference."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from runtime.errors import StateUnusable
from runtime.keys import Int64
from tests.drivers.tables import FailingStore, TableDriver, TableTopic, Written

PARTITIONS = range(3)
IDS = range(4)
RETENTION_MS = 20
LATEST_MS = 8
"""Records are at most this late, so that no older one comes once a delete is past."""


class TableMachine(RuleBasedStateMachine):
    """Compares a table with the last records of each partition that were read."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr("runtime.copies.table_copy._TIDY_EVERY_S", 0.0)
        # So few that keys share one.
        self.patch.setattr("runtime.stores.added_keys._SLOTS", 8)
        self.topic = TableTopic(len(PARTITIONS))
        self.read_to = [0] * len(PARTITIONS)
        self.last: dict[tuple[int, int], Written] = {}
        self.driver = TableDriver(self.topic)
        self.began_with = 0

    @rule(
        partition=st.sampled_from(PARTITIONS),
        row_id=st.sampled_from(IDS),
        name=st.sampled_from([None, None, "a", "b", "c"]),
        late_ms=st.integers(0, LATEST_MS),
    )
    def write(self, partition: int, row_id: int, name: str | None, late_ms: int) -> None:
        self.topic.write(partition, row_id, name, self.driver.now_ms - late_ms)

    @rule(partition=st.sampled_from(PARTITIONS), most=st.sampled_from([1, 2, None]))
    def read(self, partition: int, most: int | None) -> None:
        self.driver.read(partition, most)
        self.note_read(partition)

    @rule(partition=st.sampled_from(PARTITIONS), failing=st.sampled_from(PARTITIONS))
    def fail_to_read(self, partition: int, failing: int) -> None:
        store = self.driver.copies[failing].store
        FailingStore(store)
        try:
            self.driver.read(partition)
        except StateUnusable:
            self.driver.copies[partition].rewind()
        else:
            self.note_read(partition)
        # Whatever was not needed for the read does not fail later.
        vars(store).pop("write", None)

    @rule(partition=st.sampled_from(PARTITIONS))
    def compact(self, partition: int) -> None:
        # What has not been read yet was not seen in between either.
        if self.read_to[partition] == self.topic.ends[partition]:
            self.topic.compact(partition)

    @rule(later_ms=st.integers(1, 2 * RETENTION_MS))
    def pass_time(self, later_ms: int) -> None:
        self.driver.now_ms += later_ms

    @rule()
    def tidy(self) -> None:
        for copy in self.driver.copies:
            copy.tidy(RETENTION_MS)

    @rule()
    def restart(self) -> None:
        now_ms = self.driver.now_ms
        self.driver = self.driver.restarted()
        self.driver.now_ms = now_ms
        self.began_with = len(self.expected())

    @rule(order=st.permutations(PARTITIONS))
    def fill_another_instance(self, order: list[int]) -> None:
        self.driver.read_all()
        for partition in PARTITIONS:
            self.note_read(partition)
        other = TableDriver(self.topic)
        other.read_all(order)
        assert other.names(IDS) == self.driver.names(IDS)

    def teardown(self) -> None:
        self.patch.undo()

    def note_read(self, partition: int) -> None:
        position = self.driver.copies[partition].position
        for record in self.topic.records[partition]:
            if self.read_to[partition] <= record.offset < position:
                self.last[record.row_id, partition] = record
        self.read_to[partition] = position

    def expected(self) -> dict[int, str]:
        names: dict[int, str] = {}
        for row_id in IDS:
            of_id = [(self.last[row_id, at].time_ms, at) for at in PARTITIONS if (row_id, at) in self.last]
            if of_id and (name := self.last[row_id, max(of_id)[1]].name) is not None:
                names[row_id] = name
        return names

    @invariant()
    def the_newest_counts(self) -> None:
        assert self.driver.names(IDS) == self.expected()
        assert {row_id: row["name"] for row_id, row in self.driver.table.items()} == self.expected()
        assert set(self.driver.table.keys()) == self.expected().keys()
        assert self.driver.table.count() == len(self.expected())
        assert self.driver.table.known_count() in (None, len(self.expected()))

    @invariant()
    def those_of_some_keys_that_are_there_are_found(self) -> None:
        encoded = [Int64.encode(row_id) for row_id in IDS]
        # All of them, and two with others between.
        for keys in (encoded, [encoded[0], encoded[-1]], []):
            there = {key for key in keys if Int64.decode(key) in self.expected()}
            assert {*self.driver.table.those_there(keys)} == there

    @invariant()
    def changes_are_counted_and_told(self) -> None:
        added = sum(copy.added for copy in self.driver.copies)
        deleted = sum(copy.deleted for copy in self.driver.copies)
        assert self.began_with + added - deleted == len(self.expected())
        told = self.driver.told
        assert {row_id: name for row_id, name in told.items() if name} == {
            row_id: name for row_id, name in self.expected().items() if row_id in told
        }

    @invariant()
    def counts_of_rows_agree(self) -> None:
        for partition, copy in enumerate(self.driver.copies):
            last = [record for (_, at), record in self.last.items() if at == partition]
            assert copy.measure().rows == sum(record.name is not None for record in last)


TestTables = TableMachine.TestCase
TestTables.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)

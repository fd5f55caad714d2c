"""Whatever happens in whatever order, each lap stands where a sort of all laps puts it."""

from __future__ import annotations

import json
from collections.abc import Coroutine
from itertools import repeat
from typing import Any, ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from runtime import ReadBack
from runtime.keys import KeyPair
from runtime.serving.in_memory import TOPIC_ID
from runtime.serving.view import NotMade
from tests.drivers.laps import CIRCUITS, DRIVERS, LAPS, READ_BACK, Laps

CIRCUIT_IDS = st.integers(-1, 2)
DRIVER_IDS = st.integers(-2, 6)
TIMES = st.integers(0, 4)
NAMES = st.none() | st.sampled_from(["a", "b"])


Work = Coroutine[Any, Any, None]


def after(work: Work, steps: int | None = None) -> Work | None:
    """Return what is left of some work after so many steps, or after all: None when it is done."""
    try:
        for _ in repeat(None) if steps is None else range(steps):
            work.send(None)
    except StopIteration:
        return None
    return work


class RankingMachine(RuleBasedStateMachine):
    """Compares the view with a plain reference; long orders are made in the background, a row at a time."""

    read_back: ClassVar[ReadBack | None] = None

    def __init__(self) -> None:
        super().__init__()
        self.driver = Laps(read_back=self.read_back)
        self.view = self.driver.ranked
        self.work: Work | None = None
        self.search: Work | None = None
        self.last_seen: tuple[int, object] = (-1, None)
        for circuit in range(2):
            self.driver.name(CIRCUITS, circuit, "there")
        for driver in range(5):
            self.driver.name(DRIVERS, driver, "known")

    @rule(circuit=CIRCUIT_IDS, driver=DRIVER_IDS, fastest=TIMES | st.none())
    def drive(self, circuit: int, driver: int, fastest: int | None) -> None:
        self.driver.drive(circuit, driver, fastest)

    @rule(circuit=st.integers(0, 1), laps=st.lists(st.tuples(DRIVER_IDS, TIMES), min_size=3, max_size=8))
    def drive_often(self, circuit: int, laps: list[tuple[int, int]]) -> None:
        for driver, fastest in laps:
            self.driver.drive(circuit, driver, fastest)

    @rule(driver=DRIVER_IDS, name=NAMES)
    def name_driver(self, driver: int, name: str | None) -> None:
        self.driver.name(DRIVERS, driver, name)

    @rule(circuit=CIRCUIT_IDS, name=NAMES)
    def name_circuit(self, circuit: int, name: str | None) -> None:
        self.driver.name(CIRCUITS, circuit, name)

    @rule(steps=st.integers(1, 5))
    def work_on(self, steps: int) -> None:
        self.work = after(self.work or self.view.warm_up(), steps)

    @rule(what=st.builds("driver/{}".format, DRIVER_IDS) | st.builds("time/{}".format, TIMES), struck=st.booleans())
    def strike(self, what: str, struck: bool) -> None:
        self.driver.strike(what, struck=struck)

    @rule(steps=st.integers(1, 5))
    def search_on(self, steps: int) -> None:
        self.search = after(self.search or self.view.search(), steps)

    @rule()
    def finish_search(self) -> None:
        """What has been struck by now does not count from then on, also if it was while others were looked for."""
        for _ in range(2):
            self.search = after(self.search or self.view.search())
        assert (self.view.counting or frozenset()) == self.driver.struck

    def expected(self, circuit: int) -> list[dict[str, Any]]:
        """Return what has to be shown while some may be looked for that are struck."""
        return self.driver.expected(circuit, self.view.counting or frozenset())

    @rule()
    def finish_work(self) -> None:
        """All orders are there then: also of what came while they were made."""
        for _ in range(2):
            self.work = after(self.work or self.view.warm_up())
        assert not any(self.view.why_not_made(circuit) for circuit in range(-1, 3))

    @rule(partition=st.integers(0, 1), empty=st.booleans())
    def reset_partition(self, partition: int, empty: bool) -> None:
        if empty:
            self.driver.copies.results[LAPS].copies[partition].begin(TOPIC_ID, 0)
            kept = self.driver.laps.items()
            self.driver.laps = {key: ms for key, ms in kept if self.view.partition_for(key) != partition}
        self.view.partition_reset(partition)
        self.view.partition_ready(partition)

    @rule(circuit=CIRCUIT_IDS, around=st.none() | st.integers(0, 3))
    def stand(self, circuit: int, around: int | None) -> None:
        expected = self.expected(circuit)
        for driver in range(-2, 7):
            position = next((at for at, lap in enumerate(expected) if lap["driver"] == driver), None)
            try:
                found = self.view.get(KeyPair(circuit, driver), around)
            except NotMade:
                continue
            if position is None:
                assert found is None
                continue
            assert found is not None
            few = expected[position]
            assert json.loads(found.body) == (
                few if around is None else expected[max(0, position - around) : position + around + 1]
            )

    @rule(circuit=CIRCUIT_IDS, size=st.integers(1, 4), from_rank=st.integers(1, 9))
    def page_through(self, circuit: int, size: int, from_rank: int) -> None:
        expected = self.expected(circuit)[from_rank - 1 :]
        try:
            page = self.view.page(circuit, size, from_rank=from_rank)
            found = [] if page is None else json.loads(page.rows)
            while page is not None and page.last is not None:
                page = self.view.page(circuit, size, page.last)
                found += [] if page is None else json.loads(page.rows)
        except NotMade:
            return
        assert found == expected

    @rule(circuit=CIRCUIT_IDS, drivers=st.lists(DRIVER_IDS))
    def name_some(self, circuit: int, drivers: list[int]) -> None:
        try:
            found = json.loads(self.view.named(circuit, drivers))
        except NotMade:
            return
        assert found == [lap for lap in self.expected(circuit) if lap["driver"] in drivers]

    @precondition(lambda self: self.work is None)
    @rule(circuit=CIRCUIT_IDS)
    def count(self, circuit: int) -> None:
        try:
            assert (self.view.count_of(circuit) or 0) == len(self.expected(circuit))
        except NotMade:
            return

    @invariant()
    def a_change_that_a_reader_could_see_has_another_version(self) -> None:
        now = (self.view.version, [self.expected(circuit) for circuit in range(-1, 3)])
        version, seen = self.last_seen
        assert now[0] != version or now[1] == seen
        self.last_seen = now


class ReadBackMachine(RankingMachine):
    """The same where laps are read back from their places, and not from the store."""

    read_back = READ_BACK


TestReadBack = ReadBackMachine.TestCase
TestReadBack.settings = settings(max_examples=100, deadline=None)
TestRanking = RankingMachine.TestCase
TestRanking.settings = settings(max_examples=150, deadline=None)

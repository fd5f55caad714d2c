"""Whatever happens in whatever order, the view shows what the stores say."""

import json

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from runtime.results import Made, Result, from_stored
from runtime.serving.in_memory import TOPIC_ID
from runtime.serving.view import Range, Rendered, tagged
from runtime.stores.table_rows import certain_fields
from tests.drivers.readings import LIMITS, PEAKS, SENSORS, STATIONS, peaks
from tests.drivers.stores import StoresDriver

IDS = st.integers(-2, 4)
NAMES = st.none() | st.sampled_from(["a", "b"])
LEVELS = st.lists(st.tuples(IDS, st.integers(0, 9)), max_size=6)
RESULTS = st.none() | st.builds(
    lambda generation, levels: Result(Made(generation), peaks(*levels)), st.integers(1, 3), LEVELS
)


class ViewMachine(RuleBasedStateMachine):
    """Compares the view with a rendering of every row from the stores."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = StoresDriver(partitions=2)
        self.last_seen: tuple[int, object] = (-1, None)

    @rule(station=IDS, result=RESULTS)
    def publish(self, station: int, result: Result | None) -> None:
        self.driver.station(station, result)

    @rule(sensor=IDS, name=NAMES)
    def name_sensor(self, sensor: int, name: str | None) -> None:
        self.driver.name(SENSORS, {sensor: name})

    @rule(station=IDS, name=NAMES)
    def name_station(self, station: int, name: str | None) -> None:
        self.driver.name(STATIONS, {station: name})

    @rule()
    def warm_up(self) -> None:
        coroutine = self.driver.view.warm_up()
        try:
            while True:
                coroutine.send(None)
        except StopIteration:
            pass

    @rule(partition=st.integers(0, 1), empty=st.booleans())
    def reset_partition(self, partition: int, empty: bool) -> None:
        if empty:
            self.driver.copy(PEAKS, partition).begin(TOPIC_ID, 0)
        self.driver.view.partition_reset(partition)

    @rule()
    def reset_sensors(self) -> None:
        self.driver.table(SENSORS).begin(TOPIC_ID, 0)
        self.driver.view.tables_reset()

    @rule(partition=st.integers(0, 1))
    def be_ready(self, partition: int) -> None:
        self.driver.view.partition_ready(partition)

    @rule(station=IDS, limit=st.integers(1, 5))
    def get(self, station: int, limit: int) -> None:
        assert self.driver.view.get(station, limit) == self.expected(limit).get(station)

    @rule(
        first=st.none() | IDS,
        end=st.none() | IDS,
        most=st.none() | st.integers(0, 3),
        descending=st.booleans(),
        limit=st.sampled_from([2, 3]),
    )
    def get_range(self, first: int | None, end: int | None, most: int | None, descending: bool, limit: int) -> None:
        expected = sorted(
            (
                (station, shown.body)
                for station, shown in self.expected(limit).items()
                if (first is None or first <= station) and (end is None or station < end)
            ),
            reverse=descending,
        )
        assert self.driver.view.rows([0, 1], Range(first, end, most, descending), limit) == expected[:most]

    @rule(partitions=st.lists(st.integers(0, 1), unique=True))
    def count(self, partitions: list[int]) -> None:
        expected = [p for p in self.expected(3) if self.driver.view.partition_for(p) in partitions]
        assert self.driver.view.count(partitions) == len(expected)

    @invariant()
    def a_change_that_a_reader_could_see_has_another_version(self) -> None:
        now = (self.driver.view.version, self.expected(3))
        version, seen = self.last_seen
        assert now[0] != version or now[1] == seen
        self.last_seen = now

    def expected(self, limit: int) -> dict[int, Rendered]:
        names = {topic: self.names(topic) for topic in (SENSORS, STATIONS)}
        shown: dict[int, Rendered] = {}
        store = self.driver.topology.store(PEAKS)
        for partition in self.driver.all_partitions:
            for encoded, value in self.driver.copy(PEAKS, partition).store.scan():
                station = store.key.type.decode(encoded)
                readings = from_stored(store.record, value).values
                found = [
                    {"sensor": names[SENSORS][sensor], "station": names[STATIONS][station], "level": level}
                    for level, _, sensor in readings
                    if sensor in names[SENSORS] and station in names[STATIONS]
                ]
                if found:
                    body = json.dumps(found[: min(limit, LIMITS.most)], ensure_ascii=False, separators=(",", ":"))
                    shown[station] = tagged(body.encode())
        return dict(sorted(shown.items()))

    def names(self, topic: str) -> dict[int, str]:
        """Return the names of a table by id, as its store has them."""
        table = self.driver.topology.table(topic)
        rows = self.driver.table(topic).store.scan()
        found = {table.key.type.decode(encoded): certain_fields(value) for encoded, value in rows}
        return {row_id: fields["name"] for row_id, fields in found.items() if fields is not None}


TestView = ViewMachine.TestCase
TestView.settings = settings(max_examples=150, deadline=None)

"""Whatever happens in whatever order, the view shows what the stores say."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from topology.leaderboard.records import Board

from tests.drivers.stores import TOPIC_ID, StoresDriver, entries
from topology.leaderboard.shown import Rendered, render, visible

IDS = st.integers(-2, 4)
NAMES = st.none() | st.sampled_from(["a", "b"])
SCORES = st.lists(st.tuples(IDS, st.integers(0, 9)), max_size=6)
BOARDS = st.none() | st.builds(
    lambda generation, known, pending: Board(generation, entries(*known), entries(*pending, first_offset=100)),
    st.integers(1, 3),
    SCORES,
    SCORES,
)


class ViewMachine(RuleBasedStateMachine):
    """Compares the view with a rendering of every board from the stores."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = StoresDriver(partitions=2)
        self.last_seen: tuple[int, object] = (-1, None)

    @rule(product=IDS, board=BOARDS)
    def publish(self, product: int, board: Board | None) -> None:
        self.driver.board(product, board)

    @rule(player=IDS, name=NAMES)
    def name_player(self, player: int, name: str | None) -> None:
        self.driver.name("players", {player: name})

    @rule(product=IDS, name=NAMES)
    def name_product(self, product: int, name: str | None) -> None:
        self.driver.name("products", {product: name})

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
            self.driver.boards[partition].begin(TOPIC_ID, 0)
        self.driver.view.partition_reset(partition)

    @rule()
    def reset_players(self) -> None:
        self.driver.tables["players"].begin(TOPIC_ID, 0)
        self.driver.view.tables_reset()

    @rule(partition=st.integers(0, 1))
    def be_ready(self, partition: int) -> None:
        self.driver.view.partition_ready(partition)

    @rule(product=IDS, limit=st.integers(1, 5))
    def get(self, product: int, limit: int) -> None:
        assert self.driver.queries.get(product, limit) == self.expected(limit).get(product)

    @rule(first=IDS, last=IDS, limit=st.sampled_from([2, 3]))
    def get_range(self, first: int, last: int, limit: int) -> None:
        expected = [
            (product, shown.body) for product, shown in self.expected(limit).items() if first <= product <= last
        ]
        assert self.driver.queries.boards([0, 1], limit, first, last) == expected

    @rule(partitions=st.lists(st.integers(0, 1), unique=True))
    def count(self, partitions: list[int]) -> None:
        expected = [p for p in self.expected(3) if self.driver.queries.partition_for(p) in partitions]
        assert self.driver.queries.count(partitions) == len(expected)

    @invariant()
    def a_change_that_a_reader_could_see_has_another_version(self) -> None:
        now = (self.driver.queries.version, self.expected(3))
        version, seen = self.last_seen
        assert now[0] != version or now[1] == seen
        self.last_seen = now

    def expected(self, limit: int) -> dict[int, Rendered]:
        players = self.driver.tables["players"].store
        products = self.driver.tables["products"].store

        def player_name(player_id: int) -> str | None:
            name = players.get(player_id)
            return None if name is None else name.decode()

        shown: dict[int, Rendered] = {}
        for copy in self.driver.boards:
            for product_id, value in copy.store.scan():
                name = products.get(product_id)
                product_name = None if name is None else name.decode()
                found = visible(product_id, Board.from_json(value), product_name, player_name, limit)
                if found:
                    shown[product_id] = render(found)
        return dict(sorted(shown.items()))


TestView = ViewMachine.TestCase
TestView.settings = settings(max_examples=150, deadline=None)

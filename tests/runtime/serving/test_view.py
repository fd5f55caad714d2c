"""The view and the queries over it, fed by the topology driver."""

import asyncio
import json
from collections.abc import Callable
from typing import NoReturn

import pytest

from runtime.copies.store_copy import SLICE_S
from runtime.errors import StateUnusable
from runtime.kafka.partitioner import partition_for
from runtime.stores.memory import MemoryStore
from tests.drivers.eventually import eventually
from tests.drivers.stores import StoresDriver, board

PLAYERS: dict[int, str | None] = {1: "Elyse", 2: "Mitch", 3: "Isabelle", 4: "Sammy"}


@pytest.fixture
def driver() -> StoresDriver:
    driver = StoresDriver()
    driver.name("players", PLAYERS)
    driver.name("products", {1: "Super Smash Bros", 6: "Mario Kart"})
    return driver


@pytest.fixture(params=["cold", "warm"])
async def either(request: pytest.FixtureRequest, driver: StoresDriver) -> StoresDriver:
    if request.param == "warm":
        await driver.view.warm_up()
    return driver


async def test_a_board_shows_its_best_three_with_names(either: StoresDriver) -> None:
    either.board(1, board((3, 4000), (2, 2000), (1, 1000), (4, 10)))
    rendered = either.queries.get(1, 3)
    assert rendered is not None
    assert rendered.body.startswith(
        b'[{"playerId":3,"productId":1,"playerName":"Isabelle","gameName":"Super Smash Bros","score":4000.0},'
    )
    assert either.get(1) == [("Isabelle", 4000.0), ("Mitch", 2000.0), ("Elyse", 1000.0)]
    assert either.get(1, limit=4) == [*(either.get(1) or []), ("Sammy", 10.0)]
    assert either.get(1, limit=1) == [("Isabelle", 4000.0)]


async def test_a_rename_shows_without_any_new_score(either: StoresDriver) -> None:
    either.board(1, board((3, 4000)))
    version = either.queries.version
    either.name("players", {3: "Isa"})
    assert either.get(1) == [("Isa", 4000.0)]
    assert either.queries.version > version


async def test_a_deleted_player_makes_room_for_the_next(either: StoresDriver) -> None:
    either.board(1, board((3, 4000), (2, 2000), (1, 1000), (4, 10)))
    either.name("players", {2: None})
    assert either.get(1) == [("Isabelle", 4000.0), ("Elyse", 1000.0), ("Sammy", 10.0)]


async def test_a_pending_score_shows_the_moment_its_player_exists(either: StoresDriver) -> None:
    either.board(1, board((2, 2000), pending=[(9, 5000)]))
    assert either.get(1) == [("Mitch", 2000.0)]
    either.name("players", {9: "Nina"})
    assert either.get(1) == [("Nina", 5000.0), ("Mitch", 2000.0)]


async def test_a_board_of_hidden_entries_is_absent_until_one_shows(either: StoresDriver) -> None:
    either.board(1, board(pending=[(9, 5000)]))
    assert (either.get(1), either.get(1, limit=5), either.all()) == (None, None, {})
    assert either.queries.count(either.all_partitions) == 0
    either.name("players", {9: "Nina"})
    assert either.all() == {1: [("Nina", 5000.0)]}
    assert either.queries.count(either.all_partitions) == 1
    either.name("players", {9: None})
    assert either.queries.count(either.all_partitions) == 0


async def test_an_unknown_product_hides_its_board(either: StoresDriver) -> None:
    either.board(77, board((3, 1)))
    assert either.get(77) is None
    either.name("products", {77: "Tetris"})
    assert either.get(77) == [("Isabelle", 1.0)]
    either.name("products", {77: None})
    assert either.get(77) is None


async def test_a_deleted_board_is_absent(either: StoresDriver) -> None:
    either.board(1, board((3, 4000)))
    either.board(1, None)
    assert (either.get(1), either.queries.count(either.all_partitions)) == (None, 0)


async def test_a_range_is_numeric_and_inclusive(either: StoresDriver) -> None:
    either.name("products", {product: f"game {product}" for product in (-5, 2, 10, 30)})
    for product in (-5, 2, 10, 30):
        either.board(product, board((1, product)))

    def ids(first: int | None = None, last: int | None = None) -> list[int]:
        return [product for product, _ in either.queries.boards(either.all_partitions, 3, first, last)]

    assert ids() == [-5, 2, 10, 30]
    assert ids(2, 10) == [2, 10]
    assert ids(3) == [10, 30]
    assert ids(last=-5) == [-5]
    assert ids(11, 29) == []


async def test_only_the_boards_that_show_a_player_are_rendered_again(driver: StoresDriver) -> None:
    driver.board(1, board((3, 4000)))
    driver.board(6, board((2, 9000)))
    await driver.view.warm_up()
    untouched = driver.queries.get(6, 3)
    driver.name("players", {3: "Isa"})
    assert driver.queries.get(6, 3) is untouched


async def test_a_name_on_very_many_boards_is_right_at_once(driver: StoresDriver) -> None:
    for product in range(100, 300):
        driver.name("products", {product: f"game {product}"})
        driver.board(product, board((3, product)))
    await driver.view.warm_up()
    driver.name("players", {3: "Isa"})
    assert driver.get(250) == [("Isa", 250.0)]
    assert driver.queries.count(driver.all_partitions) == 200
    driver.name("players", {3: None})
    assert driver.queries.count(driver.all_partitions) == 0
    await driver.view.warm_up()
    driver.name("players", {3: "Isabelle"})
    assert driver.all()[299] == [("Isabelle", 299.0)]


async def test_equal_bytes_have_equal_tags(driver: StoresDriver) -> None:
    driver.board(1, board((3, 4000)))
    first = driver.queries.get(1, 3)
    driver.name("players", {3: "Isa"})
    second = driver.queries.get(1, 3)
    driver.name("players", {3: "Isabelle"})
    assert first is not None
    assert second is not None
    assert first.etag != second.etag
    assert first == driver.queries.get(1, 3)
    assert driver.queries.get(1, 1) == first


async def test_names_keep_their_letters(driver: StoresDriver) -> None:
    driver.name("players", {3: 'Zoë "Z" 🎮'})
    driver.board(1, board((3, 1.5)))
    rendered = driver.queries.get(1, 3)
    assert rendered is not None
    assert 'Zoë \\"Z\\" 🎮'.encode() in rendered.body
    assert json.loads(rendered.body)[0]["score"] == 1.5


async def test_a_tables_reset_forgets_every_name(driver: StoresDriver) -> None:
    driver.board(1, board((3, 4000)))
    await driver.view.warm_up()
    driver.tables["players"].begin("another topic", 0)
    driver.view.tables_reset()
    assert driver.get(1) is None
    driver.name("players", {3: "Isa"})
    assert driver.get(1) == [("Isa", 4000.0)]


async def test_a_warm_up_sees_boards_that_change_meanwhile(driver: StoresDriver) -> None:
    for product in range(2000):
        driver.name("products", {product: "game"})
        driver.board(product, board((3, product)))
    driver.view.tables_reset()
    for partition in driver.all_partitions:
        driver.view.partition_ready(partition)
    warming = driver.view.warm_up()
    steps = 0
    try:
        while True:
            warming.send(None)
            steps += 1
            driver.board(1999 - steps, None)
            driver.board(steps, board((2, 1), generation=2))
    except StopIteration:
        pass
    assert steps > 2, f"it should have paused every {SLICE_S} s"
    expected = {product for product in range(2000) if driver.get(product) is not None}
    assert (
        driver.queries.count(driver.all_partitions)
        == len(expected)
        == 2000 - len({1999 - step for step in range(1, steps + 1)} - set(range(1, steps + 1)))
    )
    assert driver.get(1) == [("Mitch", 1.0)]


async def test_boards_are_rendered_ahead_again_after_a_store_could_not_be_read(
    driver: StoresDriver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    driver.board(1, board((3, 4000)))
    driver.view.tables_reset()
    keeping_warm = asyncio.create_task(driver.view.keep_warm())
    with monkeypatch.context() as patched:
        patched.setattr(MemoryStore, "scan", _closed)
        driver.view.partition_ready(partition_for(1, 4))
        await eventually(lambda: "rendered later: it is closed" in caplog.text)
    driver.view.partition_ready(partition_for(1, 4))
    await eventually(lambda: sum(driver.view.shown().values()) == 1)
    keeping_warm.cancel()


def _closed(*_: object) -> NoReturn:
    raise StateUnusable("it is closed")


async def test_status_tells_the_role(driver: StoresDriver) -> None:
    driver.queries.set_active({1, 2})
    assert [driver.queries.status(partition).role for partition in range(3)] == ["standby", "active", "active"]
    assert driver.queries.status(99).can_answer is False
    assert driver.queries.partition_for(1) in driver.all_partitions


@pytest.mark.parametrize("limit", [1, 3, 10])
async def test_watchers_are_told_of_whatever_a_reader_of_any_limit_could_see(driver: StoresDriver, limit: int) -> None:
    driver.name("players", {player: f"player {player}" for player in range(10, 20)})
    driver.board(1, board(*((player, 100 - player) for player in range(10, 20)), pending=[(99, 5)]))
    driver.board(6, board((3, 4000)))
    await driver.view.warm_up()
    driver.queries.get(1, limit)
    told: list[int | None] = []
    unwatch = driver.queries.watch(told.append)
    changes: list[Callable[[], None]] = [
        lambda: driver.name("players", {19: "the last place"}),
        lambda: driver.name("players", {10: None}),
        lambda: driver.name("players", {99: "now known"}),
        lambda: driver.name("products", {1: "renamed"}),
        lambda: driver.name("products", {1: None}),
        lambda: driver.name("products", {1: "again"}),
        lambda: driver.board(1, board((3, 1), generation=2)),
        lambda: driver.board(1, None),
    ]
    for change in changes:
        told.clear()
        version = driver.queries.version
        change()
        assert told == [1]
        assert driver.queries.version > version
    driver.view.partition_ready(0)
    assert told[-1] is None
    unwatch()
    told.clear()
    driver.board(6, board((3, 5000)))
    assert told == []


async def test_who_is_on_very_many_boards_changes_all_of_them_for_watchers(driver: StoresDriver) -> None:
    products = range(100, 300)
    driver.name("products", {product: f"game {product}" for product in products})
    for product in products:
        driver.board(product, board((3, product)))
    await driver.view.warm_up()
    told: list[int | None] = []
    driver.queries.watch(told.append)
    driver.name("players", {3: "Isa"})
    assert sorted(each for each in told if each is not None) == list(products)
    assert driver.get(250) == [("Isa", 250.0)]


async def test_at_most_so_many_boards_are_the_lowest_ones(either: StoresDriver) -> None:
    either.name("products", {product: f"game {product}" for product in (-5, 2, 10, 30)})
    for product in (-5, 2, 10, 30):
        either.board(product, board((1, product)))
    assert [p for p, _ in either.queries.boards(either.all_partitions, 3, 2, most=2)] == [2, 10]
    assert either.queries.boards(either.all_partitions, 3, 31, most=2) == []

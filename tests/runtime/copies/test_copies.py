"""What records do to a store: boards merge, the last name counts, what cannot be used is counted."""

import itertools
import json
from types import SimpleNamespace

import pytest
from topology.leaderboard.records import NOT_A_BOARD, Board

from runtime.copies.store_copy import why_begin_again
from runtime.kafka.partitioner import partition_for
from runtime.records import MISPLACED, NO_KEY, NO_VALUE, NOT_A_NAME, NOT_AN_ID, NOT_JSON_OBJECT, NOT_THE_KEY
from runtime.stores.protocol import Fill
from tests.drivers.stores import TOPIC_ID, FedRecord, StoresDriver, board, entries


def test_boards_of_one_generation_merge() -> None:
    driver = StoresDriver()
    driver.board(1, board((3, 40), (1, 10)))
    driver.board(1, Board(1, board((2, 20)).known, ()))
    merged = driver.stored(1)
    assert merged is not None
    assert [entry.player_id for entry in merged.known] == [3, 2, 1]


def test_a_higher_generation_replaces_and_a_lower_one_is_ignored() -> None:
    driver = StoresDriver()
    driver.board(1, board((3, 40), generation=1))
    newer = board((1, 5), generation=2)
    driver.board(1, newer)
    driver.board(1, board((3, 90), generation=1))
    assert driver.stored(1) == newer


def test_a_board_is_cut_at_its_places() -> None:
    driver = StoresDriver(places=2)
    driver.board(1, board((3, 40), (1, 10)))
    driver.board(1, board((2, 50)))
    merged = driver.stored(1)
    assert merged is not None
    assert [entry.score for entry in merged.known] == [50, 40]


def test_records_of_one_slice_are_taken_in_order() -> None:
    driver = StoresDriver(partitions=1)
    copy = driver.boards[0]
    values = [board((3, 1)), None, board((2, 7)), board((1, 9), generation=2)]
    records = [FedRecord(index, b"1", value and value.to_json()) for index, value in enumerate(values)]
    assert copy.apply(records, 0) == 4
    assert driver.stored(1) == values[-1]
    assert copy.position == 4


def test_a_record_that_is_the_whole_board_is_stored_as_it_came() -> None:
    driver = StoresDriver(partitions=1)
    for number, whole in enumerate([board((3, 40)), board((3, 40), (1, 10))]):
        as_it_came = whole.to_json().replace(b",", b" ,")
        driver.boards[0].apply([FedRecord(number, b"1", as_it_came)], 0)
        assert driver.boards[0].store.get(1) == as_it_came
        assert driver.stored(1) == whole


def test_a_record_read_again_is_not_used_again() -> None:
    driver = StoresDriver(partitions=1)
    driver.feed_board(b"1", board((3, 1)).to_json())
    driver.feed_board(b"1", None)
    driver.boards[0].apply([FedRecord(0, b"1", board((3, 1)).to_json())], 0)
    assert driver.stored(1) is None


def test_a_late_older_board_is_to_be_published_again() -> None:
    driver = StoresDriver(partitions=1)
    copy = driver.boards[0]
    newer = board((3, 40), (1, 10))
    older = Board(1, newer.known[1:], ())
    driver.feed_board(b"1", older.to_json())
    driver.feed_board(b"1", newer.to_json())
    assert list(copy.lacking(0.0)) == []
    driver.feed_board(b"1", older.to_json())
    driver.feed_board(b"2", older.to_json())
    [(product_id, value)] = copy.lacking(0.0)
    merged = Board.from_json(value)
    assert product_id == 1
    assert set(merged.known) >= set(newer.known)
    assert list(copy.lacking(60.0)) == [], "it may still be followed by a whole one"
    # Until it is published, the store remembers to read the late record again.
    assert copy.fill is not None
    assert (copy.fill.position, copy.position) == (2, 4)
    driver.feed_board(b"1", value)
    assert list(copy.lacking(0.0)) == []
    assert copy.fill.position == copy.position == 5


def test_a_lower_generation_behind_a_higher_one_is_to_be_published_over() -> None:
    driver = StoresDriver(partitions=1)
    driver.feed_board(b"1", board((3, 40), generation=2).to_json())
    driver.feed_board(b"1", board((3, 90), generation=1).to_json())
    assert [product_id for product_id, _ in driver.boards[0].lacking(0.0)] == [1]


def test_a_pending_entry_that_a_record_has_as_known_is_not_lacking() -> None:
    driver = StoresDriver(partitions=1, places=2)
    copy = driver.boards[0]
    first, second, third = entries((1, 10), (2, 20), (3, 30))
    driver.feed_board(b"1", Board(1, (), (first,)).to_json())
    driver.feed_board(b"1", Board(1, (first,), ()).to_json())
    assert list(copy.lacking(0.0)) == []
    assert copy.fill is not None
    assert copy.fill.position == copy.position == 2
    driver.feed_board(b"1", Board(1, (third, second), ()).to_json())
    assert [product_id for product_id, _ in copy.lacking(0.0)] == [1], "others would restore the board without it"


@pytest.mark.parametrize(
    "late",
    [
        Board(1, board((3, 40)).known, board(pending=[(5, 50)]).pending, 7),
        Board(1, board((3, 40), (1, 10)).known, (), 7),
        Board(1, board((3, 40), (1, 10)).known, board(pending=[(5, 50)]).pending, 6),
        Board(0, board((3, 40), (1, 10)).known, board(pending=[(5, 50)]).pending, 7),
    ],
    ids=["known", "pending", "pending_lost", "generation"],
)
def test_whatever_a_late_record_lacks_is_to_be_published_again(late: Board) -> None:
    driver = StoresDriver(partitions=1)
    whole = board((3, 40), (1, 10), pending=[(5, 50)])._replace(pending_lost=7)
    driver.feed_board(b"1", whole.to_json())
    driver.feed_board(b"1", late.to_json())
    [(_, value)] = driver.boards[0].lacking(0.0)
    assert Board.from_json(value) == whole


BEYOND_64_BITS = board((2**63, 1)).to_json()


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, b"{}", NOT_AN_ID),
        (b"01", b"{}", NOT_AN_ID),
        (b"1.0", b"{}", NOT_AN_ID),
        (b"\xff", b"{}", NOT_AN_ID),
        (b"9223372036854775808", b"{}", NOT_AN_ID),
        (b"1", b"", NO_VALUE),
        (b"1", b"[]", NOT_JSON_OBJECT),
        (b"1", b"null", NOT_JSON_OBJECT),
        (b"1", b"{", NOT_JSON_OBJECT),
        (b"1", b"[" * 100_000, NOT_JSON_OBJECT),
        (b"1", b'{"generation":1e999,"known":[],"pending":[],"pending_lost":0}', NOT_A_BOARD),
        (b"1", b'{"generation":1,"known":[{"score":NaN}],"pending":[],"pending_lost":0}', NOT_JSON_OBJECT),
        (b"1", BEYOND_64_BITS, NOT_A_BOARD),
    ],
)
def test_a_board_record_that_cannot_be_used_is_counted_and_passed(key: bytes | None, value: bytes, reason: str) -> None:
    driver = StoresDriver(partitions=1)
    driver.feed_board(key, value)
    assert driver.unusable.counts == {("high-scores", reason): 1}
    assert driver.boards[0].position == 1


def test_a_board_whose_key_got_a_record_that_cannot_be_used_is_to_be_published_over_it() -> None:
    driver = StoresDriver(partitions=1)
    copy = driver.boards[0]
    whole = board((3, 40))
    driver.feed_board(b"1", whole.to_json())
    for key in (b"1", b"2", b"01"):
        driver.feed_board(key, b'{"generation": 9}')
    assert driver.stored(1) == whole
    assert [product_id for product_id, _ in copy.lacking(0.0)] == [1], "compaction keeps the last record of a key"
    assert copy.fill is not None
    assert (copy.fill.position, copy.position) == (1, 4)
    driver.feed_board(b"1", whole.to_json())
    assert list(copy.lacking(0.0)) == []


def test_a_board_in_the_wrong_partition_is_not_used() -> None:
    driver = StoresDriver(partitions=4)
    wrong = (partition_for(1, 4) + 1) % 4
    driver.feed_board(b"1", board((3, 1)).to_json(), wrong)
    assert driver.unusable.counts == {("high-scores", MISPLACED): 1}
    assert driver.get(1) is None


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, b'{"id":1,"name":"x"}', NO_KEY),
        (b"1", b'{"id":2,"name":"x"}', NOT_THE_KEY),
        (b"1", b'{"id":1,"name":"\\ud800"}', NOT_A_NAME),
        (b"1", b"5", NOT_JSON_OBJECT),
        (b"1", b'{"id":1}', NOT_A_NAME),
    ],
)
def test_a_table_record_that_cannot_be_used_is_counted_and_passed(key: bytes | None, value: bytes, reason: str) -> None:
    driver = StoresDriver()
    driver.feed_table("players", key, value)
    assert driver.unusable.counts == {("players", reason): 1}
    assert list(driver.tables["players"].store.scan()) == []


def test_changes_of_a_table_are_counted() -> None:
    driver = StoresDriver()
    players = driver.tables["players"]
    driver.name("players", {1: "Elyse", 2: "Mitch"})
    driver.name("players", {1: "Ely", 2: None, 3: None})
    assert (players.added, players.deleted) == (2, 1)


def test_heavy_records_are_taken_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    # A clock of its own, by which a record takes half a millisecond, on whatever machine.
    clock = SimpleNamespace(monotonic=itertools.count(0, 0.0005).__next__)
    monkeypatch.setattr("runtime.copies.store_copy.time", clock)
    driver = StoresDriver(partitions=1)
    value = board(*((player, 1000 - player) for player in range(20))).to_json()
    records = [FedRecord(offset, str(offset).encode(), value) for offset in range(500)]
    done = driver.boards[0].apply(records, 0)
    assert 0 < done < 500
    assert driver.boards[0].fill == Fill(TOPIC_ID, done, restored=True, current_at_ms=0)
    assert json.loads(driver.boards[0].store.get(done - 1) or b"")["generation"] == 1
    assert driver.boards[0].store.get(done) is None


DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("fill", "now_ms", "begins_again"),
    [
        (None, 0, True),
        (Fill("a", 5, True, 0), 0, False),
        (Fill("b", 5, True, 0), 0, True),
        (Fill("a", 3, True, 0), 0, False),
        (Fill("a", 2, True, 0), 0, True),
        (Fill("a", 9, True, 0), 0, False),
        (Fill("a", 10, True, 0), 0, True),
        (Fill("a", 5, True, 0), DAY_MS, False),
        (Fill("a", 5, True, 0), DAY_MS + 1, True),
        (Fill("a", 9, True, 0), DAY_MS + 1, False),
    ],
)
def test_a_store_goes_on_where_it_can(fill: Fill | None, now_ms: int, begins_again: bool) -> None:
    again = why_begin_again(fill, "a", begin=3, end=9, now_ms=now_ms, delete_retention_ms=DAY_MS)
    assert (again is not None) is begins_again


@pytest.mark.parametrize(
    ("fill", "lost"),
    [
        (None, False),
        (Fill("b", 5, True, 0), True),
        (Fill("b", 5, False, 0), False),
        (Fill("a", 10, True, 0), True),
        (Fill("a", 5, True, -2 * DAY_MS), False),
    ],
)
def test_a_topic_that_lost_records_is_told_from_a_store_that_did(fill: Fill | None, *, lost: bool) -> None:
    again = why_begin_again(fill, "a", begin=3, end=9, now_ms=0, delete_retention_ms=DAY_MS)
    assert again is not None
    assert again.topic_lost_records is lost


def test_boards_that_their_topic_has_lost_are_kept_and_published_again() -> None:
    driver = StoresDriver(partitions=2)
    ids = [product_id for product_id in range(20) if partition_for(product_id, 2) == 0]
    for product_id in ids:
        driver.board(product_id, board((1, product_id)))
    copy = driver.boards[0]
    elsewhere = copy.misplaced(4)
    copy.place(4)
    copy.begin_after_loss("another", 0)
    copy.resume(0)
    assert elsewhere
    assert set(elsewhere) == {product_id for product_id in ids if partition_for(product_id, 4) != 0}
    here = [product_id for product_id in ids if partition_for(product_id, 4) == 0]
    assert [product_id for product_id, _ in copy.lacking(0.0)] == here
    assert [product_id for product_id, _ in copy.store.scan()] == here
    # Before the topic's first record, until all of them are back.
    assert copy.fill == Fill("another", -1, restored=True, current_at_ms=0)
    for product_id, value in list(copy.lacking(0.0)):
        driver.feed_board(str(product_id).encode(), value, 0)
    assert list(copy.lacking(0.0)) == []
    assert copy.fill is not None
    assert copy.fill.position == len(here)


def test_boards_to_publish_again_are_not_forgotten_when_the_filling_is_interrupted() -> None:
    driver = StoresDriver(partitions=1)
    for product_id in (1, 2, 3):
        driver.board(product_id, board((1, product_id)))
    copy = driver.boards[0]
    copy.begin_after_loss("another", 0)
    copy.rewind()
    copy.resume(0)
    assert [product_id for product_id, _ in copy.lacking(0.0)] == [1, 2, 3]
    copy.begin("a third", 0)
    assert list(copy.lacking(0.0)) == []


def test_boards_to_publish_again_are_not_forgotten_when_the_process_ends() -> None:
    driver = StoresDriver(partitions=1)
    for product_id in (1, 2):
        driver.board(product_id, board((1, product_id)))
    copy = driver.boards[0]

    def begins_again() -> bool:
        """Whether another process, which has nothing but the store, publishes all of its boards again."""
        again = why_begin_again(copy.fill, "another", begin=0, end=9, now_ms=0, delete_retention_ms=DAY_MS)
        return again is not None and again.topic_lost_records

    copy.begin_after_loss("another", 0)
    copy.resume(0)
    (first, first_value), (second, second_value) = copy.lacking(0.0)
    assert begins_again()
    driver.feed_board(str(first).encode(), first_value, 0)
    assert begins_again()
    driver.feed_board(str(second).encode(), second_value, 0)
    assert not begins_again()


def test_a_kept_board_gives_way_to_one_of_a_later_generation() -> None:
    driver = StoresDriver(partitions=1)
    driver.name("players", {1: "Elyse"})
    driver.name("products", {7: "Game"})
    driver.board(7, board((1, 90)))
    driver.boards[0].begin_after_loss("another", 0)
    assert driver.get(7) == [("Elyse", 90.0)]
    driver.board(7, board((1, 95), generation=2))
    assert driver.get(7) == [("Elyse", 95.0)]
    assert list(driver.boards[0].lacking(0.0)) == []


def test_a_board_that_is_to_be_published_again_and_belongs_elsewhere_holds_nothing_back() -> None:
    driver = StoresDriver(partitions=1)
    copy = driver.boards[0]
    moves = next(product_id for product_id in range(20) if partition_for(product_id, 4) != 0)
    whole = board((3, 40), (1, 10))
    driver.board(moves, whole)
    driver.board(moves, Board(1, whole.known[1:], ()))
    assert copy.fill is not None
    assert copy.fill.position < copy.position
    copy.place(4)
    assert driver.stored(moves) is None
    assert list(copy.lacking(0.0)) == []
    assert copy.fill.position == copy.position

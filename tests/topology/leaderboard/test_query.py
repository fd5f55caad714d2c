"""The leaderboard on plain DataFrames."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from runtime.diagram import text
from runtime.results import Made
from runtime.spark.results import texts_of_generation
from runtime.testing.frames import EPOCH_MS, TOPIC_ID, AnyResult, published_frame
from tests.drivers.topology import BOARD_KEY, Score, TopologyDriver, numbered
from topology.leaderboard import boards as published_boards
from topology.leaderboard.board import STORE
from topology.leaderboard.description import DESCRIPTION
from topology.leaderboard.moderation import Hidden, HiddenPlayer, ScoreName
from topology.leaderboard.places import Board, Entry, Places, kept_of, rank
from topology.leaderboard.surveys import Survey

MakeDriver = Callable[..., TopologyDriver]


def test_the_best_scores_of_a_product_come_first(driver: MakeDriver) -> None:
    scores = numbered([Score(10, 1), Score(30, 2), Score(20, 3), Score(5, 1, product_id=9)])
    boards = driver(products=(1, 9)).boards(scores)
    assert [entry.score for entry in boards[1].known] == [30, 20, 10]
    assert boards[9].known == (scores[3].entry,)


def test_a_board_keeps_twice_the_depth_and_no_more(driver: MakeDriver) -> None:
    board = driver(depth=2).boards(numbered(Score(score, 1) for score in range(10)))[1]
    assert [entry.score for entry in board.known] == [9, 8, 7, 6]


def test_equal_scores_both_stay_and_the_earlier_record_is_first(driver: MakeDriver) -> None:
    later = Score(7, 1, at_ms=5, offset=1)
    earlier = Score(7, 2, at_ms=4, offset=2)
    assert driver().boards([later, earlier])[1].known == (earlier.entry, later.entry)


def test_equal_scores_of_one_moment_rank_by_partition_then_offset(driver: MakeDriver) -> None:
    scores = [
        Score(7, 1, partition=1, offset=1),
        Score(7, 1, partition=0, offset=9),
        Score(7, 1, partition=0, offset=8),
    ]
    assert [(e.partition, e.offset) for e in driver().boards(scores)[1].known] == [(0, 8), (0, 9), (1, 1)]


def test_a_player_may_hold_several_places(driver: MakeDriver) -> None:
    board = driver().boards(numbered([Score(3, 1), Score(2, 1), Score(1, 2)]))[1]
    assert [entry.player_id for entry in board.known] == [1, 1, 2]


@pytest.mark.parametrize("unknown", [Score(99, 4), Score(99, 1, product_id=2)], ids=["player", "product"])
def test_a_score_of_an_unknown_player_or_product_is_pending(driver: MakeDriver, unknown: Score) -> None:
    board = driver().boards([unknown])[unknown.product_id]
    assert (board.known, board.pending) == ((), (unknown.entry,))


def test_unknown_players_never_push_out_known_ones(driver: MakeDriver) -> None:
    known = [Score(score, 1) for score in range(4)]
    unknown = [Score(100 + score, 77) for score in range(20)]
    board = driver(depth=2).boards(numbered([*known, *unknown]))[1]
    assert [entry.score for entry in board.known] == [3, 2, 1, 0]
    assert [entry.score for entry in board.pending] == [119, 118, 117, 116]


def test_what_falls_out_of_a_pending_list_is_counted(driver: MakeDriver) -> None:
    boards = driver(depth=2).boards(numbered(Score(score, 77) for score in range(9)))
    assert boards[1].pending_lost == 5


def test_floors_change_nothing_on_the_boards(driver: MakeDriver) -> None:
    seeded = random.Random(4)
    scores = numbered(Score(seeded.randrange(50), seeded.randrange(1, 4)) for _ in range(300))
    without = driver().boards(scores)
    floor = without[1].known[-1].score
    assert driver(floors={1: floor}).boards(scores) == without


def test_a_score_below_the_floor_is_dropped_and_an_equal_one_passes(driver: MakeDriver) -> None:
    board = driver(floors={1: 5.0}).boards(numbered([Score(4.9, 1), Score(5.0, 1)]))[1]
    assert [entry.score for entry in board.known] == [5.0]


def test_boards_without_a_floor_keep_every_score(driver: MakeDriver) -> None:
    assert len(driver(products=(1, 2), floors={2: 100.0}).boards(numbered([Score(1, 1)]))[1].known) == 1


UNUSABLE: tuple[bytes | None, ...] = (
    None,
    b"",
    b"null",
    b"5",
    b"[]",
    b"{",
    b"\xff\xfe",
    b'{"score": 1, "product_id": 1}',
    b'{"score": null, "product_id": 1, "player_id": 1}',
    b'{"score": "many", "product_id": 1, "player_id": 1}',
    b'{"score": NaN, "product_id": 1, "player_id": 1}',
    b'{"score": "NaN", "product_id": 1, "player_id": 1}',
    b'{"score": "Infinity", "product_id": 1, "player_id": 1}',
    b'{"score": 1e999, "product_id": 1, "player_id": 1}',
    b'{"score": 1, "product_id": 1.5, "player_id": 1}',
    b'{"score": 1, "product_id": 1, "player_id": 9223372036854775808}',
    b'{"score": 1, "product_id": 1, "player_id": true}',
    b'{"score": {"a": 1}, "product_id": 1, "player_id": 1}',
)


def test_a_record_that_cannot_be_used_changes_no_board(driver: MakeDriver) -> None:
    boards = driver(depth=50).boards_of_values([*UNUSABLE, Score(1, 1).value])
    used = [entry.offset for board in boards.values() for entry in board.ranked()]
    assert [UNUSABLE[offset] for offset in used if offset < len(UNUSABLE)] == []
    assert used == [len(UNUSABLE)]


def test_numbers_in_quotes_are_numbers(driver: MakeDriver) -> None:
    board = driver().boards_of_values([b'{"score": "422", "product_id": "1", "player_id": "2"}'])[1]
    assert [(entry.score, entry.player_id) for entry in board.known] == [(422.0, 2)]


def test_ids_use_all_64_bits(driver: MakeDriver) -> None:
    player, product = 2**63 - 1, -(2**63)
    board = driver(players=(player,), products=(product,)).boards([Score(1, player, product)])
    assert board[product].known[0].player_id == player


def test_spark_ranks_as_python_does(driver: MakeDriver) -> None:
    seeded = random.Random(7)
    scores = [
        Score(
            seeded.randrange(3),
            seeded.randrange(1, 4),
            at_ms=seeded.randrange(3),
            partition=seeded.randrange(3),
            offset=n,
        )
        for n in range(60)
    ]
    board = driver(depth=15).boards(scores)[1]
    assert board.known == tuple(sorted((score.entry for score in scores), key=rank)[:30])


def test_scores_that_are_hidden_one_by_one_take_no_place_however_many_they_are(driver: MakeDriver) -> None:
    scores = numbered([*(Score(100 + score, 1) for score in range(25)), Score(7, 1), Score(8, 2)])
    of_others = [ScoreName("another topic", score.partition, score.offset) for score in scores]
    cheated = [ScoreName(TOPIC_ID, score.partition, score.offset) for score in scores[:25]]
    board = driver(depth=1, hidden=Hidden(scores=frozenset([*of_others, *cheated]))).boards(scores)[1]
    assert board.known == (scores[26].entry, scores[25].entry)
    assert (len(board.hidden), board.hidden_lost) == (20, 5)


SAMPLED, NOT_SAMPLED = 16, 17
"""Offsets, by the hash of them in this partition."""
FULL = [Score(9, 1), Score(8, 2), Score(7, 1), Score(6, 2)]


@pytest.mark.parametrize(
    ("last", "hidden", "is_written"),
    [
        (Score(6.5, 1, offset=NOT_SAMPLED), (), True),
        (Score(6, 1, offset=NOT_SAMPLED), (), False),
        (Score(1, 1, offset=NOT_SAMPLED), (), False),
        (Score(1, 1, offset=SAMPLED), (), True),
        # These take a place, or are counted as lost.
        (Score(1, 77, offset=NOT_SAMPLED), (), True),
        (Score(1, 3, offset=NOT_SAMPLED), (HiddenPlayer(3),), True),
    ],
    ids=["it has a place", "as good, but later", "it has none", "one of many", "unknown", "hidden"],
)
def test_a_score_that_leaves_a_full_board_as_it_is_has_it_written_once_in_many_times(
    driver: MakeDriver, last: Score, hidden: tuple[HiddenPlayer, ...], is_written: bool
) -> None:
    make = driver(hidden=Hidden(players=frozenset(hidden)))
    scores = [*numbered(FULL), replace(last, at_ms=9)]
    parts = make.store.parts([(s.value, s.partition, s.offset, s.at_ms) for s in scores]).coalesce(1)
    assert make.store.made.of_parts(parts, each=True).count() == is_written
    assert make.store.made.of_parts(parts).count() == 1, "while a backlog is read"


class TestGenerations:
    def test_a_seed_is_merged_into_the_boards(self, driver: MakeDriver) -> None:
        before = numbered([Score(9, 1), Score(8, 2), Score(7, 3), Score(6, 1)])
        old = driver().boards(before)
        seed = driver().seed_of(old)
        # The last two are still in the topic; the best two are gone by retention.
        board = driver(seed=seed).boards(before[2:])[1]
        assert board.known == tuple(score.entry for score in before)

    def test_the_floors_of_a_seed_change_nothing_on_the_boards(self, driver: MakeDriver) -> None:
        seeded = random.Random(12)
        scores = numbered(
            Score(seeded.randrange(50), seeded.randrange(1, 5), seeded.choice((1, 1, 1, 2))) for _ in range(120)
        )
        make = driver(products=(1, 2), depth=5)
        old = make.boards(scores[:80])
        # Of product 2 there is less than a full board.
        assert [len(old[product].known) for product in (1, 2)] == [10, 10]
        old[2] = Board(1, old[2].known[:9], ())
        seed = make.seed_of(old)
        parts = published_boards.parts(seed, BOARD_KEY)
        floors = {row.product_id: row.floor for row in published_boards.seed_floors(parts, BOARD_KEY, 10).collect()}
        assert floors == {1: old[1].known[-1].score}
        # Of boards that the seed has, no floor of events that were seen counts.
        seen = make.session.createDataFrame([(1, 1.0), (2, 2.0), (3, 3.0)], "product_id bigint, floor double")
        with_seen = published_boards.with_seed_floors(seen, parts, BOARD_KEY, 10).collect()
        assert {row.product_id: row.floor for row in with_seen} == {**floors, 3: 3.0}
        without = driver(products=(1, 2), depth=5, seed=seed).boards(scores)
        assert known(driver(products=(1, 2), depth=5, seed=seed, floors=floors).boards(scores)) == known(without)

    @pytest.mark.parametrize("unknown", [0, 1, 3])
    def test_a_generation_that_goes_on_has_the_boards_of_one_that_never_ended(
        self, driver: MakeDriver, unknown: int
    ) -> None:
        seeded = random.Random(13 + unknown)
        scores = numbered(Score(seeded.randrange(50), seeded.randrange(1, 4 + unknown)) for _ in range(60))
        make = driver()
        state = make.merged(make.boards(scores[:40]))
        seed = published_boards.going_on(state, BOARD_KEY, *make.tables(), make.kept, make.hiding)
        store = replace(make.store, seed=published_boards.parts_going_on(seed, BOARD_KEY))
        records = [(score.value, score.partition, score.offset, score.at_ms) for score in scores[40:]]
        assert store.results(records)[1].values == make.boards(scores)[1]

    def test_what_was_known_and_what_was_lost_stays_so_when_a_generation_goes_on(self, driver: MakeDriver) -> None:
        scores = numbered([*(Score(score, 1) for score in range(10)), *(Score(score, 7) for score in range(20, 26))])
        now = driver(players=(7,))
        before = driver().boards(scores)
        assert before[1].pending_lost == 2
        seed = published_boards.going_on(now.merged(before), BOARD_KEY, *now.tables(), now.kept, now.hiding)
        [board] = replace(now.store, seed=published_boards.parts_going_on(seed, BOARD_KEY)).results([]).values()
        assert [entry.player_id for entry in board.values.known] == [7, 7, 7, 7]
        assert board.values.pending_lost == 2

    def test_what_was_hidden_and_lost_stays_so_and_what_is_lifted_comes_back_when_a_generation_goes_on(
        self, driver: MakeDriver
    ) -> None:
        cheats = frozenset({HiddenPlayer(1), HiddenPlayer(3)})
        before = driver(depth=1, hidden=Hidden(cheats))
        scores = numbered([*(Score(score, 1) for score in range(25)), Score(30, 3), Score(3, 2)])
        old = before.boards(scores)
        assert (len(old[1].hidden), old[1].hidden_lost) == (20, 6)
        # Player 3 is lifted, and player 2 hidden by now.
        now = driver(depth=1, hidden=Hidden(frozenset({HiddenPlayer(1), HiddenPlayer(2)})))
        seed = published_boards.going_on(now.merged(old), BOARD_KEY, *now.tables(), now.kept, now.hiding)
        [board] = replace(now.store, seed=published_boards.parts_going_on(seed, BOARD_KEY)).results([]).values()
        # Known ones stay: a board that was full is, or its floor would let nothing better through.
        assert [entry.player_id for entry in board.values.known] == [3, 2]
        assert {entry.player_id for entry in board.values.hidden} == {1}
        assert board.values.hidden_lost == 6

    @pytest.mark.parametrize("name", ["pending", "hidden"])
    def test_what_a_seed_pushes_out_is_counted_as_lost(self, driver: MakeDriver, name: str) -> None:
        hidden = Hidden(frozenset({HiddenPlayer(1), HiddenPlayer(2)})) if name == "hidden" else Hidden()
        make = driver(depth=1, players=(1, 2) if name == "hidden" else (), hidden=hidden)
        kept = kept_of(name, make.kept)
        scores = numbered([*(Score(100 + score, 1) for score in range(kept)), *(Score(score, 2) for score in range(3))])
        old = make.boards(scores[:kept])
        assert [len(getattr(old[1], name)), getattr(old[1], f"{name}_lost")] == [kept, 0]
        # All events are read again: those in the seed are passed over, and have their places all the same.
        new = replace(make, seed=make.seed_of(old)).boards(scores)
        assert [len(getattr(new[1], name)), getattr(new[1], f"{name}_lost")] == [kept, 3]

    def test_a_seed_leaves_out_entries_of_deleted_players(self, driver: MakeDriver) -> None:
        old = driver().boards(numbered([Score(9, 1), Score(8, 2)]))
        now = driver(players=(2,))
        row = now.seed_of(old).first()
        assert row is not None
        assert [entry.player_id for entry in row.known] == [2]
        assert row.pending is None

    def test_a_seed_keeps_entries_of_players_whose_table_is_filled_anew(self, driver: MakeDriver) -> None:
        old = driver().boards(numbered([Score(9, 1), Score(8, 2)]))
        now = driver(players=(2,))
        row = now.seed_of(old, tables_are_new=True).first()
        assert row is not None
        assert [entry.player_id for entry in row.known] == [2]
        assert [entry.player_id for entry in row.pending] == [1]

    def test_a_seed_takes_pending_entries_that_are_known_by_now_as_known(self, driver: MakeDriver) -> None:
        old = driver(players=()).boards(numbered([Score(9, 1), Score(8, 2)]))
        now = driver(players=(2,))
        row = now.seed_of(old).first()
        assert row is not None
        assert [entry.player_id for entry in row.known] == [2]
        assert [entry.player_id for entry in row.pending] == [1]

    def test_a_product_whose_entries_are_all_deleted_keeps_a_row(self, driver: MakeDriver) -> None:
        old = driver().boards([Score(9, 1)])
        now = driver(players=())
        row = now.seed_of(old).first()
        assert row is not None
        assert (row.product_id, row.known, row.pending) == (1, None, None)

    def test_a_board_without_entries_is_published_as_one(self, driver: MakeDriver) -> None:
        nobody = driver(players=(), generation=3)
        seed = nobody.seed_of(driver().boards([Score(9, 1)]))
        assert driver(generation=3, seed=seed).boards([]) == {1: Board(3, (), (), topic=TOPIC_ID)}

    def test_only_the_highest_generation_counts_and_its_boards_merge(self, driver: MakeDriver) -> None:
        scores = numbered([Score(9, 1), Score(8, 2), Score(7, 3)])
        entries = tuple(score.entry for score in scores)
        frame = driver().published({1: Board(2, entries[:1], ())})
        frame = frame.union(driver().published({1: Board(2, entries[1:2], (), 3)}))
        frame = frame.union(driver().published({1: Board(1, entries[2:], (), 9)}))
        row = published_boards.merged(frame, BOARD_KEY).first()
        assert row is not None
        assert [entry.score for entry in row.known] == [9, 8]
        assert (row.made.generation, row.pending_lost) == (2, 3)

    def test_only_a_full_board_has_a_floor(self, driver: MakeDriver) -> None:
        make = driver(products=(1, 2))
        scores = numbered([*(Score(n, 1) for n in range(4)), *(Score(n, 1, 2) for n in range(3))])
        records = make.store.records([(s.value, s.partition, s.offset, s.at_ms) for s in scores])
        assert floors_of(make, records) == {1: 0.0}
        latest = make.merged(make.boards(scores))
        assert published_boards.of_generation(latest, generation=2, kept=4).isEmpty()

    def test_the_highest_floor_counts_that_a_board_of_the_generation_has_had(self, driver: MakeDriver) -> None:
        make = driver()
        entries = [score.entry for score in numbered(Score(10 - number, 1) for number in range(6))]
        new, low = Board(1, tuple(entries[:4]), ()), Board(1, tuple(entries[2:6]), ())
        others = [Board(1, tuple(entries[:4]), ())] * 3
        said = [made_headers(1), made_headers(1), made_headers(2), made_headers(1, version=2), []]
        boards = [new, low, *others]
        records: list[AnyResult] = [
            (b"1", board.to_json(), headers) for board, headers in zip(boards, said, strict=True)
        ]
        assert floors_of(make, records) == {1: entries[3].score}
        assert floors_of(make, records[1:]) == {1: entries[5].score}, "of others there is none"

    def test_what_is_no_board_has_no_floor(self, driver: MakeDriver) -> None:
        values = [None, b"", b"{", b"[]", b'{"known":7}', b'{"known":[1,2,3,4]}', b'{"known":[{},{},{},{"score":"x"}]}']
        full = Board(1, tuple(score.entry for score in numbered(Score(n, 1) for n in range(4))), ()).to_json()
        records: list[AnyResult] = [(b"1", value, made_headers(1)) for value in values]
        records += [(key, full, made_headers(1)) for key in (b"one", b"01", b" 1", b"")]
        assert floors_of(driver(), records) == {}

    def test_entries_that_an_older_record_still_has_do_not_count(self, driver: MakeDriver) -> None:
        entries = tuple(score.entry for score in numbered([Score(9, 1), Score(8, 1), Score(7, 2)]))
        older = driver().published({1: Board(1, entries[1:], ())})
        records = older.union(driver().published({1: Board(1, entries[:2], ())}))
        boards = published_boards.of_generation(published_boards.merged(records, BOARD_KEY), generation=1, kept=2)
        now = driver(players=(2,)).tables()
        survey = published_boards.survey(boards, BOARD_KEY, driver().tables(), now, depth=1, kept=2)
        assert survey.short_boards == 1

    def test_a_survey_counts_what_the_changed_tables_ask_for(self, driver: MakeDriver) -> None:
        boards = driver(depth=1).boards(numbered([Score(9, 1), Score(8, 1), Score(7, 4), Score(6, 4), Score(5, 4)]))
        latest = published_boards.of_generation(driver().merged(boards), 1, 2)
        before = driver().tables()

        def survey(*players: int) -> Survey:
            return published_boards.survey(latest, BOARD_KEY, before, driver(players=players).tables(), depth=1, kept=2)

        nothing = Survey(newly_known=0, short_boards=0, pending_lost=0, pending_shown=0, at_risk=0)
        assert survey(1, 2, 3) == nothing._replace(pending_lost=1)
        # Both that were kept rank above the one that was lost, and fill the board.
        assert survey(1, 2, 3, 4) == nothing._replace(newly_known=2, pending_shown=2, at_risk=2)
        assert survey(2, 3) == nothing._replace(short_boards=1, pending_lost=1)

    @pytest.mark.parametrize(("scores", "falls_short"), [(2, False), (3, True), (4, False)])
    def test_a_board_that_is_not_full_may_fall_short_by_more_known_entries_of_nobody_than_it_can_spare(
        self, driver: MakeDriver, scores: int, falls_short: bool
    ) -> None:
        boards = driver().boards(numbered(Score(score, 1) for score in range(scores)))
        latest = published_boards.of_generation(driver().merged(boards), 1, 4)
        before, now = driver().tables(), driver(players=(2, 3)).tables()
        survey = published_boards.survey(latest, BOARD_KEY, before, now, depth=2, kept=4)
        assert (survey.may_fall_short, survey.short_boards) == (falls_short, scores == 4)
        assert published_boards.survey(latest, BOARD_KEY, before, before, depth=2, kept=4).may_fall_short == 0

    def test_pending_scores_that_are_shown_are_at_risk_in_a_full_list_only(self, driver: MakeDriver) -> None:
        scores = numbered([Score(9, 4), Score(8, 5), Score(7, 5)])
        now = driver(players=(1, 2, 3, 4)).tables()
        found = []
        for count in (1, 2, 3):
            records = driver(depth=1).published(driver(depth=1).boards(scores[:count]))
            boards = published_boards.of_generation(published_boards.merged(records, BOARD_KEY), 1, 2)
            survey = published_boards.survey(boards, BOARD_KEY, now, now, depth=1, kept=2)
            found.append((survey.newly_known, survey.pending_shown, survey.at_risk))
        assert found == [(0, 1, 0), (0, 1, 1), (0, 1, 1)]

    def test_a_board_whose_product_was_deleted_is_not_short(self, driver: MakeDriver) -> None:
        boards = driver(depth=1).boards(numbered([Score(9, 1), Score(8, 1)]))
        latest = published_boards.of_generation(driver().merged(boards), 1, 2)
        before, nobody = driver().tables(), driver(players=()).tables()
        assert published_boards.survey(latest, BOARD_KEY, before, nobody, depth=1, kept=2).short_boards == 1
        for players in ((1, 2, 3), ()):
            now = driver(players=players, products=()).tables()
            assert published_boards.survey(latest, BOARD_KEY, before, now, depth=1, kept=2).short_boards == 0

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            (b"01", Board(2, (), ()).to_json()),
            (b" 1", Board(2, (), ()).to_json()),
            (b"1", b'{"generation": 2}'),
            (b"1", b'{"generation": 2, "known": [], "pending": []}'),
            (b"1", b'{"generation": 2, "known": [], "pending_lost": 0}'),
            (b"1", b'{"known": [], "pending": [], "pending_lost": 0}'),
            (b"1", b"no board"),
            (b"1", None),
        ],
    )
    def test_a_record_that_no_store_takes_replaces_no_board(
        self, driver: MakeDriver, key: bytes, value: bytes | None
    ) -> None:
        made = driver().published({1: Board(1, _entries(2), ())})
        frame = made.union(driver().published_values([(key, value)]))
        [row] = published_boards.merged(frame, BOARD_KEY).collect()
        assert (row.product_id, row.made.generation, len(row.known)) == (1, 1, 2)

    def test_of_many_records_of_a_product_each_entry_is_on_the_board_once(self, driver: MakeDriver) -> None:
        entries = _entries(40)
        values = [Board(1, entries[at : at + 4], entries[at : at + 2]).to_json() for at in range(37)]
        frame = driver().published_values([(b"1", value) for value in values])
        [row] = published_boards.merged(frame, BOARD_KEY).collect()
        assert [entry.score for entry in row.known] == [float(score) for score in range(39, -1, -1)]
        assert [entry.score for entry in row.pending] == [float(score) for score in range(37, -1, -1)]

    def test_what_was_lost_of_an_unknown_product_has_no_place_yet(self, driver: MakeDriver) -> None:
        boards = driver(products=()).boards(numbered(Score(score, 1) for score in range(9)))
        latest = published_boards.of_generation(driver().merged(boards), 1, 4)
        before = driver(products=()).tables()
        assert published_boards.survey(latest, BOARD_KEY, before, before, depth=2, kept=4).pending_lost == 0
        assert published_boards.survey(latest, BOARD_KEY, before, driver().tables(), depth=2, kept=4).pending_lost == 0
        nobody = driver(players=(9,)).tables()
        assert published_boards.survey(latest, BOARD_KEY, before, nobody, depth=2, kept=4).pending_lost == 5


class TestHidden:
    """What is hidden stands apart, so that it takes nobody's place, and comes back."""

    @pytest.mark.parametrize("hides", [HiddenPlayer(2), HiddenPlayer(2, 1)])
    def test_scores_of_a_hidden_player_take_no_place(self, driver: MakeDriver, hides: HiddenPlayer) -> None:
        scores = numbered([Score(9, 2), Score(8, 1), *(Score(7, 2) for _ in range(6)), Score(6, 3), Score(5, 2, 9)])
        hidden = Hidden(frozenset({hides, HiddenPlayer(77), HiddenPlayer(1, 9)}))
        boards = driver(products=(1, 9), hidden=hidden).boards(scores)
        assert [entry.score for entry in boards[1].known] == [8, 6]
        assert [entry.score for entry in boards[1].hidden] == [9, *(7 for _ in range(6))]
        on_9 = boards[9].hidden if hides.product_id is None else boards[9].known
        assert [entry.score for entry in on_9] == [5]

    def test_what_falls_out_of_a_hidden_list_is_counted(self, driver: MakeDriver) -> None:
        hidden = Hidden(frozenset({HiddenPlayer(1)}))
        board = driver(depth=1, hidden=hidden).boards(numbered(Score(score, 1) for score in range(23)))[1]
        assert ([entry.score for entry in board.hidden], board.hidden_lost) == ([*range(22, 2, -1)], 3)
        assert (board.known, board.pending, board.pending_lost) == ((), (), 0)

    def test_a_generation_begins_with_what_is_hidden_by_then_apart(self, driver: MakeDriver) -> None:
        scores = numbered([Score(9, 1), Score(8, 2), Score(7, 3), Score(6, 4), Score(5, 2)])
        before = driver(hidden=Hidden(frozenset({HiddenPlayer(3)}))).boards(scores)
        assert [entry.score for entry in before[1].hidden] == [7]
        hidden = Hidden(frozenset({HiddenPlayer(2, 1)}), frozenset({ScoreName(TOPIC_ID, 0, 0), ScoreName("old", 0, 2)}))
        seed = driver(hidden=hidden).seed_of(before)
        board = driver(seed=seed, generation=2, hidden=hidden).boards(scores)[1]
        assert [entry.score for entry in board.known] == [7]
        assert [entry.score for entry in board.hidden] == [9, 8, 5]
        assert [entry.score for entry in board.pending] == [6]

    def test_scores_of_a_topic_that_is_no_more_are_hidden_by_its_id_alone(self, driver: MakeDriver) -> None:
        entries = tuple(score.entry for score in numbered([Score(9, 1), Score(8, 2)]))
        older = {1: Board(1, entries, (), topic="older")}

        def seeded(topic: str) -> Board:
            hidden = Hidden(scores=frozenset({ScoreName(topic, 0, 0)}))
            return driver(seed=driver(hidden=hidden).seed_of(older), generation=2).boards([])[1]

        known = tuple(entry._replace(topic="older") for entry in entries)
        assert seeded("older") == Board(2, known[1:], (), hidden=known[:1], topic=TOPIC_ID)
        assert seeded(TOPIC_ID) == Board(2, known, (), topic=TOPIC_ID)

    def test_boards_of_before_entries_had_a_topic_are_taken_for_those_of_now(self, driver: MakeDriver) -> None:
        scores = numbered([Score(9, 1), Score(8, 2), Score(7, 9)])
        before = {1: driver().boards(scores)[1]._replace(topic=None)}
        board = driver(seed=driver().seed_of(before), generation=2).boards(scores)[1]
        assert board == before[1]._replace(generation=2, topic=TOPIC_ID)

    def test_a_survey_tells_what_hiding_and_lifting_ask_for(self, driver: MakeDriver) -> None:
        all_hidden = Hidden(frozenset({HiddenPlayer(1)}))
        scores = numbered([Score(9, 2), Score(8, 2), *(Score(score, 1) for score in range(23))])
        boards = driver(depth=1, hidden=all_hidden).boards(scores)
        latest, tables = published_boards.of_generation(driver().merged(boards), 1, 2), driver().tables()

        def survey(*players: int) -> Survey:
            hiding = driver(hidden=Hidden(frozenset(map(HiddenPlayer, players)))).hiding
            return published_boards.survey(latest, BOARD_KEY, tables, tables, hiding, depth=1, kept=2)

        nothing = Survey(newly_known=0, short_boards=0, pending_lost=0, pending_shown=0, at_risk=0, hidden_lost=3)
        assert survey(1) == nothing
        assert survey(1, 2) == nothing._replace(short_boards=1)
        assert survey() == nothing._replace(hidden_lost=0, hidden_shown=20, at_risk=20)


def test_merging_boards_in_python_gives_what_spark_gives_for_all_events(driver: MakeDriver) -> None:
    seeded = random.Random(11)
    scores = numbered(Score(seeded.randrange(40), seeded.randrange(1, 6)) for _ in range(80))
    halves = [driver().boards(half)[1] for half in (scores[::2], scores[1::2])]
    whole = driver().boards(scores)[1]
    merged = Places(4).merge(halves[0], halves[1])
    assert (merged.known, merged.pending) == (whole.known, whole.pending)


def test_no_record_passes_through_python(driver: MakeDriver, capsys: pytest.CaptureFixture[str]) -> None:
    driver().query([]).explain(extended=True)
    plan = capsys.readouterr().out
    assert "max_by" in plan, "the plan of the topology"
    assert "python" not in plan.lower()


def test_a_board_says_of_what_it_is_made(driver: MakeDriver) -> None:
    scores = [Score(1, 1, at_ms=5), Score(2, 9, at_ms=7, offset=1), Score(3, 2, at_ms=6, offset=2)]
    store = driver(generation=4).store
    [(_, _, headers)] = store.records([(s.value, 0, s.offset, s.at_ms) for s in scores])
    assert dict(headers) == {
        "generation": b"4",
        "version": b"1",
        "events": b"3",
        "newest_ms": b"%d" % (EPOCH_MS + 7),
        # No lattice needs any.
        "offsets": b"{}",
    }


def test_timestamps_travel_in_milliseconds(driver: MakeDriver) -> None:
    assert driver().boards([Score(1, 1, at_ms=123)])[1].known[0].timestamp_ms == EPOCH_MS + 123


def test_the_description_names_every_topic_and_store() -> None:
    found = text(DESCRIPTION)
    for name in ("score-events", "players", "products", "high-scores", STORE):
        assert name in found


def _entries(count: int) -> tuple[Entry, ...]:
    return tuple(score.entry for score in numbered(Score(score, 1) for score in range(count)))


def known(boards: dict[int, Board]) -> dict[int, tuple[Entry, ...]]:
    return {product: board.known for product, board in boards.items()}


def made_headers(generation: int, version: int = 1) -> list[tuple[str, bytes | None]]:
    return [*Made(generation, version).to_headers()]


def floors_of(make: TopologyDriver, records: Sequence[AnyResult]) -> dict[int, float]:
    """Return the floors of full boards of four, of the records of the first generation."""
    of_it = texts_of_generation(make.store.store, published_frame(make.session, records), generation=1)
    return {row.product_id: row.floor for row in published_boards.floors(of_it, BOARD_KEY, kept=4).collect()}

"""The best scores of a player merge as sets: the same in Spark and in Python, whatever comes in whatever order."""

from __future__ import annotations

import json
import random
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import InvalidRecord
from runtime.kafka.partitioner import partition_by_part
from runtime.keys import KeyPair
from runtime.spark.session import Spark
from runtime.testing import check_value
from runtime.testing.frames import EPOCH_MS, TOPIC_ID, StoreOnFrames
from runtime.values import Fields
from tests.drivers.topology import Score, numbered
from topology.leaderboard.bests import KEPT, Best, Bests, HiddenScores
from topology.leaderboard.board import leaderboard
from topology.leaderboard.ranks import PERSONAL_BEST, STORE, best_of, best_of_place, place

SEED = 20261127

bests = st.builds(
    Best,
    score=st.sampled_from([-1.5, 0.0, 2.0, 1e300]),
    timestamp_ms=st.integers(-1, 2),
    partition=st.integers(0, 1),
    offset=st.integers(0, 3),
    topic=st.sampled_from(["one", "other"]),
)
lists = st.lists(bests, max_size=6).map(lambda chosen: Bests().merge(tuple(chosen), ()))


def on_frames(spark: Spark) -> StoreOnFrames:
    return StoreOnFrames(spark.session, leaderboard(10, ranks=True), name=STORE)


@given(st.lists(lists, min_size=1, max_size=5), st.data())
def test_the_best_of_lists_are_the_best_of_all_their_scores(all_: list[tuple[Best, ...]], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations([*all_, *data.draw(st.lists(st.sampled_from(all_), max_size=3))]))
    every = {best for each in all_ for best in each}
    # Of two that differ by their topics alone the one of the higher id counts as better.
    by_topic = sorted(every, key=lambda best: best.topic, reverse=True)
    right = sorted(by_topic, key=lambda best: (-best.score, *best[1:4]))[:KEPT]
    nothing: tuple[Best, ...] = ()
    assert reduce(Bests().merge, shuffled, nothing) == tuple(right)


@given(lists, st.none() | lists)
def test_bests_survive_their_json_and_are_served_as_it_is(
    best: tuple[Best, ...], hidden: tuple[Best, ...] | None
) -> None:
    record, values = PERSONAL_BEST.record, {"best": best, "hidden": hidden}
    value = record.to_json(values)
    assert record.parse(value) == values
    assert record.row(value) == record.row_of(values) == json.loads(value)


@given(lists, lists)
def test_the_best_score_is_read_back_from_its_place(best: tuple[Best, ...], lifted: tuple[Best, ...]) -> None:
    row = PERSONAL_BEST.record.row_of({"best": best, "hidden": lifted or None})
    at, found = place(row), best_of(row)
    if at is None or found is None:
        assert (at, found) == (None, None)
        assert not best + lifted
    else:
        assert best_of_place(at, found["topic"]) == {"best": [found]}
        right = min((*best, *lifted), key=lambda each: (-each.score, *each[1:4]))
        assert [found[name] for name in ("score", "timestamp", "partition", "offset")] == [*right[:4]]


@given(st.lists(bests, min_size=2, max_size=20))
def test_places_are_in_the_order_of_the_scores_and_of_their_records(all_: list[Best]) -> None:
    def place_of(best: Best) -> bytes:
        found = place(PERSONAL_BEST.record.row_of({"best": (best,), "hidden": None}))
        assert found is not None
        return found

    assert [each[:4] for each in sorted(all_, key=place_of)] == [
        each[:4] for each in sorted(all_, key=lambda best: (-best.score, *best[1:4]))
    ]


def test_no_score_holds_no_place() -> None:
    assert place({"best": []}) is None


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{}",
        b'{"best": null}',
        b'{"best": [{}]}',
        b'{"best": [{"score": 1, "timestamp": 1, "partition": 0, "offset": 0}]}',
    ],
)
def test_bytes_that_are_no_bests_are_refused(value: bytes) -> None:
    with pytest.raises(InvalidRecord):
        PERSONAL_BEST.record.parse(value)


# As Spark writes a score, and as it does not.
SPELLED = [b"1.0", b"-0.0", b"0.5", b"1.0E10", b"1.797693134862315E99", b"1E5", b"1.0E400", b"01.0", b"1", b"NaN", b""]


@given(
    st.lists(st.sampled_from(SPELLED), max_size=4),
    st.sampled_from([b"0", b"-1", b"01", b"1795804796566", b"9223372036854775808", b"1.0", b"null"]),
    st.sampled_from([b"6607df71-a4a9", b"", b"a\\u0041", b'a"b', b"\xff", b"\xc3\xa4", b" "]),
    st.sampled_from([b"", b" ", b"]", b","]),
)
def test_what_is_plain_is_taken(scores: list[bytes], number: bytes, topic: bytes, behind: bytes) -> None:
    best = b'{"score":%b,"timestamp":%b,"partition":0,"offset":%b,"topic":"%b"}'
    listed = b",".join(best % (score, number, number, topic) for score in scores)
    for value in (b'{"best":[%b]%b}', b'{"best":[],"hidden":[%b]%b}'):
        if PERSONAL_BEST.record.is_plain(value % (listed, behind)):
            parsed = PERSONAL_BEST.record.parse(value % (listed, behind))
            assert [each.score for each in (*parsed["best"], *(parsed["hidden"] or ()))] == [*map(float, scores)]


def test_without_hidden_scores_a_record_is_as_it_was_before_there_were_any() -> None:
    best = Best(5.0, 1, 0, 7, "T")
    value = PERSONAL_BEST.record.to_json({"best": (best,), "hidden": None})
    assert value == b'{"best":[{"score":5.0,"timestamp":1,"partition":0,"offset":7,"topic":"T"}]}'
    assert PERSONAL_BEST.record.kept_form == Fields({"best": Bests()}).published_schema
    assert best_of(PERSONAL_BEST.record.row(value)) == Bests().to_json([best])[0]


# Spark


def test_what_spark_writes_is_plain(spark: Spark) -> None:
    scores = numbered(Score(score, player) for player in range(3) for score in (5.0, -1.5, 1e10, 1e-9, 0.1 + 0.2, -0.0))
    records = on_frames(spark).records([(s.value, s.partition, s.offset, s.at_ms) for s in scores])
    assert len(records) == 3
    for _, value, _ in records:
        assert value is not None
        assert b"hidden" not in value
        assert PERSONAL_BEST.record.is_plain(value), value


@pytest.mark.parametrize("scores", [[1.0, 9.0, 9.0, 3.0, -0.0, 0.0, None, 7.5], [2.0, 1.0], [None, None]])
def test_the_law_holds(spark: Spark, scores: list[float | None]) -> None:
    rows = [{"at": (1000 - number // 2, number % 2, number), "score": score} for number, score in enumerate(scores)]
    found = check_value(spark.session, Bests(), rows)
    expected = [
        Best(score + 0.0, 1000 - number // 2, number % 2, number, "rows")
        for number, score in enumerate(scores)
        if score is not None
    ]
    assert found == Bests().to_json(Bests().merge(tuple(expected), ()))


def test_the_law_holds_of_hidden_ones(spark: Spark) -> None:
    scores = [1.0, None, 9.0, 3.0, None, *map(float, range(30))]
    rows = [{"at": (1000, number % 2, number), "hidden_score": score} for number, score in enumerate(scores)]
    found = check_value(spark.session, HiddenScores(), rows)
    assert [each["score"] for each in found] == sorted((each for each in scores if each is not None), reverse=True)
    assert check_value(spark.session, HiddenScores(), [{"hidden_score": None}] * 2) is None


def test_a_row_a_player_and_product_has_their_best_scores_whoever_exists(spark: Spark) -> None:
    seeded = random.Random(SEED)
    scores = numbered(
        Score(float(seeded.randrange(9)), seeded.randrange(1, 5), seeded.randrange(-1, 3)) for _ in range(200)
    )
    found = on_frames(spark).results([(s.value, s.partition, s.offset, s.at_ms) for s in scores])
    every: dict[KeyPair, list[Best]] = {}
    for score in scores:
        best = Best(score.score, EPOCH_MS + score.at_ms, score.partition, score.offset, TOPIC_ID)
        every.setdefault(KeyPair(score.product_id, score.player_id), []).append(best)
    assert {key: each.values["best"] for key, each in found.items()} == {
        key: Bests().merge(tuple(all_), ()) for key, all_ in every.items()
    }


def test_a_record_lies_where_its_product_says(spark: Spark) -> None:
    scores = numbered(Score(1.0, player, product) for player in range(3) for product in (-7, 0, 1, 2, 6, 2**63 - 1))
    driver = on_frames(spark)
    rows = driver.query([(s.value, s.partition, s.offset, s.at_ms) for s in scores]).collect()
    assert len(rows) == len(scores)
    for row in rows:
        product = int(row.key.partition("/")[0])
        assert row.partition == partition_by_part(product, PERSONAL_BEST.partitions)
        assert row.partition == PERSONAL_BEST.partition_for(KeyPair(product, 0), PERSONAL_BEST.partitions)


def test_a_generation_begins_with_the_bests_so_far_and_reads_none_twice(spark: Spark) -> None:
    scores = numbered(Score(float(at % 7), 1 + at % 3) for at in range(40))
    records: Any = [(s.value, s.partition, s.offset, s.at_ms) for s in scores]
    driver = on_frames(spark)
    whole = {key: each.values for key, each in driver.results(records).items()}
    published = driver.records(records[:25])
    foreign: list[Any] = [(key, b"{}", headers) for key, _, headers in published]
    misspelled: list[Any] = [(b"01/1", value, headers) for _, value, headers in published]
    driver.seed = driver.seed_of([*misspelled, *foreign, *driver.records(records[:10]), *published])
    driver.generation = 2
    assert {key: each.values for key, each in driver.results(records).items()} == whole
    # What retention has taken is in the seed alone.
    assert {key: each.values for key, each in driver.results(records[25:]).items()} == whole


def test_scores_of_a_topic_that_was_there_before_keep_its_name(spark: Spark) -> None:
    scores = numbered([Score(5.0, 1), Score(6.0, 1)])
    records: Any = [(s.value, s.partition, s.offset, s.at_ms) for s in scores]
    driver = on_frames(spark)
    driver.seed = driver.seed_of(driver.records(records))
    driver.topic_id, driver.generation = "another-id", 2
    found = driver.results(records)[KeyPair(1, 1)].values["best"]
    assert [(best.score, best.topic) for best in found] == [(6.0, TOPIC_ID), (6.0, "another-id"), (5.0, TOPIC_ID)]

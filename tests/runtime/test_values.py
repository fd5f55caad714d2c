"""Values on frames: what Spark makes of rows is what Python reads, and both begin again with what was published."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime import Count, Int64, Key, PlainText, Store, Stream, Text, Topology, results
from runtime.errors import InvalidRecord
from runtime.results import Made, Result
from runtime.spark.results import latest
from runtime.spark.session import Spark
from runtime.testing.frames import EPOCH_MS, TOPIC_ID, AnyResult, Record, StoreOnFrames
from runtime.values import Fields
from tests.drivers.longest import Longest
from topology.word_count import WORD_COUNT


def by_first_letter(lines: DataFrame) -> DataFrame:
    """Return each line by its first letter: `at, letter string, text string`."""
    return lines.select("at", F.substring("text", 1, 1).alias("letter"), "text")


def by_number(lines: DataFrame) -> DataFrame:
    """Return each line by the number that it is: `at, number bigint, text string`."""
    return lines.select("at", F.col("text").try_cast("bigint").alias("number"), "text")


LONGEST = Topology(
    "longest",
    Stream("lines", PlainText()),
    stores=[Store("longest", "longest", Key("letter", Text), {"longest": Longest()}, rows=by_first_letter)],
)
NUMBERS = Topology(
    "numbers",
    Stream("lines", PlainText()),
    stores=[
        Store(
            "numbers",
            "numbers",
            Key("number", Int64),
            {"longest": Longest(), "times": Count()},
            rows=by_number,
            version=3,
        )
    ],
)

LINES = st.lists(st.lists(st.sampled_from(["a", "b", "Ä", "a/b"]), max_size=4).map(" ".join), max_size=8)
Frames = Callable[..., StoreOnFrames]


@pytest.fixture(scope="module")
def on_frames(spark: Spark) -> Frames:
    def make(topology: Topology = WORD_COUNT, **attributes: Any) -> StoreOnFrames:
        return StoreOnFrames(spark.session, topology, **attributes)

    return make


def records_of(lines: list[str], first: int = 0, partition: int = 0) -> list[tuple[bytes, int, int, int]]:
    """Return lines as records of a partition, from an offset on, a millisecond apart."""
    return [(line.encode(), partition, first + at, first + at) for at, line in enumerate(lines)]


@settings(max_examples=5)
@given(LINES)
def test_words_are_counted_as_python_counts_them(on_frames: Frames, lines: list[str]) -> None:
    found = on_frames().results(records_of(lines))
    assert {word: each.values["count"] for word, each in found.items()} == dict(
        Counter(" ".join(lines).lower().split())
    )


@settings(max_examples=5)
@given(LINES, st.integers(0, 8), st.integers(0, 8))
def test_what_was_published_and_the_events_read_again_come_to_the_count_of_all_events(
    on_frames: Frames, lines: list[str], until: int, again_from: int
) -> None:
    until = min(until, len(lines))
    records = records_of(lines)
    before = on_frames().records(records[:until])
    # Whatever retention has taken of what the seed counts.
    read_again = records[min(again_from, until) :]
    driver = on_frames(generation=2)
    driver.seed = driver.seed_of(before)
    whole = on_frames(generation=2).results(records)
    assert driver.results(read_again) == whole


@settings(max_examples=5)
@given(LINES, LINES)
def test_a_record_of_some_events_is_replaced_by_one_of_more_and_not_the_other_way_round(
    on_frames: Frames, some: list[str], others: list[str]
) -> None:
    store = on_frames().store
    fewer = on_frames().results(records_of(some))
    more = on_frames().results(records_of([*some, *others]))
    for word, result in more.items():
        assert results.merge(store.record, fewer.get(word), result) == result
        if word in fewer:
            assert results.merge(store.record, result, fewer[word]).values == result.values


@settings(max_examples=5)
@given(LINES, LINES)
def test_a_lattice_merges_in_python_to_what_spark_makes_of_all_events(
    on_frames: Frames, some: list[str], others: list[str]
) -> None:
    fields = on_frames(LONGEST).store.record
    halves = [on_frames(LONGEST).results(records_of(lines)) for lines in (some, others)]
    together = dict(halves[0])
    for letter, result in halves[1].items():
        together[letter] = results.merge(fields, together.get(letter), result)
    whole = on_frames(LONGEST).results(records_of([*some, *others]))
    assert {key: each.values for key, each in together.items()} == {key: each.values for key, each in whole.items()}


@settings(max_examples=5)
@given(LINES, LINES)
def test_a_lattice_begins_again_with_what_was_published_and_takes_every_event(
    on_frames: Frames, some: list[str], others: list[str]
) -> None:
    driver = on_frames(LONGEST, generation=2)
    driver.seed = driver.seed_of(on_frames(LONGEST).records(records_of(some)))
    # Read again or not, what the seed has changes nothing.
    for lines in ([*some, *others], others):
        whole = on_frames(LONGEST).results(records_of([*some, *others]))
        found = driver.results(records_of(lines))
        assert {key: each.values for key, each in found.items()} == {key: each.values for key, each in whole.items()}


def test_a_record_says_of_what_it_is_made(on_frames: Frames) -> None:
    records = [(b"a b", 0, 5, 10), (b"a", 1, 7, 30), (b"a a", 0, 6, 20)]
    found = on_frames(generation=4).results(records)
    assert found == {
        "a": Result(
            Made(4, version=1, events=3, newest_ms=EPOCH_MS + 30, offsets={TOPIC_ID: {"0": 6, "1": 7}}), {"count": 4}
        ),
        "b": Result(Made(4, version=1, events=1, newest_ms=EPOCH_MS + 10, offsets={TOPIC_ID: {"0": 5}}), {"count": 1}),
    }


def test_rows_without_a_key_are_in_no_result(on_frames: Frames) -> None:
    found = on_frames(NUMBERS).results(records_of(["7", "no number", "", "-7", "7"]))
    assert {key: each.values for key, each in found.items()} == {
        7: {"longest": 1, "times": 2},
        -7: {"longest": 2, "times": 1},
    }
    assert {each.made.version for each in found.values()} == {3}
    assert set(on_frames(LONGEST).results(records_of(["", "a"]))) == {"a"}


def test_a_lattice_needs_no_offsets(on_frames: Frames) -> None:
    [(key, value, headers)] = on_frames(LONGEST, generation=4).records([(b"abc", 0, 5, 10)])
    assert (key, json.loads(value or b"")) == (b"a", {"longest": 3})
    assert dict(headers) == {
        "generation": b"4", "version": b"1", "events": b"1", "newest_ms": str(EPOCH_MS + 10).encode(), "offsets": b"{}",
    }  # fmt: skip


def test_values_are_written_as_python_writes_them(on_frames: Frames) -> None:
    fields = on_frames().store.record
    for key, value, headers in on_frames().records(records_of(['a "b" Ä', "Ä ☃ 𝄞"])):
        assert fields.to_json(fields.parse(value or b"")) == value
        result = results.parse(fields, value or b"", [(name, text or b"") for name, text in headers])
        assert [(name, text) for name, text in headers] == result.made.to_headers(), key


def test_the_events_of_a_topic_that_was_created_anew_are_all_new(on_frames: Frames) -> None:
    before = on_frames(topic_id="old").records(records_of(["a a", "b"]))
    anew = on_frames(topic_id="new", generation=2)
    anew.seed = anew.seed_of(before)
    found = anew.results(records_of(["a"]))
    assert found["a"].values == {"count": 3}
    assert found["a"].made.offsets == {"new": {"0": 0}, "old": {"0": 0}}
    assert found["b"].made.offsets == {"new": {}, "old": {"0": 1}}
    assert all(found[word].made.covers(result.made) for word, result in on_frames(topic_id="old").results([]).items())
    # And so it goes on: what is old by now stays, beside what was older.
    once_more = on_frames(topic_id="newest", generation=3)
    once_more.seed = once_more.seed_of(anew.records(records_of(["a"])))
    assert once_more.results(records_of(["a"]))["a"] == Result(
        Made(3, events=3, newest_ms=EPOCH_MS, offsets={"newest": {"0": 0}, "new": {"0": 0}, "old": {"0": 0}}),
        {"count": 4},
    )


@pytest.mark.parametrize(("topic_id", "has_older"), [("old", False), ("new", True)])
def test_the_state_has_a_place_for_older_topics_where_there_are_any(
    on_frames: Frames, topic_id: str, has_older: bool
) -> None:
    before = on_frames(topic_id="old").records(records_of(["a a", "b"]))
    anew = on_frames(topic_id=topic_id, generation=2)
    anew.seed = anew.seed_of(before)
    assert ("made_older" in anew.seed.columns) == anew.has_older == has_older


def test_counts_are_added_up_without_sorting(on_frames: Frames, capsys: pytest.CaptureFixture[str]) -> None:
    on_frames().query(records_of(["a a", "b"])).explain()
    plan = capsys.readouterr().out
    assert "HashAggregate" in plan
    assert "Sort" not in plan


def test_a_weight_that_is_null_counts_nothing(on_frames: Frames) -> None:
    def weighed(lines: DataFrame) -> DataFrame:
        weight = F.regexp_extract("text", "[0-9]+", 0).try_cast("bigint")
        return lines.select("at", F.substring("text", 1, 1).alias("letter"), weight.alias("weight"))

    store = Store("weights", "weights", Key("letter", Text), {"weight": Count("weight")}, rows=weighed)
    found = on_frames(Topology("weighed", Stream("lines", PlainText()), [store])).results(
        records_of(["a", "b 2", "b", "b 5"])
    )
    assert {key: result.values for key, result in found.items()} == {"a": {"weight": 0}, "b": {"weight": 7}}


def test_a_source_that_got_partitions_goes_on_from_what_was_counted(on_frames: Frames) -> None:
    before = on_frames(partitions=2).records([(b"a", 0, 5, 0), (b"a", 1, 6, 0)])
    grown = on_frames(partitions=4, generation=2)
    grown.seed = grown.seed_of(before)
    found = grown.results([(b"a", 0, 5, 0), (b"a", 1, 7, 0), (b"a", 3, 0, 0)])
    assert found["a"].values == {"count": 4}
    assert found["a"].made.offsets == {TOPIC_ID: {"0": 5, "1": 7, "3": 0}}


def of_topic(topic: str, lines: list[str], first: int = 0) -> list[Record]:
    """Return lines as records of the first partition of a topic, from an offset on."""
    return [Record(line.encode(), 0, first + at, first + at, topic=topic) for at, line in enumerate(lines)]


def test_several_sources_are_counted_together_and_told_apart(on_frames: Frames) -> None:
    lines, (store,) = WORD_COUNT.events, WORD_COUNT.stores
    both = replace(WORD_COUNT, source=[lines, replace(lines, topic="more-lines")], stores=[store])
    found = on_frames(both).results([*of_topic("lines", ["a a", "b"]), *of_topic("more-lines", ["a", "c"])])
    assert {word: each.values["count"] for word, each in found.items()} == {"a": 3, "b": 1, "c": 1}
    ids = {topic: f"{topic}-{TOPIC_ID}" for topic in both.source_topics}
    assert found["a"].made.offsets == {ids["lines"]: {"0": 0}, ids["more-lines"]: {"0": 0}}
    assert found["c"].made.offsets == {ids["lines"]: {}, ids["more-lines"]: {"0": 1}}
    # What the seed counts of one topic says nothing of the other.
    again = on_frames(both, generation=2)
    again.seed = again.seed_of(on_frames(both).records(of_topic("lines", ["a a", "b"])))
    found = again.results([*of_topic("lines", ["a a", "b", "b"]), *of_topic("more-lines", ["a", "c"])])
    assert {word: each.values["count"] for word, each in found.items()} == {"a": 3, "b": 2, "c": 1}


def test_a_result_of_before_there_were_headers_says_nothing_of_its_events(on_frames: Frames) -> None:
    driver = on_frames(LONGEST, generation=2)
    driver.seed = driver.seed_of([(b"a", b'{"longest":9}', [("generation", b"1")])])
    [(_, value, headers)] = driver.records([])
    assert (value, headers) == (b'{"longest":9}', [("generation", b"2"), ("version", b"1"), ("offsets", b"{}")])
    assert driver.results([])["a"].made == Made(2)


def made(of: Made) -> list[tuple[str, bytes | None]]:
    """Return the headers that say so."""
    return [(name, value) for name, value in of.to_headers()]


def counts(*said: tuple[str, int, dict[str, int], int]) -> list[AnyResult]:
    """Return result records: word, count, offsets of the source, generation."""
    return [
        (word.encode(), b'{"count":%d}' % count, made(Made(of, offsets={TOPIC_ID: offsets})))
        for word, count, offsets, of in said
    ]


@pytest.mark.parametrize(
    ("published", "kept"),
    [
        (counts(("a", 3, {"0": 5}, 1), ("a", 4, {"0": 6}, 1)), 4),
        (counts(("a", 4, {"0": 6}, 1), ("a", 3, {"0": 5}, 1)), 4),
        (counts(("a", 3, {"0": 5}, 2), ("a", 4, {"0": 6}, 1)), 4),
        (counts(("a", 3, {"0": 5, "1": 9}, 1), ("a", 2, {"0": 5}, 1)), 3),
    ],
)
def test_of_several_published_counts_a_generation_begins_with_the_one_that_counts_most(
    on_frames: Frames, published: list[AnyResult], kept: int
) -> None:
    driver = on_frames(generation=3)
    driver.seed = driver.seed_of(published)
    assert driver.results([])["a"].values == {"count": kept}


@settings(max_examples=5)
@given(st.data())
def test_a_generation_begins_with_what_a_store_keeps(on_frames: Frames, data: st.DataObject) -> None:
    offsets = st.dictionaries(st.sampled_from(["0", "1"]), st.integers(0, 5), min_size=1)
    all_ = data.draw(st.lists(offsets, min_size=1, max_size=6))
    # As if each record were one of its partition: what covers another counts no less.
    published = counts(*(("a", sum(each.values()) + len(each), each, 1) for each in all_))
    fields = on_frames().store.record
    driver = on_frames()
    [row] = latest(driver.store, driver.published(published)).collect()
    held: Result | None = None
    for _, value, headers in published:
        held = results.merge(fields, held, results.parse(fields, value or b"", headers))  # type: ignore[arg-type]
    assert held is not None
    begun = Made(1, offsets={TOPIC_ID: row.made.offsets[TOPIC_ID]})
    # Of two that do not cover each other either will do.
    assert begun.covers(held.made) or not held.made.covers(begun)


VALUE = b'{"count":1}'
MADE = Made(3, 1, 5, 7, {"a": {"0": 5}})


def with_header(name: str, value: bytes | None) -> list[tuple[str, bytes | None]]:
    return [*(header for header in MADE.to_headers() if header[0] != name), (name, value)]


ODD: list[AnyResult] = [
    (b"a", VALUE, made(MADE)),
    (b"a", VALUE, [("generation", b"1")]),
    (b"a", VALUE, [("trace", b"\xff"), ("generation", b"1"), ("also", None)]),
    (b"a", VALUE, []),
    (b"a", VALUE, [("version", b"1")]),
    *(
        (b"a", VALUE, with_header(name, value))
        for name in ("generation", "version", "events", "newest_ms")
        for value in (None, b"", b"x", b"1.5", b"true", b"+1", b"01", b"9223372036854775808", b"-1")
    ),
    *(
        (b"a", VALUE, with_header("offsets", value))
        for value in (None, b"", b"[]", b"5", b"{}", b'{"a":{}}', b'{"a":5}')
    ),
    *(
        (b"a", value, made(MADE))
        for value in (
            None, b"", b"{", b"[]", b"7", b"null", b"{}", b'{"times":1}', b'{"count":null}', b'{"count":"1"}',
            b'{"count":1.0}', b'{"count":true}', b'{"count":[1]}', b'{"count":9223372036854775808}',
            b'{"count":1,"more":[{}]}', b'{"count":-5}',
        )
    ),
]  # fmt: skip


def test_spark_begins_with_no_record_that_stores_leave_out(on_frames: Frames) -> None:
    driver = on_frames()
    # Each under a key of its own, so that one query tells of all.
    records = [(b"%d" % number, value, headers) for number, (_, value, headers) in enumerate(ODD)]
    found = Counter(row.word for row in driver.published(records).collect())
    for key, value, headers in records:
        of_version = True
        try:
            if value is None:
                raise InvalidRecord("a delete")
            result = results.parse(driver.store.record, value, headers)  # type: ignore[arg-type]
            of_version = result.made.version == driver.store.version
            taken = 1
        except InvalidRecord:
            taken = 0
        of_key = found[key.decode()]
        assert of_key == taken if of_version else of_key <= taken, (value, headers)


def test_keys_of_another_type_begin_nothing(on_frames: Frames) -> None:
    driver = on_frames(NUMBERS)
    value = b'{"longest":1,"times":1}'
    keys = [b"7", b"07", b" 7", b"x", b"", b"9223372036854775808", b"-7"]
    headers = made(Made(MADE.generation, driver.store.version))
    published = driver.published([(key, value, headers) for key in keys])
    assert sorted(row.number for row in published.collect()) == [-7, 7]


def test_several_values_are_a_lattice_when_each_is() -> None:
    assert Fields({"a": Longest(), "b": Longest()}).lattice
    assert not Fields({"a": Longest(), "b": Count()}).lattice


def test_an_accumulator_refuses_to_merge() -> None:
    with pytest.raises(NotImplementedError, match="Count is no lattice"):
        Count().merge(1, 2)


def test_no_record_passes_through_python(on_frames: Frames, capsys: pytest.CaptureFixture[str]) -> None:
    driver = on_frames(generation=2)
    driver.seed = driver.seed_of(counts(("a", 3, {"0": 5}, 1)))
    driver.query([]).explain(extended=True)
    plan = capsys.readouterr().out
    assert "to_json" in plan, "the plan of the query"
    assert "python" not in plan.lower()

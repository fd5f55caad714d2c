"""Keys: their text, and bytes in the order of the keys."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime import (
    Count,
    Int64,
    Json,
    Key,
    Min,
    PlainText,
    Ranking,
    Store,
    Stream,
    Table,
    Text,
    Timestamp,
    Topology,
    Tumbling,
)
from runtime.errors import DeclarationError, InvalidRecord
from runtime.keys import KeyPair, KeyType, KeyValue, past_prefix
from tests.drivers import laps

LOWEST = {Int64: -(2**63), Text: ""}
HIGHEST_BYTES = {Int64: Int64.encode(2**63 - 1), Text: b"\xff"}
"""No UTF-8 begins with this byte."""

integers = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(codec="utf-8"), min_size=1)
keys = st.tuples(st.just(Int64), integers, integers) | st.tuples(st.just(Text), texts, texts)


@given(keys)
def test_a_key_survives_its_text_and_its_bytes(case: tuple[KeyType, KeyValue, KeyValue]) -> None:
    of_type, key, _ = case
    assert of_type.parse(of_type.text(key)) == key
    assert of_type.decode(of_type.encode(key)) == key


@given(keys)
def test_the_order_of_the_bytes_is_that_of_the_keys(case: tuple[KeyType, KeyValue, KeyValue]) -> None:
    of_type, one, other = case
    assert (one < other) == (of_type.encode(one) < of_type.encode(other))
    assert of_type.encode(LOWEST[of_type]) <= of_type.encode(one) <= HIGHEST_BYTES[of_type]


@pytest.mark.parametrize(("of_type", "text"), [(Int64, "01"), (Int64, "x"), (Int64, str(2**63)), (Text, "")])
def test_a_text_that_is_no_key_is_refused(of_type: KeyType, text: str) -> None:
    with pytest.raises(InvalidRecord):
        of_type.parse(text)


edges = st.sampled_from(["a", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010fffe", "\U0010ffff"])
edge_texts = st.lists(edges, max_size=3).map("".join)


@given(edge_texts | texts, edge_texts | texts)
def test_a_prefix_ends_where_the_texts_that_begin_with_it_do(prefix: str, text: str) -> None:
    end = past_prefix(prefix)
    for each in (text, prefix + text):
        assert each.startswith(prefix) == (each >= prefix and (end is None or each.encode() < end.encode()))


# Keys of two parts

PAIRS = {
    "numbers": Key("city", Int64) / Key("year", Int64),
    "a text first": Key("city", Text) / Key("year", Int64),
    "a text last": Key("city", Int64) / Key("year", Text),
}
odd_texts = st.lists(st.sampled_from(["\0", "\1", "/", "a", "\uffff", "\U0010ffff", "0", "-"]), min_size=1, max_size=4)


def pairs_of(key: Key) -> st.SearchStrategy[list[KeyPair]]:
    parts = [integers if part.type is Int64 else odd_texts.map("".join) | texts for part in key.parts]
    return st.lists(st.builds(KeyPair, *parts), max_size=8)


@given(st.sampled_from(list(PAIRS.values())).flatmap(lambda key: st.tuples(st.just(key), pairs_of(key))))
def test_a_key_of_two_parts_survives_its_text_and_its_bytes_which_are_in_order(case: tuple[Key, list[KeyPair]]) -> None:
    key, pairs = case
    of = key.type
    for pair in pairs:
        assert of.parse(of.text(pair)) == of.decode(of.encode(pair)) == key.unturned(key.turned(pair)) == pair
        following = of.following(pair)
        assert following is None or (following > pair and not [each for each in pairs if pair < each < following])
    assert sorted(pairs, key=of.encode) == sorted(pairs)
    assert sorted(pairs, key=key.turned) == sorted(pairs, key=lambda pair: (pair.second, pair.first))


def test_the_last_key_of_two_numbers_is_followed_by_the_first_of_the_next() -> None:
    of, highest = PAIRS["numbers"].type, 2**63 - 1
    assert of.following(KeyPair(1, highest)) == KeyPair(2, -(2**63))
    assert of.following(KeyPair(highest, highest)) is None


@pytest.mark.parametrize("text", ["", "/", "1", "1/", "/1", "01/1", "1/01", "1/2/3", "a/1", "1 /2", f"{2**63}/1"])
def test_a_text_that_is_no_key_of_two_parts_is_refused(text: str) -> None:
    with pytest.raises(InvalidRecord):
        PAIRS["numbers"].type.parse(text)


def test_the_rows_of_a_first_part_are_in_one_partition() -> None:
    store = Store("temperatures", topic="t", key=PAIRS["a text first"], values={"lowest": Min("x", Int64)})
    by_city = {city: {store.partition_for(KeyPair(city, year), 7) for year in range(99)} for city in ("Rome", "Oslo")}
    assert {len(partitions) for partitions in by_city.values()} == {1}
    assert store.by_part


_OF_CITIES = Table("cities", Key("id", Int64), {"name": Text})


def _ranked(key: Key = PAIRS["numbers"], first_in: str | None = None) -> Topology:
    ranking = Ranking(laps.place, laps.show, first_in=first_in)
    store = Store("s", topic="t", key=key, values={"least": Min("x")}, ranking=ranking)
    source = Stream("source", Json({"x": Int64, "city": Int64, "year": Int64}))
    return Topology("of-cities", source=source, tables=[_OF_CITIES], stores=[store])


REFUSED = {
    "two texts": (lambda: Key("a", Text) / Key("b", Text), "an Int64 at least"),
    "three parts": (lambda: PAIRS["numbers"] / Key("month", Int64), "an Int64 at least"),
    "another type": (lambda: Key("a", Int64) / Key("b", Timestamp), "give it Text or Int64"),  # type: ignore[arg-type]
    "one name": (lambda: Key("a", Int64) / Key("a", Int64), "have one name"),
    "a table": (lambda: Table("t", PAIRS["numbers"], {"x": Text}), "only stores have such keys"),
    "a stream": (lambda: Stream("t", PlainText(), key=PAIRS["numbers"]), "only stores have such keys"),
    "windows": (
        lambda: Store("s", topic="t", key=PAIRS["numbers"], values={"n": Count()}, window=Tumbling("1 hour")),
        "give it one of both",
    ),
    "a value of that name": (
        lambda: Store("s", topic="t", key=PAIRS["numbers"], values={"year": Count()}),
        "a value year, as its key",
    ),
    "a ranking by a text": (lambda: _ranked(PAIRS["a text last"]), "the second one is an Int64"),
    "a ranking of one part": (lambda: _ranked(Key("city", Int64)), "the second one is an Int64"),
    "a ranking of no table": (lambda: _ranked(first_in="towns"), "looks for city in towns"),
    "a ranking of another key": (lambda: _ranked(PAIRS["a text first"], first_in="cities"), "looks for city in cities"),
}


@pytest.mark.parametrize(("declare", "said"), REFUSED.values(), ids=REFUSED)
def test_a_key_of_two_parts_that_cannot_be_is_refused(declare: Callable[[], object], said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        declare()


def test_a_ranking_that_can_be_is_taken() -> None:
    assert _ranked(first_in="cities").stores[0].ranking is not None

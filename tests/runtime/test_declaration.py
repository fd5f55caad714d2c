"""A declaration that cannot run says so when it is loaded, without Spark, and says what to change."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from runtime import (
    REAL_TIME,
    Average,
    Beside,
    Boolean,
    Count,
    Decimal,
    Double,
    Int64,
    Json,
    Key,
    Limits,
    Max,
    PlainText,
    Recent,
    Store,
    Stream,
    Sum,
    Table,
    Text,
    Timestamp,
    Topology,
    Tumbling,
    Value,
)
from runtime.declaration import DeclarationError
from runtime.errors import Fix
from runtime.values import Fields

LINES = Stream("lines", PlainText())
TOWNS = Table("big-towns", Key("id", Int64), {"name": Text})


def by_town(lines: Any, big_towns: Any) -> Any:
    """Join a table."""
    return lines, big_towns


def by_other_town(lines: Any, towns: Any) -> Any:
    """Join a table that is none."""
    return lines, towns


def as_lines(lines: Any) -> Any:
    """Make a row of each line."""
    return lines


def as_it_came(lines: Any) -> Any:
    """Make the same."""
    return lines


def as_it_is(row: Any, tables: Any) -> Any:
    """Show a row as it is."""
    return row


def store(name: str = "counts-store", topic: str = "counts", **others: Any) -> Store:
    return Store(name, topic, **{"key": Key("text", Text), "values": {"count": Count()}, **others})


def topology(*stores: Store, **others: Any) -> Topology:
    return Topology("lines-counted", **{"source": LINES, "stores": stores or [store()], **others})


def _beside(second: str = "all", **others: Any) -> Store:
    """Return a store whose query makes the rows of another one as well."""
    by_number = store(key=Key("number", Int64), rows=as_lines)
    of_lines = {"key": Key("number", Int64) / Key("line", Text), "rows": as_lines, **others}
    return store("of-lines", "of-lines", beside=Beside(by_number, second, as_lines), **of_lines)


def _two_beside_one() -> list[Store]:
    """Return two stores that have the same one beside them, and that one."""
    first = _beside()
    assert first.beside is not None
    return [first.beside.store, first, replace(first, name="more-lines", topic="more-lines")]


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: Topology("", LINES, [store()]), "the name of a Topology is '': it has to be a letter, then letters"),
    (lambda: Topology("a b", LINES, [store()]), "the name of a Topology is 'a b'"),
    (lambda: Topology(7, LINES, [store()]), "the name of a Topology is 7"),  # type: ignore[arg-type]
    (lambda: Topology("t", LINES, []), "topology t has no stores: declare at least one"),
    (lambda: Topology("t", [], [store()]), "topology t has no source: name a Stream, or several"),
    (
        lambda: Topology("t", [LINES, Stream("others", Json({"text": Text}))], [store()]),
        "the sources lines and others of topology t are not read alike: give them the same format and key",
    ),
    (lambda: Topology("t", [LINES, LINES], [store()]), "topology t names topic lines twice"),
    (lambda: Stream("li nes", PlainText()), "the topic of a Stream is 'li nes'"),
    (lambda: Table("", Key("id", Int64), {"name": Text}), "the topic of a Table is ''"),
    (lambda: Table("towns", Key("i d", Int64), {"name": Text}), "a column of table towns is 'i d'"),
    (lambda: Table("towns", Key("id", Int64), {"na-me": Text}), "a column of table towns is 'na-me'"),
    (lambda: Table("towns", Key("id", Int64), {}), "table towns has no fields: name at least one"),
    (lambda: Table("towns", Key("id", Int64), {"id": Text}), "table towns has a field id, as its key: give it another"),
    (lambda: store("a/b"), "the name of a Store is 'a/b'"),
    (lambda: store(topic="a/b"), "the topic of store counts-store is 'a/b'"),
    (lambda: store(key=Key("1", Text)), "the key of store counts-store is '1'"),
    (lambda: store(values={}), "store counts-store has no values: name at least one"),
    (lambda: store(values={"a b": Count()}), "a value of store counts-store is 'a b'"),
    (lambda: store(values={"text": Count()}), "store counts-store has a value text, as its key: give it another name"),
    (lambda: store(values={"Text": Count()}), "store counts-store has a value Text, as its key: give it another name"),
    (
        lambda: store(values={"a": Count(), "A": Count()}),
        "values of store counts-store are a and A, which are one name to Spark: give one another name",
    ),
    *(
        (
            lambda name=name: store(key=Key(name, Text)),
            f"store counts-store has the key {name}, a column of the runtime's own: give it another name",
        )
        for name in ("at", "made", "Values", "made_events", "part_count", "__text")
    ),
    (
        lambda: Table("towns", Key("id", Int64), {"ID": Text}),
        "columns of table towns are id and ID, which are one name to Spark: give one another name",
    ),
    (
        lambda: Json({"id": Text, "Id": Text}),
        "fields of Json are id and Id, which are one name to Spark: give one",
    ),
    (lambda: store(limits=Limits(3, 10)), "store counts-store has limits and no show"),
    (
        lambda: store(limits=Limits(30, 10), show=as_it_is),
        r"limits of store counts-store are Limits\(default=30, most=10\): give a default from 1 on",
    ),
    # What is of another kind than it has to be.
    *(
        (lambda kind=kind: Key("amount", kind), "the key amount is of .*: give it Text or Int64")
        for kind in (Decimal(2), Double, Boolean, Timestamp, str)
    ),
    *(
        (
            lambda key=key: store(key=key),
            r"the key of store counts-store is .*: name a column and its type, as in Key\(",
        )
        for key in ("text", ["text"], None)
    ),
    (lambda: Table("towns", "id", {"name": Text}), "the key of table towns is 'id': name a column"),  # type: ignore[arg-type]
    (lambda: Table("towns", Key("id", Int64), [Text]), "the fields of table towns are .*: name them with types"),  # type: ignore[arg-type]
    (lambda: Stream("lines", PlainText), "the format of stream lines is .*: give PlainText"),  # type: ignore[arg-type]
    (lambda: Stream("lines", "json"), "the format of stream lines is 'json': give PlainText"),  # type: ignore[arg-type]
    (lambda: Json(["text"]), "Json has no fields: name at least one"),  # type: ignore[arg-type]
    (lambda: store(values=Count()), r"store counts-store has the values Count\(.*name at least one, as in"),
    (lambda: store(values={"count": Count}), "value count of store counts-store is .*: give a value, as Count"),
    (lambda: topology(source="lines"), r"the source of topology lines-counted is 'lines': give a list, as in \[Stream"),
    (lambda: topology(stores=store()), r"the stores of topology lines-counted is .*: give a list, as in \[Store"),
    (lambda: topology(tables=TOWNS), r"the tables of topology lines-counted is .*: give a list, as in \[Table"),
    (lambda: store(rows="text"), "rows of store counts-store is 'text': give a function of the source's DataFrame"),
    (lambda: store(rows=lambda: LINES), "rows of store counts-store is .*: give a function"),
    *(
        (lambda show=show: store(show=show), "show of store counts-store is .*: give a function of two parameters")
        for show in ("row", lambda row: row, lambda *, row: row)
    ),
    *(
        (lambda name=name, number=number: store(**{name: number}), f"{name} of store counts-store is .*: give a whole")
        for name, number in (("version", 0), ("version", "2"), ("partitions", 0), ("records_per_batch", 0))
    ),
    (lambda: Stream("lines", PlainText(), 0), "partitions of stream lines is 0: give a whole number from 1 on"),
    (lambda: Stream("lines", Json({"ID": Text}), key=Key("id", Text)), "columns of stream lines are id and ID"),
    (
        lambda: store(values={"made_events": Count()}),
        "store counts-store has a value made_events, a column of the runtime's own: give it another name",
    ),
    (
        lambda: store(values={"windowstart": Count()}, window=Tumbling("1 hour")),
        "store counts-store has a column windowstart, as its windows: give it another name",
    ),
    (
        lambda: topology(tables=[TOWNS, Table("big.towns", Key("id", Int64), {"name": Text})]),
        r"tables big-towns and big\.towns are both parameter big_towns of rows: give one topic another name",
    ),
    (
        lambda: topology(store(key=Key("text", Int64))),
        "store counts-store wants column text as bigint, and lines has it as string: leave its type to the source",
    ),
    *(
        (lambda pace=pace: topology(pace=pace), f"has pace {pace!r}: give REAL_TIME, or from")
        for pace in ("", "0 seconds", "2 hours", "1 day", "1s", "01 seconds", "9999 minutes", 1, None)
    ),
    (lambda: topology(store(), store(topic="others")), "has counts-store twice: stores and tables need names"),
    (lambda: topology(store("big-towns"), tables=[TOWNS]), "has big-towns twice: stores and tables need names"),
    (lambda: topology(store("notes")), "has a store or table notes, as what stands beside them in the state directory"),
    (lambda: Table("..", Key("id", Int64), {"name": Text}), "the topic of a Table is '..'"),
    (
        lambda: topology(store(), store("others", "others", partitions=8)),
        r"different numbers of partitions \(counts-store 4, others 8\): give all the same",
    ),
    (lambda: topology(store(), store("others")), "names topic counts twice: source, dead letters, tables and stores"),
    (lambda: topology(store(topic="lines")), "names topic lines twice"),
    (lambda: topology(store(topic="lines-invalid")), "names topic lines-invalid twice"),
    (lambda: topology(store(topic="big-towns"), tables=[TOWNS]), "names topic big-towns twice"),
    (
        lambda: topology(store(rows=by_town)),
        r"rows of store counts-store want big_towns, which is no table \(there are none\)",
    ),
    (
        lambda: topology(store(rows=by_other_town), tables=[TOWNS]),
        r"want towns, which is no table \(there are big_towns\): name the parameter as the table's topic",
    ),
    (
        lambda: topology(store(key=Key("word", Text))),
        r"store counts-store wants column word, which lines does not have \(it has text\): name one of these, or make",
    ),
    *(
        (
            lambda others=others: _beside(**others),
            "beside it: give both the same values, version, partitions, keys_only, records_per_batch and no window",
        )
        for others in (
            {"key": Key("number", Int64)},
            {"key": Key("number", Int64) / Key("other", Int64)},
            {"key": Key("text", Text) / Key("number", Int64)},
            {"values": {"count": Count(), "more": Count()}},
            {"version": 2},
            {"partitions": 5},
            {"records_per_batch": 5},
        )
    ),
    *(
        (
            lambda second=second: _beside(second=second),
            "store of-lines has rows of counts-store without a key: name the second part of these in second, a text",
        )
        for second in ("", None, 7)
    ),
    (lambda: store(beside=store()), r"beside of store counts-store is Store\(.*: give Beside\(store, \"all\", rows\)"),
    *(
        (
            lambda beside=beside: store(beside=beside),
            r"beside of store counts-store is Beside\(.*: give it a store, and",
        )
        for beside in (Beside("counts-store", "all", as_lines), Beside(store(), "all", "rows"))  # type: ignore[arg-type]
    ),
    (
        lambda: topology(*_two_beside_one()),
        "store counts-store of topology lines-counted is beside two stores, or has one and is beside another",
    ),
    (
        lambda: topology(_beside()),
        "store of-lines has counts-store beside it, which is no store of topology lines-counted: name it in stores",
    ),
    (
        lambda: topology(store(values={"count": Count("times")})),
        r"store counts-store wants column times, which lines does not have \(it has text\)",
    ),
]


@pytest.mark.parametrize(("declare", "message"), REFUSED, ids=[message[:60] for _, message in REFUSED])
def test_what_cannot_run_is_refused_and_says_what_to_change(declare: Callable[[], object], message: str) -> None:
    with pytest.raises(DeclarationError, match=message) as caught:
        declare()
    assert isinstance(caught.value, Fix)


def test_a_store_without_rows_has_the_columns_of_the_source() -> None:
    declared = topology()
    assert declared.store("counts-store").joined == ()
    assert declared.joined(declared.stores[0]) == {}
    assert declared.topics == ["lines", "counts"]


def test_rows_are_given_the_tables_that_their_parameters_name() -> None:
    declared = topology(store(rows=by_town), tables=[TOWNS])
    assert declared.joined(declared.stores[0]) == {"big_towns": TOWNS}
    assert declared.table("big-towns") is TOWNS


def test_values_by_name_are_one_record_and_values_that_are_the_whole_record_stay() -> None:
    assert store().record == Fields({"count": Count()})
    whole = Fields({"many": Count()})
    assert store(values=whole).record is whole


SALES = Stream("sales", Json({"amount": Decimal(2), "note": Text}, optional=["note"]), key=Key("product", Text))


def sales(values: dict[str, Value], **others: Any) -> Topology:
    return Topology("sales", SALES, [store(key=Key("product", Text), values=values, **others)])


def test_a_value_takes_its_type_from_the_source() -> None:
    declared = sales({"total": Sum("amount"), "last": Recent(2, "note"), "said": Max("note", Text)})
    assert declared.stores[0].values == {
        "total": Sum("amount", Decimal(2)), "last": Recent(2, "note", Text), "said": Max("note", Text),
    }  # fmt: skip
    assert declared.events.columns == {"product": "string", "amount": "decimal(18,2)", "note": "string"}


def test_a_value_of_a_column_that_rows_passes_on_takes_its_type_from_the_source() -> None:
    declared = sales({"total": Sum("amount"), "said": Max("note", Text)}, rows=by_town_of_none)
    assert declared.stores[0].record.columns == {"amount": "decimal(18,2)", "note": "string"}


def test_a_value_of_a_column_that_rows_makes_names_its_type() -> None:
    declared = sales({"total": Sum("price", Decimal(2))}, rows=by_town_of_none)
    assert declared.stores[0].record.columns == {"price": "decimal(18,2)"}


def by_town_of_none(sales: Any) -> Any:
    """Return rows of the source alone."""
    return sales


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (
            lambda: sales({"total": Sum("price")}, rows=by_town_of_none),
            r"value total of store counts-store: .* name its type, as in Sum\(column='price', type=Decimal\(2\)\)",
        ),
        (
            lambda: sales({"last": Recent(2, "town")}, rows=by_town_of_none),
            r"name its type, as in Recent\(n=2, column='town', type=Text\)",
        ),
        (lambda: sales({"total": Sum("price")}), r"wants column price, .* \(it has product, amount, note\)"),
        (
            lambda: sales({"total": Sum("amount", Decimal(3))}),
            r"wants column amount as decimal\(18,3\), and sales has it as decimal\(18,2\): leave its type to",
        ),
        (lambda: sales({"n": Count("note")}), "wants column note as bigint, and sales has it as string"),
        (lambda: sales({"total": Sum("note")}), r"cannot add up Text: it takes Int64, Decimal\(n\) and Double"),
        (lambda: sales({"total": Average("note")}), "Average of column note cannot add up Text"),
        (lambda: Recent(0, "note"), r"Recent\(0, …\): say how many are kept, 1 to 1,000"),
        (lambda: Table("t", Key("id", Int64), {"name": str}), "field name of table t is <class 'str'>: give it a type"),  # type: ignore[dict-item]
    ],
)  # fmt: skip
def test_a_value_without_a_type_says_what_to_write(declare: Callable[[], object], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        declare()


@pytest.mark.parametrize("name", ["counts-store", "missing"])
def test_a_store_is_found_by_its_name(name: str) -> None:
    if name == "missing":
        with pytest.raises(KeyError):
            topology().store(name)
    else:
        assert topology().store(name).name == name


def test_a_query_that_makes_the_rows_of_two_stores_is_called_as_the_one_alone_would_be() -> None:
    of_both = _beside(rows=as_it_came, key=Key("text_length", Int64) / Key("text", Text))
    assert of_both.beside is not None
    declared = topology(of_both.beside.store, of_both, store("others", "others"))
    assert [(query.name, query.query_name) for query in declared.queries] == [
        ("of-lines", "counts-store"),
        ("others", "others"),
    ]
    (query, other), (alone, _, _) = declared.queries, declared.stores
    assert (query.rows, other.rows) == (as_lines, None)
    assert query.made == [query, alone]
    assert query.state_form != alone.state_form, "neither goes on with the state of the other"
    assert declared.store("of-lines").rows is as_it_came, "the rows of the store alone"


def test_values_that_take_their_types_from_the_source_may_be_of_two_stores() -> None:
    spent = {"spent": Sum("amount")}
    source = Stream("sales", Json({"shop": Int64, "town": Text, "amount": Decimal(2)}))
    by_shop = Store("shops", "shops", Key("shop", Int64), spent)
    by_town = replace(
        by_shop, name="towns", topic="towns", key=by_shop.key / Key("town", Text), beside=Beside(by_shop, "*", as_lines)
    )
    declared = Topology("sales", source, [by_shop, by_town])
    (query,) = declared.queries
    assert query.made == [query, declared.store("shops")]
    assert query.values == {"spent": Sum("amount", Decimal(2))}


def test_declarations_are_made_without_spark() -> None:
    code = """
import sys
from runtime import REAL_TIME, Count, Key, PlainText, Store, Stream, Text, Topology
Topology("t", Stream("lines", PlainText()), [Store("s", "counts", Key("text", Text), {"count": Count()})])
print([name for name in ("pyspark", "aiokafka", "rocksdict", "fastapi") if name in sys.modules])
"""
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"


@pytest.mark.parametrize(
    ("pace", "every_s"),
    [
        (REAL_TIME, None),
        ("1 second", 1),
        ("90 seconds", 90),
        ("5 minutes", 300),
        ("1 hour", 3600),
        ("60 minutes", 3600),
    ],
)
def test_a_pace_is_real_time_or_an_interval(pace: str, every_s: int | None) -> None:
    assert topology(pace=pace).every_s == every_s
    assert topology().every_s is None

"""Topologies for streams in processes of their own, and what has to be counted, said in plain Python."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from dataclasses import replace
from typing import NoReturn

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from runtime import (
    Beside,
    Count,
    Hopping,
    Int64,
    Key,
    PlainText,
    Recent,
    Store,
    Stream,
    Text,
    Topology,
    Tumbling,
    each_distinct,
)
from runtime.kafka import unreadable
from runtime.rows import DISTINCT, of_each
from runtime.spark.offset_log import OffsetLog
from runtime.stream.work import Work
from topology.leaderboard.board import leaderboard
from topology.word_count import WORD_COUNT

SOURCE_PARTITIONS = 3
RESULT_PARTITIONS = 2
_COUNTS = WORD_COUNT.store("counts-store")


def word_count(name: str) -> Topology:
    """Return word count on topics whose names begin with the topology's."""
    return Topology(name, Stream(f"{name}-lines", PlainText(), SOURCE_PARTITIONS), [_on_its_own(_COUNTS, name)])


def long_words(name: str) -> Topology:
    """Return word count as another version of the store has it: of words of more than one letter."""
    store = replace(_on_its_own(_COUNTS, name), version=2, rows=_long_words)
    return Topology(name, Stream(f"{name}-lines", PlainText(), SOURCE_PARTITIONS), [store])


def _long_words(lines: DataFrame) -> DataFrame:
    return each_distinct(lines, F.split(F.lower("text"), r"\s+"), "word").where(F.length("word") > 1)


def word_count_of_two_sources(name: str) -> Topology:
    """Return word count of the lines of two topics, which have different numbers of partitions."""
    sources = [Stream(f"{name}-lines", PlainText(), SOURCE_PARTITIONS), Stream(f"{name}-more-lines", PlainText(), 2)]
    return Topology(name, sources, [_on_its_own(_COUNTS, name)])


def word_count_each_second(name: str) -> Topology:
    """Return word count that says each count at most once a second."""
    return replace(word_count(name), pace="1 second")


def word_count_in_small_pieces(name: str) -> Topology:
    """Return word count in a process that reads records apart in pieces that are as small as can be."""
    vars(unreadable)["_RECORDS_AT_ONCE"] = 1
    return word_count(name)


def word_count_killed_before_files(name: str) -> Topology:
    """Return word count in a process that is killed when the log of offsets is one of files and none was read."""
    _kill_at("batch_apart", Work)
    return word_count(name)


def word_count_killed_after_files(name: str) -> Topology:
    """Return word count in a process that is killed when a batch of files is done and the log is still one of files."""
    _kill_at("_end_files", OffsetLog)
    return word_count(name)


def _kill_at(method: str, of_class: type) -> None:
    def killed(*_: object) -> NoReturn:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("it lives")

    setattr(of_class, method, killed)


WORDS_WINDOW = Hopping("10 seconds", "5 seconds", keep="20 seconds", grace="5 seconds")


def words_in_windows(name: str) -> Topology:
    """Return word count in windows, of lines whose first word says when they are: see `windows_of`."""
    store = replace(_on_its_own(_COUNTS, name), window=WORDS_WINDOW, rows=_later_words)
    return Topology(name, Stream(f"{name}-lines", PlainText(), SOURCE_PARTITIONS), [store])


def words_in_tumbling_windows(name: str) -> Topology:
    """Return the same in windows that do not overlap, at an interval: see `tumbling_of`."""
    topology = words_in_windows(name)
    window = Tumbling(WORDS_WINDOW.size, keep=WORDS_WINDOW.keep, grace=WORDS_WINDOW.grace)
    return replace(topology, pace="1 second", stores=[replace(topology.stores[0], window=window)])


def words_in_windows_kept_longer(name: str) -> Topology:
    """Return the same in windows that are kept for another hour."""
    topology = words_in_windows(name)
    return replace(topology, stores=[replace(topology.stores[0], window=replace(WORDS_WINDOW, keep="1 hour"))])


def words_in_longer_windows(name: str) -> Topology:
    """Return the same in windows of another length."""
    topology = words_in_windows(name)
    return replace(topology, stores=[replace(topology.stores[0], window=replace(WORDS_WINDOW, size="15 seconds"))])


def _later_words(lines: DataFrame) -> DataFrame:
    split = F.split(F.lower("text"), r"\s+")
    return each_distinct(lines, F.slice(split, 2, 1000), "word")


def windows_of(line: str) -> Counter[str]:
    """Return how often each word comes in each of its windows; the line begins with its milliseconds from 1970."""
    time, *words = line.lower().split()
    counts: Counter[str] = Counter()
    for start in range(int(time) // 5000 * 5000 - 10_000, int(time) + 1, 5000):
        if int(time) < start + 10_000:
            counts.update(f"{word}@{start}" for word in words)
    return counts


def tumbling_of(line: str) -> Counter[str]:
    """Return how often each word comes in its window; the line begins with its milliseconds from 1970."""
    time, *words = line.lower().split()
    return Counter(f"{word}@{int(time) // 10_000 * 10_000}" for word in words)


def words_and_letters(name: str) -> Topology:
    """Return word count and letter count in one topology."""
    by_letter = Store("letters-store", "letters", Key("letter", Text), {"count": Count("times")}, rows=letters)
    stores = [_on_its_own(store, name) for store in (_COUNTS, by_letter)]
    return Topology(name, Stream(f"{name}-lines", PlainText(), SOURCE_PARTITIONS), stores)


def products_alone(name: str) -> Topology:
    """Return how many lines there are of each product, a number that the line begins with."""
    counts = {"count": Count("times")}
    by_product = Store(
        "products-store", f"{name}-products", Key("product", Int64), counts, rows=_of_product, partitions=3
    )
    return Topology(name, Stream(f"{name}-lines", PlainText(), SOURCE_PARTITIONS), [by_product])


def products_and_kinds(name: str) -> Topology:
    """Return the same, and by one query how many have each kind, a word behind the number."""
    alone = products_alone(name)
    (by_product,) = alone.stores
    by_kind = replace(
        by_product,
        name="kinds-store",
        topic=f"{name}-kinds",
        # Not as the other store calls it.
        key=Key("of_product", Int64) / Key("kind", Text),
        rows=_of_kinds,
        beside=Beside(by_product, _ANY_KIND, _of_both),
    )
    return replace(alone, stores=[by_product, by_kind])


_ANY_KIND = "any kind"
"""No word has a blank."""


def _of_product(lines: DataFrame) -> DataFrame:
    number = F.substring_index("text", " ", 1).try_cast("bigint")
    return lines.select(number.alias("product"), "text", "at", F.lit(1).cast("bigint").alias("times"))


def _of_kinds(lines: DataFrame) -> DataFrame:
    return _of_each(lines, _kinds())


def _of_both(lines: DataFrame) -> DataFrame:
    return _of_each(lines, F.concat(F.array(F.lit(_ANY_KIND)), _kinds()))


def _of_each(lines: DataFrame, kinds: Column) -> DataFrame:
    named = _of_product(lines).withColumn(f"{DISTINCT}_kinds", kinds)
    each = of_each(named, F.col(f"{DISTINCT}_kinds"), "kind").drop(f"{DISTINCT}_kinds")
    return each.withColumnRenamed("product", "of_product")


def _kinds() -> Column:
    return F.array_distinct(F.slice(F.split("text", " "), 2, 1000))


def products_in(line: str) -> Counter[str]:
    """Return what a line adds to the products."""
    return Counter([line.split(maxsplit=1)[0]])


def kinds_in(line: str) -> Counter[str]:
    """Return what a line adds to the kinds of products."""
    product, *kinds = line.split()
    return Counter(f"{product}/{kind}" for kind in set(kinds))


def last_lines(name: str) -> Topology:
    """Return the last lines that begin with each letter."""
    letter = Store(
        "lines-store", f"{name}-last", Key("letter", Text), {"lines": Recent(1000, "text")}, rows=_with_letter
    )
    return Topology(name, Stream(f"{name}-lines", PlainText(), SOURCE_PARTITIONS), [letter])


def _with_letter(lines: DataFrame) -> DataFrame:
    return lines.withColumn("letter", F.substring("text", 1, 1))


def the_leaderboard(_: str) -> Topology:
    """Return the leaderboard, on its own topics."""
    return leaderboard()


def letters(lines: DataFrame) -> DataFrame:
    """Return a row for each distinct letter of a line: `at, letter string, times bigint`."""
    return each_distinct(lines, F.split(F.regexp_replace(F.lower("text"), r"\s+", ""), ""), "letter")


def words_in(line: str) -> Counter[str]:
    """Return what a line adds to the words."""
    return Counter(word for word in re.split(r"\s+", line.lower(), flags=re.ASCII) if word)


def letters_in(line: str) -> Counter[str]:
    """Return what a line adds to the letters."""
    return Counter(re.sub(r"\s+", "", line.lower(), flags=re.ASCII))


def _on_its_own(store: Store, name: str) -> Store:
    return replace(store, topic=f"{name}-{store.topic}", partitions=RESULT_PARTITIONS)


SEVERAL = word_count("several")
"""For `serve`, which runs a topology by its name in a module."""


IN_WINDOWS = words_in_windows("windowed")
"""For instances, which are told the name of a value."""


CUT_OFF = word_count("cut-off")
"""The same."""

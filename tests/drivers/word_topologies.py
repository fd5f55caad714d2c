"""Topologies for streams in processes of their own, and what has to be counted, said in plain Python."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime import Count, Key, PlainText, Store, Stream, Text, Topology, each_distinct
from topology.leaderboard.board import leaderboard
from topology.word_count import WORD_COUNT

SOURCE_PARTITIONS = 3
RESULT_PARTITIONS = 2
_COUNTS = WORD_COUNT.store("counts-store")


def word_count(name: str) -> Topology:
    """Return word count on topics whose names begin with the topology's."""
    return Topology(name, Stream(f"{name}-lines", PlainText(), SOURCE_PARTITIONS), [_on_its_own(_COUNTS, name)])


def words_and_letters(name: str) -> Topology:
    """Return word count and letter count in one topology."""
    by_letter = Store("letters-store", "letters", Key("letter", Text), {"count": Count("times")}, rows=letters)
    stores = [_on_its_own(store, name) for store in (_COUNTS, by_letter)]
    return Topology(name, Stream(f"{name}-lines", PlainText(), SOURCE_PARTITIONS), stores)


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

"""A topology on given records says what a service says: counts go on, tables count as of then and show as of now."""

from __future__ import annotations

import decimal
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runtime import Count, Decimal, Int64, Json, Key, Max, PlainText, Row, Store, Stream, Table, Tables, Text, Topology
from runtime.declaration import DeclarationError
from runtime.spark.session import Spark
from runtime.testing import DeadLetter, TopologyDriver
from topology.leaderboard.board import leaderboard
from topology.word_count import WORD_COUNT

OWNERS = Table("service-owners", Key("service", Text), {"owner": Text, "level": Int64})


def by_service(lines: DataFrame, service_owners: DataFrame) -> DataFrame:
    """Return each line by its service, with the level of then: `at, service string, level bigint`."""
    return lines.select("at", F.col("text").alias("service")).join(service_owners, "service", "left")


def with_owner(row: Row, tables: Tables) -> dict[str, Any] | None:
    owner = tables["service-owners"].get(row["service"])
    return None if owner is None else {**row, "owner": owner["owner"]}


CALLS = Topology(
    "calls",
    Stream("calls", PlainText()),
    tables=[OWNERS],
    stores=[
        Store("levels", "levels-output", Key("service", Text), {"levels": Count("level")}, by_service, with_owner),
        Store("calls", "calls-output", Key("text", Text), {"count": Count()}),
    ],
)


def test_the_known_answers_of_word_count_whether_the_lines_come_at_once_or_not(spark: Spark) -> None:
    lines = ["hello world", "hello kafka streams", "kafka summit kafka"]
    at_once, one_by_one = (TopologyDriver(WORD_COUNT, spark.session) for _ in range(2))
    at_once.send("lines", *lines)
    for number, line in enumerate(lines):
        one_by_one.send("lines", line, partition=number)
        assert one_by_one.row(line.split()[1]) is not None
    for driver in (at_once, one_by_one):
        assert {row["word"]: row["count"] for row in driver.rows()} == {
            "hello": 2, "world": 1, "kafka": 3, "streams": 1, "summit": 1,
        }  # fmt: skip
        assert driver.row("unheard") is None


def test_a_table_counts_as_it_was_and_shows_as_it_is(spark: Spark) -> None:
    driver = TopologyDriver(CALLS, spark.session)
    driver.send("calls", "api", "web")
    assert driver.rows() == []
    driver.send("service-owners", {"owner": "Ann", "level": 2}, key="api")
    assert driver.row("api") == {"service": "api", "levels": 0, "owner": "Ann"}
    driver.send("calls", "api")
    driver.send("service-owners", {"owner": "Bo", "level": 50}, key="api")
    driver.send("calls", "")
    assert driver.rows() == [{"service": "api", "levels": 2, "owner": "Bo"}]
    assert driver.rows("calls") == [{"text": "api", "count": 2}, {"text": "web", "count": 1}]
    driver.send("service-owners", None, key="api")
    assert driver.row("api") is None


def test_what_show_raises_is_raised_and_not_hidden(spark: Spark) -> None:
    def misspelled(row: Row, tables: Tables) -> Any:
        return {**row, "owner": tables["service-owner"].get(row["service"])}

    store = replace(CALLS.stores[0], show=misspelled)
    driver = TopologyDriver(replace(CALLS, stores=[store]), spark.session)
    driver.send("calls", "api")
    with pytest.raises(KeyError, match="service-owner"):
        driver.row("api")


def test_decimals_are_sent_with_all_their_digits(spark: Spark) -> None:
    readings = Topology(
        "readings",
        Stream("readings", Json({"sensor": Text, "celsius": Decimal(1)})),
        [Store("r", "r", Key("sensor", Text), {"highest": Max("celsius")}, rows=lambda readings: readings)],
    )
    driver = TopologyDriver(readings, spark.session)
    driver.send("readings", {"sensor": "a", "celsius": decimal.Decimal("21.50")}, {"sensor": "a", "celsius": 21.25})
    assert driver.row("a") == {"sensor": "a", "highest": 21.5}
    assert [letter.reason for letter in driver.dead_letters] == [
        "celsius is missing or no decimal of at most 1 digit behind the point"
    ]


def test_what_cannot_be_used_is_a_dead_letter_with_its_reason(spark: Spark) -> None:
    driver = TopologyDriver(CALLS, spark.session)
    driver.send("calls", b"\xff", None, "api")
    driver.send("service-owners", {"owner": "Ann"}, key="api")
    driver.send("service-owners", {"owner": "Ann", "level": 2})
    assert sorted(driver.dead_letters, key=str) == [
        DeadLetter("calls", None, "no value"),
        DeadLetter("calls", b"\xff", "not UTF-8"),
        DeadLetter("service-owners", b'{"owner":"Ann","level":2}', "no key"),
        DeadLetter("service-owners", b'{"owner":"Ann"}', "level is missing or no 64-bit integer"),
    ]
    words = TopologyDriver(
        Topology("w", Stream("w", PlainText()), [Store("w", "c", Key("text", Text), {"n": Count()})]), spark.session
    )
    words.send("w", "", "a")
    assert words.dead_letters == [DeadLetter("w", b"", "no key")]
    assert words.rows() == [{"text": "a", "n": 1}]


def test_several_sources_are_one(spark: Spark) -> None:
    sources = [Stream("w", PlainText()), Stream("more", PlainText())]
    words = TopologyDriver(Topology("w", sources, [Store("w", "c", Key("text", Text), {"n": Count()})]), spark.session)
    words.send("w", "a", "b")
    words.send("more", "a", b"\xff")
    assert words.rows() == [{"text": "a", "n": 2}, {"text": "b", "n": 1}]
    words.send("more", "b")
    assert words.row("b") == {"text": "b", "n": 2}
    assert words.dead_letters == [DeadLetter("more", b"\xff", "not UTF-8")]


def test_the_leaderboard_shows_names_of_now_and_orders_equal_scores_by_their_time(spark: Spark) -> None:
    driver = TopologyDriver(leaderboard(), spark.session)
    driver.send("players", {"id": 1, "name": "Ann"}, key=1)
    driver.send("products", {"id": 7, "name": "Go"}, key=7)
    driver.now = datetime(2026, 5, 1, tzinfo=UTC)
    driver.send("score-events", {"score": 5, "product_id": 7, "player_id": 2})
    driver.now = datetime(2026, 4, 1, tzinfo=UTC)
    driver.send("score-events", {"score": 5, "product_id": 7, "player_id": 1})
    assert [entry["playerName"] for entry in driver.row(7)] == ["Ann"]
    driver.send("players", {"id": 2, "name": "Bo"}, key=2)
    assert [entry["playerName"] for entry in driver.row(7)] == ["Ann", "Bo"]


def test_what_cannot_run_or_is_not_read_is_refused(spark: Spark) -> None:
    driver = TopologyDriver(WORD_COUNT, spark.session)
    with pytest.raises(ValueError, match="topology word-count does not read words: it reads lines"):
        driver.send("words", "a")
    with pytest.raises(ValueError, match="topic lines has no partition 4 here"):
        driver.send("lines", "a", partition=4)
    with pytest.raises(KeyError):
        driver.rows("no-store")
    twice = Store("t", "t-out", Key("text", Text), {"n": Count()}, rows=lambda lines: lines.distinct())
    with pytest.raises(DeclarationError, match="an aggregate of their own"):
        TopologyDriver(Topology("t", Stream("t", PlainText()), [twice]), spark.session)

"""Examples that other projects publish, with the answers that they give."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from runtime import Count, Int64, Json, Key, Latest, Row, Store, Stream, Sum, Table, Tables, Text, Topology
from runtime.spark.session import Spark
from runtime.testing import TopologyDriver


def test_the_tickets_of_each_title_are_added_up(spark: Spark) -> None:
    sales = Topology(
        "ticket-sales",
        Stream("movie-ticket-sales", Json({"title": Text, "ticket_total_value": Int64})),
        stores=[Store("sales", "revenue", key=Key("title", Text), values={"total": Sum("ticket_total_value")})],
    )
    driver = TopologyDriver(sales, spark.session)
    for title, value in [("Die Hard", 15), ("Die Hard", 15), ("The Godfather", 15)]:
        driver.send("movie-ticket-sales", {"title": title, "ticket_total_value": value})
    assert driver.rows() == [{"title": "Die Hard", "total": 30}, {"title": "The Godfather", "total": 15}]


def test_what_are_three_events_of_a_stream_are_two_rows_of_a_table(spark: Spark) -> None:
    accounts = Topology(
        "accounts",
        Stream("transactions", Json({"amount": Int64}), key=Key("user", Text)),
        stores=[
            Store("events", "events", key=Key("user", Text), values={"count": Count()}),
            Store("balances", "balances", key=Key("user", Text), values={"amount": Latest("amount")}),
        ],
    )
    driver = TopologyDriver(accounts, spark.session)
    for user, amount in [("alice", 100), ("bob", 50), ("alice", 150)]:
        driver.send("transactions", {"amount": amount}, key=user)
    assert driver.rows("events") == [{"user": "alice", "count": 2}, {"user": "bob", "count": 1}]
    assert driver.rows("balances") == [{"user": "alice", "amount": 150}, {"user": "bob", "amount": 50}]


def test_clicks_are_added_up_by_user_and_shown_with_the_region_of_now(spark: Spark) -> None:
    def with_region(row: Row, tables: Tables) -> dict[str, Any]:
        region = tables["user-regions"].get(row["user"])
        return {**row, "region": region and region["region"]}

    clicks = Topology(
        "clicks",
        Stream("user-clicks", Json({"clicks": Int64}), key=Key("user", Text)),
        tables=[Table("user-regions", Key("user", Text), {"region": Text})],
        stores=[
            Store("clicks", "clicks-by-user", key=Key("user", Text), values={"clicks": Sum("clicks")}, show=with_region)
        ],
    )
    driver = TopologyDriver(clicks, spark.session)
    regions = [("alice", "asia"), ("bob", "americas"), ("chao", "asia"), ("dave", "europe"), ("alice", "europe"),
               ("eve", "americas"), ("fang", "asia")]  # fmt: skip
    for user, region in regions:
        driver.send("user-regions", {"region": region}, key=user)
    for user, count in [("alice", 13), ("bob", 4), ("chao", 25), ("bob", 19), ("dave", 56), ("eve", 78), ("alice", 40),
                        ("fang", 99)]:  # fmt: skip
        driver.now += timedelta(seconds=1)
        driver.send("user-clicks", {"clicks": count}, key=user)
    rows = driver.rows()
    assert {row["user"]: row["clicks"] for row in rows} == {
        "alice": 53, "bob": 23, "chao": 25, "dave": 56, "eve": 78, "fang": 99,
    }  # fmt: skip
    assert rows[0] == {"user": "alice", "clicks": 53, "region": "europe"}
    by_region = {region: sum(row["clicks"] for row in rows if row["region"] == region) for _, region in regions}
    assert by_region == {"americas": 101, "europe": 109, "asia": 124}

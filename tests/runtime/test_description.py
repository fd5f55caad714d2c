"""What is said of a topology follows from its declaration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runtime import Count, Int64, Key, PlainText, Store, Stream, Table, Text, Topology
from runtime.description import describe
from runtime.diagram import ranks, text
from tests.drivers.descriptions import check_flows, check_mermaid, check_picture, check_text
from topology.paid_orders import PAID_ORDERS
from topology.sessions import SESSIONS
from topology.word_count import WORD_COUNT


def visits(lines: Any, towns: Any) -> Any:
    """Return a row for each line that names a town."""
    return lines, towns


BUSY = Topology(
    "busy",
    Stream("lines", PlainText()),
    tables=[Table("towns", Key("town", Text), {"country": Text}), Table("people", Key("id", Int64), {"name": Text})],
    stores=[
        Store("visits", "visits", Key("town", Text), {"times": Count()}, rows=visits),
        Store("lines-by-their-whole-text", "counted-lines", Key("text", Text), {"times": Count()}),
    ],
)
TWO = replace(WORD_COUNT, name="two-sources", source=[WORD_COUNT.events, Stream("more-lines", PlainText())])
DESCRIPTIONS = [describe(WORD_COUNT), describe(BUSY), describe(TWO), describe(PAID_ORDERS), describe(SESSIONS)]

each_description = pytest.mark.parametrize("description", DESCRIPTIONS, ids=lambda description: description.name)


@each_description
def test_every_flow_leads_on_between_nodes_that_exist(description: Any) -> None:
    check_flows(description)


@each_description
def test_the_text_names_every_node(description: Any) -> None:
    check_text(description)


@each_description
def test_mermaid_has_every_node_once_and_every_flow(description: Any) -> None:
    check_mermaid(description)


@each_description
@pytest.mark.parametrize("across", [True, False])
def test_the_picture_has_every_node_and_no_two_boxes_meet(description: Any, across: bool) -> None:
    check_picture(description, across=across)


def test_a_table_stands_before_what_joins_it_and_flows_into_its_store() -> None:
    description = describe(BUSY)
    rank = ranks(description)
    assert {("towns", "make rows 1"), ("towns", "store towns"), ("people", "store people")} <= set(description.flows)
    assert rank["towns"] < rank["make rows 1"]
    assert not any(source == "people" and target.startswith("make") for source, target in description.flows)


def test_two_streams_are_read_and_then_joined() -> None:
    description = describe(PAID_ORDERS)
    rank = ranks(description)
    streams = [node.name for node in description.nodes if node.kind == "stream"]
    assert streams == ["orders-topic", "payments-topic"]
    assert {*((stream, "read records") for stream in streams), ("read records", "join streams")} < {*description.flows}
    (join,) = [node for node in description.nodes if node.name == "join streams"]
    assert join.text == "by order_id, each two within 5 minutes of each other"
    assert rank["read records"] < rank["join streams"] < rank["make results"]
    assert ("read records", "make results") not in description.flows


def test_a_row_is_said_to_be_of_a_session_and_those_that_have_ended_are_left_out_before() -> None:
    description = describe(SESSIONS)
    said = {node.name: node.text for node in description.nodes}
    assert said["aggregate rows"] == "by browserHash and session: actions (Count)"
    assert said["sessions-store"].startswith("a row for each browserHash and session, ")
    assert ranks(description)["leave out ended"] < ranks(description)["aggregate rows"]


def test_the_text_says_what_a_store_is_made_of() -> None:
    assert (
        text(describe(WORD_COUNT))
        == """\
Topology: word-count

  Source  lines          stream                 text string

  lines
    ▸ read records        what cannot be used goes to lines-invalid
    ▸ make rows           Return a row for each distinct word of a line: `at, word string, times bigint`.
    ▸ aggregate rows      by word: count (Count)
    ▸ merge seed          the rows that the generation began with
    ▸ counts              compacted, by word

  Store   counts-store   a row for each word, a partition's active and standby instances

  Interactive queries    rows, over HTTP at any instance
"""
    )

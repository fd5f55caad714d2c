"""The description is of the query that runs, and its picture can be read."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

from runtime.description import Description
from tests.drivers import topology as drivers_topology
from tests.drivers.descriptions import check_flows, check_mermaid, check_picture, check_text
from tests.drivers.topology import Score, TopologyDriver
from topology.leaderboard.description import NODES, WITH_PERIODS, described

SEED = "boards.seed"
EACH = pytest.mark.parametrize(
    "description",
    [
        pytest.param(described(ranks=ranks, periods=periods), id=f"ranks {ranks}, periods {periods}")
        for ranks in (False, True)
        for periods in (False, True)
    ],
)


def test_the_steps_are_what_is_called_when_a_query_is_made_in_their_order(
    driver: Callable[..., TopologyDriver], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = list(dict.fromkeys(node.function for node in NODES if node.function))
    called: list[str] = []
    for step in steps:
        note_calls(step, called, monkeypatch)
    boards = driver().boards([Score(9, 1)])
    called.clear()
    driver(floors={1: 5.0}, seed=driver().seed_of(boards)).query([])
    # One function joins both tables.
    assert [node.name for node in NODES if node.function == "query.join_tables"] == [
        "left join players",
        "left join products",
    ]
    # The seed is made before the query that it is merged in.
    assert sorted(called) == sorted(steps)
    assert called[0] == SEED
    assert called[1:] == [step for step in steps if step != SEED]


def note_calls(step: str, called: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have calls of a function, named as in the description, noted wherever it is called from."""
    module, *names = step.split(".")
    of: Any = importlib.import_module(f"topology.leaderboard.{module}")
    for name in names[:-1]:
        of = getattr(of, name)
    function = getattr(of, names[-1])

    def noting(*arguments: Any, **others: Any) -> Any:
        called.append(step)
        return function(*arguments, **others)

    monkeypatch.setattr(of, names[-1], noting)
    if len(names) == 1 and hasattr(drivers_topology, names[0]):
        monkeypatch.setattr(drivers_topology, names[0], noting)


def test_with_periods_one_step_tells_which_boards_an_event_can_reach() -> None:
    functions = [node.function for node in WITH_PERIODS.nodes]
    assert "query.above_floor" not in functions
    assert functions.index("period_query.narrowed") < functions.index("places.Places.aggregates")
    sinks = {to for source, to in WITH_PERIODS.flows if source == "merge seed"}
    assert sinks == {"high-scores", "period-boards"}, "one query writes both"


@EACH
def test_every_flow_leads_on_between_nodes_that_exist(description: Description) -> None:
    check_flows(description)


@EACH
def test_the_text_names_every_node(description: Description) -> None:
    check_text(description)


@EACH
def test_mermaid_has_every_node_once_and_every_flow(description: Description) -> None:
    check_mermaid(description)


@EACH
@pytest.mark.parametrize("across", [True, False])
def test_the_picture_has_every_node_and_no_two_boxes_meet(description: Description, across: bool) -> None:
    check_picture(description, across=across)

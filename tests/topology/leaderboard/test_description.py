"""The description is of the query that runs, and its picture can be read."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.drivers import topology as drivers_topology
from tests.drivers.descriptions import check_flows, check_mermaid, check_picture, check_text
from tests.drivers.topology import Score, TopologyDriver
from topology.leaderboard.description import DESCRIPTION, NODES

SEED = "boards.seed"


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


def test_every_flow_leads_on_between_nodes_that_exist() -> None:
    check_flows(DESCRIPTION)


def test_the_text_names_every_node() -> None:
    check_text(DESCRIPTION)


def test_mermaid_has_every_node_once_and_every_flow() -> None:
    check_mermaid(DESCRIPTION)


@pytest.mark.parametrize("across", [True, False])
def test_the_picture_has_every_node_and_no_two_boxes_meet(across: bool) -> None:
    check_picture(DESCRIPTION, across=across)

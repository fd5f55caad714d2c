"""What benchmarks say is what they measured, and the boards that they wait for are the right ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.figures import Figure, markdown, of_runs
from benchmarks.freshness import sent_at_any_moment
from benchmarks.load import Best, Load, sent_at_a_rate
from benchmarks.suite import BENCHMARKS, BY_DEFAULT
from benchmarks.wrk import Reads, wrk
from tests.drivers.reference import Reference

SAID_BY_WRK = """\
Running 8s test @ http://127.0.0.1:7000/leaderboard/1
  1 threads and 32 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.02ms  500.50us   1.20s    99.00%
    Req/Sec    30.85k     1.00k   32.00k    50.00%
  Latency Distribution
     50%  750.00us
     75%    1.10ms
     90%    1.50ms
     99%    2.40ms
  246792 requests in 8.00s, 100.00MB read
Requests/sec:  30849.12
Transfer/sec:     12.50MB
"""


@pytest.fixture
def says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a program says that is found in the place of wrk."""
    said = tmp_path / "said"
    program = tmp_path / "wrk"
    program.write_text(f"#!/bin/sh\nexec cat {said}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return said


def test_figures_of_several_runs_are_one_with_the_values_of_all() -> None:
    runs = [[Figure("start", "s", [seconds]), Figure("memory", "MB", [1_200.4], 0)] for seconds in (3.0, 1.0, 2.0)]
    start, memory = of_runs(runs)
    assert start == Figure("start", "s", [3.0, 1.0, 2.0])
    assert str(start) == "2.0 s (1.0 to 3.0, 3)"
    assert markdown([memory]).splitlines()[-1] == "| memory | 1,200 MB (1,200 to 1,200, 3) |"


def test_runs_with_other_figures_are_no_runs_of_the_same() -> None:
    with pytest.raises(ValueError, match="zip"):
        of_runs([[Figure("start", "s", [1.0])], []])


def test_what_needs_maven_is_run_when_it_is_named_and_else_not() -> None:
    assert set(BENCHMARKS) - set(BY_DEFAULT) == {"peer"}


def test_reads_and_latencies_are_those_of_wrk(says: Path) -> None:
    says.write_text(SAID_BY_WRK)
    assert wrk("http://127.0.0.1:1", {}, seconds=8) == Reads(30_849.12, 0.75, 2.4)


@pytest.mark.parametrize("wrong", ["  Non-2xx or 3xx responses: 7\n", "  Socket errors: connect 0, read 1\n"])
def test_reads_that_failed_are_no_figure(says: Path, wrong: str) -> None:
    says.write_text(SAID_BY_WRK + wrong)
    with pytest.raises(RuntimeError, match=wrong.strip().partition(":")[0]):
        wrk("http://127.0.0.1:1", {}, seconds=8)


@pytest.mark.parametrize("places", [1, 3])
def test_the_boards_that_a_load_makes_are_those_of_the_reference(places: int) -> None:
    load = Load(players=50, products=20)
    reference = Reference(
        {player: f"Player {player}" for player in range(1, 51)},
        {product: f"Game {product}" for product in range(1, 21)},
    )
    whole = Best(places)
    for part in range(2):
        best = Best(places)
        for chunk in load.scores(3_000, part):
            best.add(chunk)
            # As it stands in the topic.
            events = [json.loads(value) for value in chunk.values()]
            reference.add((event["score"], event["player_id"], event["product_id"]) for event in events)
        whole.merge(best)
    assert whole.boards() == reference.boards(places)


def test_what_was_sent_at_a_rate_is_known_by_its_number_alone() -> None:
    load = Load(players=50, products=20)
    first = [value for chunk in sent_at_a_rate(load, 25_000) for value in chunk.values()]
    more = [value for chunk in sent_at_a_rate(load, 45_000) for value in chunk.values()]
    assert (len(first), len(more)) == (25_000, 45_000)
    assert more[:25_000] == first


@pytest.mark.parametrize(
    ("tries_ms", "kept_back_ms"),
    [
        ([], []),
        ([5.0, 9.0], []),
        ([10.0], []),
        # A score that is sent when the wait is all but over takes as long as any.
        ([19.0], []),
        ([20.0], [10.0]),
        ([45.0], [35.0, 25.0, 15.0]),
        ([5.0, 30.0, 5.0, 25.0], [20.0, 10.0, 15.0]),
    ],
)
def test_a_long_try_stands_for_those_that_it_kept_back(
    tries_ms: Sequence[float], kept_back_ms: Sequence[float]
) -> None:
    assert sent_at_any_moment(tries_ms, period_ms=10.0) == [*tries_ms, *kept_back_ms]

"""Faults: a world for each, with a seed that is said and can be set, and a table at the end."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from _pytest.terminal import TerminalReporter

from tests.drivers.faults_world import World

MakeWorld = Callable[..., World]

SEED_VARIABLE = "FAULTS_SEED"


@pytest.fixture
def seed(record_property: Callable[[str, object], None]) -> int:
    """The seed of this test's events: another one each time, unless the environment sets it."""
    seed = int(os.environ.get(SEED_VARIABLE) or random.SystemRandom().randrange(1_000_000))
    record_property("seed", seed)
    return seed


@pytest.fixture
def world(tmp_path: Path, seed: int, record_property: Callable[[str, object], None]) -> Iterator[MakeWorld]:
    """Return what makes the test's world: a started one, ended after the test."""
    with ExitStack() as opened:

        def make(**options: Any) -> World:
            return opened.enter_context(World(tmp_path, seed, partial(record_property, "note"), **options))

        yield make


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say the seed in what is printed of a failure."""
    report = yield
    seed = dict(report.user_properties).get("seed")
    if report.failed and seed is not None:
        report.sections.append(("seed", f"{SEED_VARIABLE}={seed} sends the same events again"))
    return report


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print a row for each fault."""
    reports = [each for key in ("passed", "failed") for each in terminalreporter.getreports(key)]
    faults = [each for each in reports if each.when == "call" and "faults" in each.keywords]
    if not faults:
        return
    terminalreporter.section("faults")
    width = max(len(_name(each)) for each in faults)
    for each in faults:
        notes = "; ".join(str(text) for key, text in each.user_properties if key == "note")
        seed = dict(each.user_properties).get("seed", "-")
        terminalreporter.write_line(
            f"{_name(each):{width}}  {each.outcome:6}  {each.duration:5.0f} s  seed {seed:>6}  {notes}"
        )
    terminalreporter.write_line(f"{len(faults)} faults")


def _name(report: pytest.TestReport) -> str:
    return report.nodeid.partition("::test_")[2].replace("_", " ")

"""The demo, as a newcomer runs it; in an environment of another Spark it is run in `test_surroundings`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.topologies import OTHERS
from tests.drivers.known_answers import ANSWERS, BOARD_1
from tests.drivers.ports import free_port
from tests.drivers.processes import descendants, is_java, running
from tests.waiting import UNHURRIED_S, wait_until


def demo(*options: str) -> subprocess.Popen[str]:
    """Start the demo."""
    command = [sys.executable, "-m", "app.cli", "demo", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory for temporary files of the demo's own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield tmp_path
    monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.mark.parametrize(
    "name", ["word-count", *(pytest.param(name, marks=pytest.mark.system) for name in OTHERS if name != "word-count")]
)
def test_once_prints_the_rows_of_every_store_of_another_topology(temporary: Path, name: str) -> None:
    process = demo("--once", "--port", str(free_port()), "--topology", name)
    output, log = process.communicate(timeout=UNHURRIED_S)
    assert process.returncode == 0, log
    assert json.loads(output) == ANSWERS[name]
    assert list(temporary.iterdir()) == []


@pytest.mark.system
def test_it_serves_the_tutorials_requests_until_a_signal(temporary: Path) -> None:
    port = free_port()
    process = demo("--port", str(port))
    assert process.stdout is not None
    try:
        url = f"http://127.0.0.1:{port}"
        said = ""
        while f"{url}/leaderboard" not in said:
            line = process.stdout.readline()
            assert line, "the demo ended"
            said += line
        board = httpx.get(f"{url}/leaderboard/1").json()
        assert [(entry["playerName"], entry["playerId"], entry["score"]) for entry in board] == BOARD_1
        assert list(httpx.get(f"{url}/leaderboard/1/5").json()) == ["1"]
        assert httpx.get(f"{url}/leaderboard/count").json() == 2
        children = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert running(children) == []
        assert list(temporary.iterdir()) == []
    finally:
        process.kill()
        process.communicate()


@pytest.mark.usefixtures("at_a_terminal")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_it_starts_leaves_nothing(temporary: Path, number: signal.Signals) -> None:
    process = demo("--port", str(free_port()))
    try:
        wait_until(lambda: any(temporary.glob("leaderboard-demo-*/kafka/broker.log")), "the broker is started")
        children = descendants(process.pid)
        # As when a terminal closes: the shell sends it, and then the system.
        process.send_signal(number)
        process.send_signal(number)
        assert process.wait(60) == 1
        wait_until(lambda: running(children) == [], "nothing that it started runs", deadline_s=60)
        assert list(temporary.iterdir()) == []
    finally:
        process.kill()
        process.communicate()


def test_once_that_is_ended_before_it_has_printed_the_boards_has_failed(temporary: Path) -> None:
    process = demo("--once", "--port", str(free_port()))
    assert process.stderr is not None
    try:
        assert any("listening on" in line for line in process.stderr), "the demo ended"
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=UNHURRIED_S)
        assert (process.returncode, output) == (1, "")
        assert list(temporary.iterdir()) == []
    finally:
        process.kill()
        process.communicate()


def test_killing_it_ends_its_broker_and_spark(temporary: Path) -> None:
    process = demo("--port", str(free_port()))
    try:
        wait_until(
            lambda: sum(map(is_java, running(descendants(process.pid)))) == 2,
            "broker and Spark run",
        )
        children = descendants(process.pid)
        process.kill()
        wait_until(lambda: running(children) == [], "nothing that it started runs", deadline_s=60)
    finally:
        process.kill()
        process.communicate()

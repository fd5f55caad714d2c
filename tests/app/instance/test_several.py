"""The process that starts instances: what it does when they end, with programs in their place that end as told."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

import pytest

from app.instance import several
from app.instance.shares import Share, shares_of
from app.settings import Settings
from tests.drivers.eventually import eventually
from tests.drivers.ports import free_ports

PROGRAM = """
import os, signal, socket, sys
from pathlib import Path

number = int(os.environ["LEADERBOARD_PORT"]) - int(os.environ["LEADERBOARD_SHARED_PORT"])
log = Path(sys.argv[1])
print(number, "began", file=log.open("a"))
runs = log.read_text().count(f"{number} began")
if (number, runs) in eval(sys.argv[2]):
    sys.exit(eval(sys.argv[2])[number, runs])
server = socket.create_server(("127.0.0.1", int(os.environ["LEADERBOARD_PORT"])))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
sys.stdin.read()
"""


class Run:
    """A run of two instances.

    Args:
        directory: where their programs write what they do.
        statuses: by number of instance and run, the exit status of those that end by themselves.
        program: what they run.
    """

    def __init__(self, directory: Path, statuses: dict[tuple[int, int], int], program: str = PROGRAM) -> None:
        self._log = directory / "log"
        self._command = [sys.executable, "-c", program, str(self._log), repr(statuses)]
        settings = Settings(host="127.0.0.1", port=free_ports(3), state_dir=directory)
        self._shares: list[Share] = shares_of(settings, 2, {})

    def began(self) -> list[str]:
        """Return the numbers of the instances that have begun, in order."""
        return [line.split()[0] for line in self._log.read_text().splitlines()] if self._log.exists() else []

    def supervise(self) -> asyncio.Task[int]:
        """Begin."""
        return asyncio.create_task(several._supervise(self._shares, self._command))  # noqa: SLF001


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """What a signal would set."""
    event = asyncio.Event()
    monkeypatch.setattr(several, "stop_signal", lambda: event)
    return event


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several, "next_pause_s", lambda *_: 0.01)


async def test_what_the_first_cannot_run_with_is_told_by_no_other(tmp_path: Path, stop: asyncio.Event) -> None:
    run = Run(tmp_path, {(1, 1): 2})
    assert await run.supervise() == 2
    assert run.began() == ["1"]


async def test_what_another_cannot_run_with_ends_all(tmp_path: Path, stop: asyncio.Event) -> None:
    run = Run(tmp_path, {(2, 1): 2})
    assert await run.supervise() == 2
    assert run.began() == ["1", "2"]


@pytest.mark.usefixtures("_soon")
async def test_one_that_ends_is_started_again_whatever_its_status_is_later(
    tmp_path: Path, stop: asyncio.Event, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run(tmp_path, {(1, 1): 1, (1, 2): 2, (1, 3): 0})
    running = run.supervise()
    await eventually(lambda: sorted(run.began()) == ["1", "1", "1", "1", "2"])
    stop.set()
    assert await running == 0
    said = [line for line in caplog.messages if "again" in line]
    assert [line.partition(" has ended with ")[2] for line in said] == [
        f"status {status}; it is started again in 0.01 s" for status in (1, 2, 0)
    ]


async def test_a_signal_ends_the_wait_for_one_that_is_to_be_started_again(
    tmp_path: Path, stop: asyncio.Event, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(several, "next_pause_s", lambda *_: 1000.0)
    run = Run(tmp_path, {(1, 1): 1})
    running = run.supervise()
    await eventually(lambda: any("again in 1000 s" in line for line in caplog.messages) and "2" in run.began())
    stop.set()
    assert await running == 0


@pytest.mark.usefixtures("_soon")
async def test_a_system_that_can_start_none_for_now_is_tried_again(
    tmp_path: Path, stop: asyncio.Event, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start, short = asyncio.create_subprocess_exec, [True]

    async def short_once(*command: str, **how: object) -> asyncio.subprocess.Process:
        if short:
            short.pop()
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return await start(*command, **how)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(asyncio, "create_subprocess_exec", short_once)
    run = Run(tmp_path, {})
    with caplog.at_level(logging.ERROR):
        running = run.supervise()
        await eventually(lambda: sorted(run.began()) == ["1", "2"])
        stop.set()
        assert await running == 0
    assert any(line.endswith("cannot be started: Resource temporarily unavailable") for line in caplog.messages)


async def test_one_that_does_not_end_is_killed(
    tmp_path: Path, stop: asyncio.Event, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(several, "_TERM_TO_KILL_S", 0.2)
    run = Run(tmp_path, {}, program=PROGRAM.replace("sys.exit(0)", "None"))
    running = run.supervise()
    await eventually(lambda: "2" in run.began())
    stop.set()
    assert await running == 0
    assert sum("has not ended for 0.2 s and is killed" in line for line in caplog.messages) >= 1

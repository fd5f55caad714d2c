"""A guarded process ends with its parent, and tells how it ended."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from app.java.guarded_process import GuardedProcess
from tests.waiting import wait_until

STUBBORN = "trap '' TERM; echo up; while :; do sleep 1; done"


def _says_up(log: Path) -> bool:
    return log.exists() and "up" in log.read_text()


@pytest.mark.parametrize(("command", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 128 + 9)])
def test_its_exit_status_is_told(tmp_path: Path, command: str, status: int) -> None:
    process = GuardedProcess(["sh", "-c", command], tmp_path / "log")
    wait_until(lambda: process.returncode is not None, "the process ends")
    assert process.returncode == status
    process.stop()


def test_stop_asks_it_to_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = GuardedProcess(["sh", "-c", "trap 'echo asked; exit 3' TERM; echo up; while :; do sleep 0.1; done"], log)
    wait_until(lambda: _says_up(log), "it runs")
    process.stop()
    assert "asked" in log.read_text()
    assert process.returncode == 3


def test_one_that_does_not_end_is_killed(tmp_path: Path) -> None:
    process = GuardedProcess(["sh", "-c", STUBBORN], tmp_path / "log", term_to_kill_s=1)
    wait_until(lambda: _says_up(tmp_path / "log"), "it runs")
    process.stop()
    assert process.returncode == 128 + signal.SIGKILL


def _handles(pid: int, number: signal.Signals) -> bool:
    """Return whether a process has set what it does on a signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    (caught,) = (int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(caught >> (number - 1) & 1)


def test_a_signal_to_the_guard_alone_reaches_the_process(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = GuardedProcess(["sh", "-c", "trap 'exit 4' TERM; echo $PPID; echo up; while :; do sleep 0.1; done"], log)
    wait_until(lambda: _says_up(log), "it runs")
    guard = psutil.Process(int(log.read_text().split()[0]))
    # It starts the process first.
    wait_until(lambda: _handles(guard.pid, signal.SIGTERM), "the guard passes signals on")
    guard.terminate()
    wait_until(lambda: process.returncode is not None, "the process ends")
    assert process.returncode == 4
    process.stop()


PARENT = """
import sys, time
from pathlib import Path
from app.java.guarded_process import GuardedProcess
process = GuardedProcess(["sh", "-c", sys.argv[1]], Path(sys.argv[2]), term_to_kill_s=1)
print(flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("command", ["echo $$; exec sleep 60", f"echo $$; {STUBBORN}"], ids=["obedient", "stubborn"])
def test_it_ends_when_its_parent_is_killed(tmp_path: Path, command: str) -> None:
    log = tmp_path / "log"
    with subprocess.Popen([sys.executable, "-c", PARENT, command, log], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        wait_until(lambda: log.read_text().strip() != "", "the process runs")
        family = psutil.Process(parent.pid).children(recursive=True)
        parent.kill()
    assert family
    wait_until(lambda: not any(process.is_running() for process in family), "all of them end", deadline_s=5)

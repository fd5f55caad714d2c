"""Signals: each ends the program in order, once, and the end of the terminal only where nobody has it ignored."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.waiting import UNHURRIED_S

TIDY = """
import os, signal, sys
signal.signal(signal.SIGHUP, getattr(signal, sys.argv[1]))
from app.signals import exit_on_signals

exit_on_signals()
try:
    os.kill(os.getpid(), signal.SIGHUP)
    print("went on")
finally:
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        os.kill(os.getpid(), number)
    print("tidy")
"""
WAITING = """
import os, signal, sys, uvloop
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from app.signals import stop_signal

async def wait():
    stop = stop_signal()
    os.kill(os.getpid(), int(sys.argv[1]))
    os.kill(os.getpid(), int(sys.argv[1]))
    await stop.wait()
    print("tidy")

uvloop.run(wait())
"""
EXITS = """
import time
from app.signals import exit_on_signals

exit_on_signals()
try:
    print("runs", flush=True)
    time.sleep(60)
finally:
    print("tidy")
"""
STOPS = """
import asyncio, uvloop
from app.signals import stop_signal

async def wait():
    stop = stop_signal()
    print("runs", flush=True)
    await stop.wait()

uvloop.run(wait())
print("tidy")
"""
INPUT = """
import asyncio, sys
from app.signals import stop_at_end_of_input

async def wait():
    stop = asyncio.Event()
    stop_at_end_of_input(stop)
    print("waits", flush=True)
    await stop.wait()
    print("tidy")

asyncio.run(wait())
"""


def run(program: str, argument: str) -> tuple[int, str]:
    """Run a program; return its exit status and output."""
    command = [sys.executable, "-c", program, argument]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=UNHURRIED_S, check=False)
    return done.returncode, done.stdout


def test_clearing_up_is_not_interrupted() -> None:
    assert run(TIDY, "SIG_DFL") == (1, "tidy\n")


def test_what_nohup_started_goes_on_when_its_terminal_ends() -> None:
    assert run(TIDY, "SIG_IGN")[1].startswith("went on\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_waits_for_a_signal_ends_in_order(number: signal.Signals) -> None:
    assert run(WAITING, str(number.value)) == (0, "tidy\n")


@pytest.mark.parametrize(("program", "status"), [(EXITS, 1), (STOPS, 0)])
def test_signals_that_go_on_until_it_has_ended_interrupt_nothing(program: str, status: int) -> None:
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        # The moments that count are the last ones, at each of which a signal would have to come.
        while process.poll() is None:
            process.send_signal(signal.SIGTERM)
        assert (process.returncode, process.stdout.read()) == (status, "tidy\n")


def test_the_end_of_its_input_ends_what_waits_for_it_and_what_is_said_there_does_not() -> None:
    command = [sys.executable, "-c", INPUT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
        process.stdin.write("go on\n")
        process.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)
        process.stdin.close()
        assert process.wait(UNHURRIED_S) == 0
        assert process.stdout.read() == "tidy\n"

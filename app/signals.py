"""The signals that end a program in order: what it has started ends, what it keeps for the time being is removed.

The end of the terminal (SIGHUP) is one of them, unless it is ignored already, as `nohup` has it.
"""

import asyncio
import atexit
import os
import signal
import sys
from collections.abc import Callable

_AT_THE_TERMINAL = signal.SIGINT
_SOME_BYTES = 1024


def exit_on_signals() -> None:
    """Let the first SIGTERM or SIGHUP raise SystemExit; no further one interrupts the clearing up."""
    for number in _from_outside():
        signal.signal(number, _exit)


def stop_signal() -> asyncio.Event:
    """Return an event that SIGTERM, SIGINT and SIGHUP set."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    # A handler of the loop's would go with the loop, and the next signal would end the program amid its clearing up.
    on_signals(lambda: loop.is_closed() or loop.call_soon_threadsafe(stop.set))
    return stop


def stop_at_end_of_input(stop: asyncio.Event) -> None:
    """Set `stop` at the end of standard input, a pipe: whoever holds its other end is gone, however that came."""
    loop, standard_input = asyncio.get_running_loop(), sys.stdin.fileno()

    def look() -> None:
        if not os.read(standard_input, _SOME_BYTES):
            loop.remove_reader(standard_input)
            stop.set()

    loop.add_reader(standard_input, look)


def on_signals(do: Callable[[], object]) -> None:
    """Let SIGTERM, SIGINT and SIGHUP do this, and not end the program."""
    numbers = (*_from_outside(), _AT_THE_TERMINAL)
    for number in numbers:
        signal.signal(number, lambda *_: do())
    # Python itself takes its handlers away before the program has ended.
    atexit.register(signal.pthread_sigmask, signal.SIG_BLOCK, numbers)


def _from_outside() -> list[signal.Signals]:
    hung_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGTERM, *hung_up]


def _exit(*_: object) -> None:
    # Not SIG_IGN, which processes that are started from here would inherit.
    on_signals(lambda: None)
    sys.exit(1)

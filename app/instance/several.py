"""Several instances on one machine: this process starts them, starts again what ends, and ends them in order.

Each is a `leaderboard serve` of its own, since one Python process answers on one core. It shares the public port with
the others and nothing else. It ends in order when this process is gone: its standard input is a pipe whose other end
only this process holds.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Sequence
from contextlib import suppress

from app.instance.shares import Share, how_it_ended, next_pause_s, shares_of
from app.java.jars import ensure_jars
from app.server.ports import held, listening
from app.settings import Settings
from app.signals import stop_signal

logger = logging.getLogger(__name__)

_CANNOT_RUN = 2
"""The exit status of a command when something must be changed first."""
_FAILED = 1
_LISTENS_EVERY_S = 0.05
_TERM_TO_KILL_S = 30.0
_OWN_PORTS = (
    "each instance has a port of its own, those after LEADERBOARD_PORT: choose another, or end what listens there"
)


def run_several(settings: Settings, count: int) -> int:
    """Run instances until SIGTERM, SIGINT or SIGHUP; return the exit status.

    Args:
        settings: of all of them.
        count: how many.

    Raises:
        Fix: they cannot run like this; the message says what to change.
    """
    shares = shares_of(settings, count, os.environ)
    with held(settings.host, settings.port):
        for share in shares:
            listening(share.host, share.port, _OWN_PORTS).close()
        # Once, and not by each of them at the same time.
        ensure_jars()
        return asyncio.run(_supervise(shares, [*_program(), "serve", "--ends-with-input"]))


async def _supervise(shares: Sequence[Share], command: Sequence[str]) -> int:
    stop = stop_signal()
    first, *others = (_Instance(share, command, stop) for share in shares)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(first.keep_running())
        # What all of them cannot run with is said by one.
        await first.begun()
        for instance in others:
            tasks.create_task(instance.keep_running())
    return _CANNOT_RUN if any(instance.cannot_run for instance in (first, *others)) else 0


class _Instance:
    """One of the instances: a process, and another one when it has ended.

    Args:
        share: what it is.
        command: what runs it.
        stop: set when all have to end; set here when this one cannot run.
    """

    def __init__(self, share: Share, command: Sequence[str], stop: asyncio.Event) -> None:
        self.cannot_run = False
        self._share = share
        self._command = command
        self._stop = stop
        self._has_ended = False

    async def keep_running(self) -> None:
        """Run a process, and another one after a pause when it ends by itself, until `stop`."""
        loop, pause_s = asyncio.get_running_loop(), 0.0
        while not self._stop.is_set():
            began_s = loop.time()
            status = await self._run()
            if self._stop.is_set():
                return
            if status == _CANNOT_RUN and not self._has_ended:
                self.cannot_run = True
                self._stop.set()
                return
            self._has_ended = True
            pause_s = next_pause_s(pause_s, loop.time() - began_s)
            logger.warning("%s %s; it is started again in %g s", self._share, how_it_ended(status), pause_s)
            await _within(self._stop.wait(), pause_s)

    async def begun(self) -> None:
        """Return when the first process listens, or has ended."""
        while not (self._has_ended or self._stop.is_set()):
            try:
                _, writer = await asyncio.open_connection(self._share.host, self._share.port)
            except OSError:
                await asyncio.sleep(_LISTENS_EVERY_S)
            else:
                writer.close()
                return

    async def _run(self) -> int:
        """Run a process to its end, which `stop` asks it for, and return its exit status."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                env=self._share.environment,
                stdin=asyncio.subprocess.PIPE,
                # Ctrl-C in a terminal is for this process, which passes it on.
                start_new_session=True,
            )
        except OSError as error:
            # The system is short of memory or processes, and the others need what there is of both.
            logger.error("%s cannot be started: %s", self._share, error.strerror)
            return _FAILED
        logger.info("%s is process %d", self._share, process.pid)
        stop, ended = asyncio.create_task(self._stop.wait()), asyncio.create_task(process.wait())
        await asyncio.wait([stop, ended], return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if not ended.done():
            with suppress(ProcessLookupError):
                process.terminate()
            if not await _within(asyncio.shield(ended), _TERM_TO_KILL_S):
                logger.error("%s has not ended for %g s and is killed", self._share, _TERM_TO_KILL_S)
                process.kill()
        return await ended


async def _within(what: Awaitable[object], seconds: float) -> bool:
    """Wait for something, but not for longer; return whether it came."""
    try:
        async with asyncio.timeout(seconds):
            await what
    except TimeoutError:
        return False
    return True


def _program() -> list[str]:
    """Return what runs this program, as it was started: from the same installation, without its arguments."""
    return [sys.executable, *sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 1]]

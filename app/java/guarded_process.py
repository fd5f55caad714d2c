"""A child process that ends with its parent, also when that is killed with SIGKILL.

A small shell stands between the two. Its standard input is a pipe whose other end only the parent holds: the end of
that file means that the parent is gone or wants the child to stop, so no signal is lost and no polling is needed.
"""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

TERM_TO_KILL_S = 10

# Its arguments: the seconds from SIGTERM to SIGKILL, then the command.
# 1. The child starts without the pipe. 2. A watcher waits for the pipe's end, asks the child to stop and, when it does
# not, kills it. 3. The shell waits for the child (`wait` returns early on a trapped signal) and passes its status on.
_GUARD = """
exec 3<&0
patience=$1; shift
"$@" </dev/null 3<&- & child=$!
{
  read -r _ <&3
  kill -TERM $child
  n=0
  while [ $n -lt "$patience" ]; do sleep 1; kill -0 $child || exit; n=$((n + 1)); done
  kill -KILL $child
} 2>/dev/null & watcher=$!
exec 3<&-
trap 'kill -TERM $child' TERM INT HUP
wait $child; status=$?
while kill -0 $child 2>/dev/null; do wait $child; status=$?; done
kill $watcher 2>/dev/null
exit $status
"""


class GuardedProcess:
    """A running child process behind its guard, in a session of its own so that Ctrl-C does not reach it.

    Args:
        command: program and arguments.
        log: the file that its output is appended to.
        keep_open: file descriptors that the child inherits.
        term_to_kill_s: how long it may take to end when it is asked to, in whole seconds.
        environment: its own; by default that of this process.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        keep_open: Sequence[int] = (),
        term_to_kill_s: int = TERM_TO_KILL_S,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._term_to_kill_s = term_to_kill_s
        with log.open("ab") as output:
            self._guard = subprocess.Popen(
                ["/bin/sh", "-c", _GUARD, "guard", str(term_to_kill_s), *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=keep_open,
                start_new_session=True,
                env=environment,
            )

    @property
    def returncode(self) -> int | None:
        """The exit status, or None while the process runs."""
        return self._guard.poll()

    def stop(self) -> None:
        """Ask the process to end, wait until it has, and kill it when that takes too long."""
        self._close_pipe()
        try:
            self._guard.wait(self._term_to_kill_s + 3)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill the process and its guard with SIGKILL and wait until both are gone."""
        if self._guard.returncode is None:
            os.killpg(self._guard.pid, signal.SIGKILL)
        self._guard.wait()
        self._close_pipe()

    def _close_pipe(self) -> None:
        if self._guard.stdin is not None:
            self._guard.stdin.close()

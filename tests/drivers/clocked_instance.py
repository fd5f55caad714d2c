"""An instance with boards of periods whose clock stands in a file, in a process of its own.

python -m tests.drivers.clocked_instance FILE
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from app.instance.service import run_service
from app.logs import set_up_logging
from app.settings import read_settings
from app.topologies import load_application
from tests.drivers.instance import Instance


class Clock:
    """Wall-clock time as a file says it, for several processes.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def set(self, now_ms: int) -> None:
        """Set it, at once for all who look."""
        written = self.path.with_suffix(".new")
        written.write_text(str(now_ms))
        written.rename(self.path)

    def now_ms(self) -> int:
        """Return the time in milliseconds from 1970."""
        return int(self.path.read_text())


class ClockedInstance(Instance):
    """Such an instance, seen from a test.

    Args:
        directory: where it keeps its state and its log.
        bootstrap_servers: Kafka.
        clock: what it looks at.
        settings: see `Instance`.
    """

    def __init__(self, directory: Path, bootstrap_servers: str, clock: Clock, **settings: object) -> None:
        super().__init__(directory, bootstrap_servers, **{"PERIODS": "all,day,week,month", **settings})
        self._clock = clock

    def command(self) -> Sequence[str]:
        """Return what runs this module."""
        return [sys.executable, "-m", "tests.drivers.clocked_instance", str(self._clock.path)]


def main() -> None:
    """Run the instance that the environment and the command line say."""
    settings = read_settings()
    set_up_logging(settings.log_format, settings.log_level, "")
    periods = settings.board_periods
    assert periods is not None, "the clock is that of periods"
    clocked = replace(periods, now_ms=Clock(Path(sys.argv[1])).now_ms)
    application = load_application(
        settings.topology, settings.routes, depth=settings.depth, ranks=settings.ranks, periods=clocked
    )
    run_service(settings, application)


if __name__ == "__main__":
    main()

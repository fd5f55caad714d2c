"""What a large table of players costs: start, memory, and a snapshot for new players.

    .venv/bin/python -m benchmarks.large_table [PLAYERS]

A broker and one instance on this machine. The players are there before the instance starts; then it is started again on
its state; then a player is added who has a score already, which makes the stream take a snapshot of the whole table.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import psutil

from app.broker import Broker
from tests.drivers.instance import Instance
from tests.drivers.processes import descendants
from tests.drivers.producer import Inputs
from tests.waiting import wait_until

PLAYERS = 1_000_000
AT_ONCE = 50_000
SHOWN_WITHIN_S = 600.0
REFRESH_S = 1


def main() -> None:
    """Print a line for each figure."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else PLAYERS
    with tempfile.TemporaryDirectory() as directory, Broker(Path(directory) / "kafka") as broker:
        inputs = Inputs(broker.connection)
        inputs.create_topics()
        for first in range(1, count + 1, AT_ONCE):
            inputs.players({player: f"Player {player}" for player in range(first, min(first + AT_ONCE, count + 1))})
        inputs.products({1: "Super Smash Bros"})
        inputs.scores([(10.0, count, 1)])
        instance = Instance(Path(directory) / "instance", broker.bootstrap_servers, TABLES_REFRESH_S=REFRESH_S)
        for how in ("from nothing", "on its state"):
            began_s = time.monotonic()
            with instance:
                shown(instance, 10.0, since_s=began_s, what=f"{count:,} players, {how}: first board")
                instance.wait_for_real_time(SHOWN_WITHIN_S)
                print(f"{how}: real time after {time.monotonic() - began_s:.1f} s")
                memory(instance)
                if how == "on its state":
                    late_player(inputs, instance, count + 1)


def late_player(inputs: Inputs, instance: Instance, player: int) -> None:
    """Add a player after its score, and time the snapshot that follows."""
    inputs.scores([(99.0, player, 1)])
    inputs.players({player: "Late"})
    shown(instance, 99.0, since_s=time.monotonic(), what="a late player's score")
    began_s = time.monotonic()
    instance.wait_for_log("refreshing ▸ running", SHOWN_WITHIN_S)
    print(f"the snapshot for it is in use after {time.monotonic() - began_s:.1f} s (batches of 5 s)")
    memory(instance)


def shown(instance: Instance, score: float, *, since_s: float, what: str) -> None:
    """Print how long it takes until a score is shown."""
    wait_until(lambda: best(instance) == score, SHOWN_WITHIN_S, f"{score} is shown")
    print(f"{what} after {time.monotonic() - since_s:.1f} s")


def best(instance: Instance) -> float | None:
    """Return the best score of the board, None while there is none."""
    boards = instance.boards()
    return boards["1"][0]["score"] if isinstance(boards, dict) and "1" in boards else None


def memory(instance: Instance) -> None:
    """Print what the processes use."""
    jvm = sum(resident_mib(each) for each in descendants(instance.process.pid))
    own = resident_mib(psutil.Process(instance.process.pid))
    print(f"memory: the instance {own:.0f} MiB, its JVM {jvm:.0f} MiB")


def resident_mib(process: psutil.Process) -> float:
    """Return the resident memory of one process."""
    return float(process.memory_info().rss / 2**20)


if __name__ == "__main__":
    main()

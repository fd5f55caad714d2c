"""Whoever keeps Spark warm to take the stream over, as its log and its processes tell."""

from __future__ import annotations

from tests.drivers.instance import Instance
from tests.drivers.processes import descendants, is_java
from tests.drivers.replicas import Replicas, until

READY = "the stream is ready to take over"
TAKES_OVER = "taking over the stream of"
RUNS = "catching up ▸ running"
STOPPED = "stream: stopping ▸ stopped"


def is_warm(instance: Instance) -> bool:
    """Return whether an instance is a stream standby, and has warmed Spark up since it became one."""
    warm = False
    for line in instance.log().splitlines():
        if READY in line:
            warm = True
        elif TAKES_OVER in line or (" generation " in line and ": active [" in line and "stream standby" not in line):
            warm = False
    return warm


def jvms(instance: Instance) -> int:
    """Return how many JVMs an instance runs."""
    return sum(map(is_java, descendants(instance.process.pid)))


def warm_standby(replicas: Replicas) -> Instance:
    """Return the first stream standby of settled members, as soon as it is warm."""

    def warm() -> list[Instance]:
        return [member for member in replicas.stream_standbys if is_warm(member)]

    until(
        lambda: replicas.stream_is_held() and len(warm()) > 0,
        lambda: f"a stream standby is warm: {[(each.address, each.log()[-3000:]) for each in replicas.members]}",
    )
    return warm()[0]

"""`leaderboard serve --instances N` as an operator runs it: one process, and the instances that it has started."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path

import httpx
import psutil

from tests.drivers.instance import Instance
from tests.drivers.ports import free_ports
from tests.drivers.processes import descendants
from tests.drivers.served_process import ask
from tests.waiting import UNHURRIED_S, wait_until


class Several(Instance):
    """The process; `port` and what asks there are of the port that its instances share.

    Args:
        directory: where they keep state and their log.
        bootstrap_servers: Kafka.
        count: how many instances.
        settings: further settings, without their prefix.
    """

    def __init__(self, directory: Path, bootstrap_servers: str, count: int, **settings: object) -> None:
        super().__init__(directory, bootstrap_servers, PORT=free_ports(count + 1), **settings)
        self.arguments = ("--instances", str(count))
        self.members = [f"127.0.0.1:{self.port + number}" for number in range(1, count + 1)]

    def process_of(self, member: str) -> psutil.Process | None:
        """Return the process of an instance, by its address; None while there is none."""
        found = psutil.Process(self.process.pid).children()
        return next((each for each in found if _advertises(each) == member), None)

    def signal_member(self, member: str, number: signal.Signals) -> None:
        """Send a signal to an instance, and wait until it has ended."""
        process = self.process_of(member)
        assert process is not None
        process.send_signal(number)
        # To its last thread, after which nothing of it listens any more.
        process.wait(UNHURRIED_S)

    def is_ready(self, member: str) -> bool:
        """Return whether an instance is ready."""
        with suppress(httpx.TransportError):
            return ask(member, "/health/ready").status_code == 200
        return False

    def wait_until_ready(self) -> None:
        """Wait until all instances are ready and know of each other."""
        wait_until(
            lambda: all(self.is_ready(each) and self.known(each) == set(self.members) for each in self.members),
            lambda: f"{self.members} are ready: {self.log()[-3000:]}",
            every_s=0.1,
        )

    def known(self, member: str) -> set[str]:
        """Return the addresses of the instances that one knows of."""
        return {f"{host['host']}:{host['port']}" for host in ask(member, "/hosts").json()}

    def stream_holder(self) -> str:
        """Return the address of the instance that runs the stream."""
        hosts = ask(self.members[0], "/hosts").json()
        return next(f"{host['host']}:{host['port']}" for host in hosts if host["runsStream"])

    def tree(self) -> list[psutil.Process]:
        """Return all processes there are: this one, those of its instances, and theirs."""
        return [psutil.Process(self.process.pid), *descendants(self.process.pid)]


def _advertises(process: psutil.Process) -> str | None:
    """Return the address that an instance is told to advertise; one that is just starting or has ended has none."""
    with suppress(psutil.NoSuchProcess):
        return process.environ().get("LEADERBOARD_ADVERTISED")
    return None

"""Several instances as an operator runs them: processes that share one broker and one checkpoint."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import psutil

from tests.drivers.instance import Instance
from tests.drivers.processes import descendants
from tests.waiting import UNHURRIED_S, wait_until

_POLL_S = 0.1


class Replicas:
    """Instances that come and go; a context manager that ends all of them.

    Args:
        directory: where they keep state and logs, and the checkpoint that they share.
        bootstrap_servers: Kafka.
        settings: of all of them, without their prefix.

    Attributes:
        members: those that have been started and not ended.
        checkpoint: the directory of the checkpoint.
    """

    def __init__(self, directory: Path, bootstrap_servers: str, **settings: object) -> None:
        self.members: list[Instance] = []
        self._directory = directory
        self._bootstrap_servers = bootstrap_servers
        self.checkpoint = directory / "checkpoint"
        self._settings = {"CHECKPOINT_URI": self.checkpoint.as_uri(), **settings}
        self._standbys = int(str(settings.get("NUM_STANDBY_REPLICAS", 1)))
        self._names = (f"instance-{number}" for number in itertools.count(1))

    # Come and go

    def make(self, **settings: object) -> Instance:
        """Return another instance, not started and no member yet."""
        return Instance(self._directory / next(self._names), self._bootstrap_servers, **{**self._settings, **settings})

    def add(self, count: int = 1, /, **settings: object) -> list[Instance]:
        """Start more instances, at once, with further settings; returns when they answer over HTTP."""
        added = [self.make(**settings) for _ in range(count)]
        self.members.extend(added)
        with ThreadPoolExecutor(count) as threads:
            list(threads.map(Instance.start, added))
        return added

    def kill(self, instance: Instance) -> None:
        """End one with SIGKILL."""
        instance.kill()
        self.members.remove(instance)

    def terminate(self, instance: Instance) -> None:
        """End one with SIGTERM; returns when it has ended."""
        self.members.remove(instance)
        assert instance.terminate() == 0, instance.log()[-3000:]

    def bring_back(self, instance: Instance) -> None:
        """Start one again that has ended, on its state."""
        self.members.append(instance)
        instance.start()

    @contextmanager
    def frozen(self, instance: Instance, *, whole: bool = True) -> Iterator[None]:
        """Stop one with SIGSTOP for the time of the block.

        Args:
            instance: which.
            whole: with its JVM, as a container is paused; else that runs on.
        """
        processes = [psutil.Process(instance.process.pid), *(descendants(instance.process.pid) if whole else [])]
        for process in processes:
            process.suspend()
        try:
            yield
        finally:
            for process in processes:
                process.resume()

    # What they say

    def hosts(self, instance: Instance) -> dict[str, Any]:
        """Return the map that one goes by: by address, what `/hosts` says of each."""
        return {f"{host['host']}:{host['port']}": host for host in instance.get("/hosts").json()}

    def not_ready(self, instance: Instance) -> str | None:
        """Return why one is not ready, None when it is."""
        answer = instance.get("/health/ready")
        return None if answer.status_code == 200 else str(json.loads(answer.text)["detail"])

    @property
    def stream_holder(self) -> Instance:
        """The member that runs the stream, as the members say."""
        (holder,) = {address for each in self.members for address, host in self.hosts(each).items() if runs(host)}
        return next(member for member in self.members if member.advertised == holder)

    @property
    def others(self) -> list[Instance]:
        """The members that do not run the stream."""
        holder = self.stream_holder
        return [member for member in self.members if member is not holder]

    @property
    def stream_standbys(self) -> list[Instance]:
        """The members that keep Spark warm to take the stream over, as the one with the stream says."""
        hosts = self.hosts(self.stream_holder)
        return [member for member in self.members if hosts[member.advertised]["streamStandby"]]

    def stream_is_held(self) -> bool:
        """Return whether one member runs the stream, the same one as all of them say."""
        holders = [[address for address, host in self.hosts(each).items() if runs(host)] for each in self.members]
        return any(all(each == [member.advertised] for each in holders) for member in self.members)

    # Waiting

    def wait_until_settled(self) -> None:
        """Wait until all members are ready and go by one map, in which they and nobody else have equal shares."""
        what = "the members are settled"
        until(
            self._settled,
            lambda: f"{what}: {[(m.address, self._described(m)) for m in self.members]}",
        )

    def _settled(self) -> bool:
        maps = [self.hosts(member) for member in self.members]
        hosts = list(maps[0].values())
        active = [len(host["active"]) for host in hosts]
        standby = [len(host["standby"]) for host in hosts]
        return (
            all(each == maps[0] for each in maps)
            and maps[0].keys() == {member.advertised for member in self.members}
            and max(active) - min(active) <= 1
            and sum(standby) == min(self._standbys, len(hosts) - 1) * sum(active)
            and sum(map(runs, hosts)) == 1
            and not any(self.not_ready(member) for member in self.members)
        )

    def _described(self, member: Instance) -> object:
        return self.not_ready(member) or self.hosts(member)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.__exit__()


def runs(host: dict[str, Any]) -> bool:
    """Return whether the instance of an entry in `/hosts` runs the stream."""
    return bool(host["runsStream"])


def until(condition: Callable[[], bool], what: Callable[[], str], deadline_s: float = UNHURRIED_S) -> None:
    """Wait for a condition whose every look costs the processes that it looks at."""
    wait_until(condition, what, deadline_s=deadline_s, every_s=_POLL_S)

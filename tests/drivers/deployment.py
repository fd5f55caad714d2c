"""All of it on one machine: a broker, a sample, replicas in processes of their own, and what readers notice of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from app.java.broker import Broker
from runtime.kafka.connection import KafkaConnection
from tests.drivers.instance import Instance
from tests.drivers.reader import Expected, Reader
from tests.drivers.replicas import Replicas, until
from tests.drivers.sample import PATHS, Sample, is_shown

_READ_ON_S = 1.0


class Deployment:
    """A context manager that starts everything and ends it.

    Args:
        directory: where everything is kept.
        size: how many instances there are to begin with.
        settings: of the instances, without their prefix.
    """

    make_replicas: type[Replicas] = Replicas
    """Makes the instances."""

    def __init__(self, directory: Path, size: int = 3, **settings: object) -> None:
        self._size = size
        self._broker = Broker(directory / "kafka")
        self._directory = directory
        self._settings = settings
        self._open = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._open.enter_context(self._broker)
            self.sample = Sample(self._broker.connection)
            self.sample.load()
            replicas = self.make_replicas(self._directory, self._broker.bootstrap_servers, **self._settings)
            self.replicas = self._open.enter_context(replicas)
            self.replicas.add(self._size)
            for member in self.replicas.members:
                member.wait_for_boards(self.sample.reference.boards())
            self.settle()
            answers = {path: self.replicas.members[0].get(path) for path in PATHS}
            self.expected = {path: Expected(each.status_code, each.content) for path, each in answers.items()}
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def kafka(self) -> KafkaConnection:
        """How to connect to the broker."""
        return self._broker.connection

    @contextmanager
    def reading(self, members: Sequence[Instance]) -> Iterator[Reader]:
        """Read 300 times a second at these members while the block runs, and a second before and after."""
        with Reader([member.address for member in members], self.expected) as reader:
            reader.go_on(_READ_ON_S)
            yield reader
            reader.go_on(_READ_ON_S)

    def settle(self) -> None:
        """Make it as many healthy instances as in the beginning, and wait until the stream runs in real time."""
        members = self.replicas.members
        if len(members) < self._size:
            self.replicas.add(self._size - len(members))
        while len(members) > self._size:
            self.replicas.terminate(self.replicas.others[-1])
        self.replicas.wait_until_settled()
        self.replicas.stream_holder.wait_for_real_time()

    def wait_until_new_scores_are_shown(self) -> None:
        """Wait until every member shows a score that was sent after an instance that is there had the stream.

        What an instance that has been killed leaves behind may still take a score or two.
        """
        members = self.replicas.members
        until(self.replicas.stream_is_held, lambda: "a member has the stream")
        score = self.sample.play()
        until(
            lambda: all(is_shown(member, score) for member in members),
            lambda: f"score {score} is shown: {[(m.address, m.log()[-1000:]) for m in members]}",
        )

"""Two brokers of one cluster: the second one may be away, and whatever it alone has is then without a leader."""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from aiokafka.admin import NewTopic

from app.java.broker import ADDRESS, Broker
from runtime.kafka.connection import KafkaConnection
from tests.drivers.ports import free_port
from tests.drivers.stores_on_kafka import administration


class TwoBrokers:
    """A context manager that runs both; the first is the controller as well.

    Args:
        directory: where they keep everything.

    Attributes:
        second: the other one, to be stopped and started.
    """

    def __init__(self, directory: Path) -> None:
        self._first = Broker(directory / "first")
        self._directory = directory
        self.second: Broker

    @property
    def connection(self) -> KafkaConnection:
        """How clients connect: to the first, which names the second."""
        return self._first.connection

    async def create(self, partitions: Mapping[str, Sequence[int]]) -> None:
        """Create topics, compacted.

        Args:
            partitions: of each topic which broker, 1 or 2, has which of its partitions, and nobody else.
        """
        topics = [
            NewTopic(
                name,
                -1,
                -1,
                replica_assignments={number: [broker] for number, broker in enumerate(brokers)},
                topic_configs={"cleanup.policy": "compact,delete"},
            )
            for name, brokers in partitions.items()
        ]
        async with administration(self.connection) as admin:
            await admin.create_topics(topics)

    def __enter__(self) -> Self:
        with ExitStack() as started:
            started.enter_context(self._first)
            self.second = started.enter_context(self._another())
            self._started = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._started.close()

    def _another(self) -> Broker:
        (voters,) = re.findall("(?m)^controller.quorum.voters=(.*)$", self._text("first/server.properties"))
        (cluster,) = re.findall("(?m)^cluster.id=(.*)$", self._text("first/topics/meta.properties"))
        storage = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        meta = self._directory / "second/topics/meta.properties"
        meta.parent.mkdir(parents=True)
        meta.write_text(f"version=1\ncluster.id={cluster}\nnode.id=2\ndirectory.id={storage}\n")
        port = free_port()
        return Broker(
            self._directory / "second",
            port,
            settings={
                "process.roles": "broker",
                "node.id": "2",
                "controller.quorum.voters": voters.replace("\\", ""),
                "listeners": f"PLAINTEXT://{ADDRESS}:{port}",
            },
        )

    def _text(self, name: str) -> str:
        return (self._directory / name).read_text()

"""What is said of a Kafka that cannot be used names the address that is the matter, and what happens there."""

import asyncio
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError, NodeNotReadyError, SaslAuthenticationFailed

from app.java.broker import Broker
from runtime.errors import BrokerUnavailable
from runtime.kafka import errors as kafka_errors
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.errors import unavailable
from runtime.kafka.ids import topic_ids

A, B, C, D = ("a", 1), ("b", 2), ("c", 3), ("d", 4)
TWO = KafkaConnection("a:1,b:2")
ERROR = NodeNotReadyError()
Address = tuple[str, int]


@dataclass
class Answering:
    """A connection to a broker that says where the brokers are."""

    brokers: list[tuple[int, str, int]]

    async def send(self, _request: object) -> Any:
        """Answer with what brokers there are."""
        return SimpleNamespace(brokers=[(*broker, None) for broker in self.brokers])

    def close(self) -> None:
        """Close nothing."""


Net = dict[Address, "list[Address] | BaseException"]
"""What is at each address: a broker, which says where all of them are, or what comes of connecting."""


@pytest.fixture
def net(monkeypatch: pytest.MonkeyPatch) -> Callable[[Net], None]:
    """Have these addresses, and no others."""

    def have(net: Net) -> None:
        async def create_conn(host: str, port: int, **_: object) -> Answering:
            found = net[host, port]
            if isinstance(found, BaseException):
                raise found
            return Answering([(node, *at) for node, at in enumerate(found, start=1)])

        monkeypatch.setattr(kafka_errors, "create_conn", create_conn)

    return have


UNKNOWN = socket.gaierror(-2, "Name or service not known")
UNREACHABLE = OSError(113, "No route to host")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            {A: UNKNOWN, B: ConnectionRefusedError()},
            "Kafka at a:1,b:2 does not answer (a:1: the name does not resolve, b:2: nothing listens)",
        ),
        (
            {A: UNREACHABLE, B: TimeoutError()},
            "Kafka at a:1,b:2 does not answer (a:1: No route to host, b:2: no answer comes within 3 s)",
        ),
        ({A: [A, B], B: [A, B]}, "Kafka at a:1,b:2 does not answer (NodeNotReadyError)"),
        ({A: [A, B], B: UNKNOWN}, "Kafka at a:1,b:2 does not answer (NodeNotReadyError)"),
        (
            {A: UNKNOWN, B: [C], C: UNKNOWN},
            "Kafka at b:2 answers and says that broker 1 is at c:3, where the name does not resolve: check advertised",
        ),
        (
            {A: [A, C, D], B: [A, C, D], C: [A, C, D], D: TimeoutError()},
            "says that broker 3 is at d:4, where no answer comes within 3 s: check advertised.listeners",
        ),
        ({A: [C], B: [C], C: [C]}, "Kafka at a:1,b:2 does not answer (NodeNotReadyError)"),
        ({A: KafkaConnectionError("gone"), B: UNKNOWN}, "Kafka at a:1 hangs up: if that goes on, check the port"),
        (
            {A: [C], B: [C], C: SaslAuthenticationFailed("no")},
            "LEADERBOARD_KAFKA_SASL_MECHANISM (there broker 1 is, says a:1)",
        ),
    ],
)
async def test_the_address_that_is_the_matter_is_named(net: Callable[[Net], None], found: Net, said: str) -> None:
    net(found)
    assert said in str(await unavailable(TWO, ERROR))


async def test_what_else_is_said_of_kafka_stays(net: Callable[[Net], None]) -> None:
    net({A: [A], B: UNKNOWN})
    assert str(await unavailable(TWO, None, "names no broker")) == "Kafka at a:1,b:2 names no broker"


async def test_what_does_not_answer_is_waited_for_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_errors, "_ASK_TIMEOUT_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as other:
        servers = ",".join(f"127.0.0.1:{each.getsockname()[1]}" for each in (silent, other))
        started_s = time.monotonic()
        said = str(await unavailable(KafkaConnection(servers), ERROR))
    assert said.count("no answer comes within 1 s") == 2
    assert time.monotonic() - started_s < 10


@pytest.mark.parametrize(
    ("advertised", "happens"),
    [("kafka.internal.invalid:9092", "the name does not resolve"), ("127.0.0.1:1", "nothing listens")],
)
def test_a_broker_that_advertises_elsewhere_is_named_by_that_address(
    tmp_path: Path, advertised: str, happens: str
) -> None:
    settings = {"advertised.listeners": f"PLAINTEXT://{advertised}"}
    with Broker(tmp_path / "broker", settings=settings) as broker, pytest.raises(BrokerUnavailable) as raised:
        asyncio.run(topic_ids(broker.connection, ["players"]))
    said = f"Kafka at {broker.connection} answers and says that broker 1 is at {advertised}, where {happens}: check"
    assert str(raised.value).startswith(said)

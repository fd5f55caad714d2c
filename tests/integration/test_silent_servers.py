"""Spark's Kafka clients and servers that refuse, hang up, say nothing, or do not even take a connection."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

import pytest

from app.java.broker import Broker
from runtime.errors import QueryFailed
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.topics import create_missing, outputs_of
from runtime.spark import kafka_clients
from runtime.spark.session import Spark, translated
from topology.word_count import WORD_COUNT

LIMITS_MS = {"_REQUEST_MS": 2_000, "_DELIVERY_MS": 4_000, "_POLL_MS": 4_000}
"""Shorter than they are, each as long beside the others."""
CONNECT_MS = {"socket.connection.setup.timeout.ms": "1000", "socket.connection.setup.timeout.max.ms": "2000"}
BOUND_S = 25.0
"""Two tries of a call that takes two requests' time, and the same for a producer; by default it is minutes."""

Server = Callable[[ExitStack], str]


def refusing(_: ExitStack) -> str:
    """Return an address that nobody listens on."""
    return "127.0.0.1:1"


def silent(opened: ExitStack) -> str:
    """Return an address that takes connections and says nothing."""
    return _address(opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=100)))


def unresponsive(opened: ExitStack) -> str:
    """Return an address where a connection is neither taken nor refused."""
    listening = opened.enter_context(socket.socket())
    listening.bind(("127.0.0.1", 0))
    listening.listen(0)
    for _ in range(3):
        waiting = opened.enter_context(socket.socket())
        waiting.setblocking(False)
        with suppress(BlockingIOError):
            waiting.connect(listening.getsockname())
    return _address(listening)


def hanging_up(opened: ExitStack) -> str:
    """Return an address that takes each connection and ends it."""
    listening = opened.enter_context(socket.create_server(("127.0.0.1", 0)))

    def hang_up() -> None:
        with suppress(OSError):
            while True:
                listening.accept()[0].close()

    threading.Thread(target=hang_up, name="hangs up", daemon=True).start()
    opened.callback(listening.shutdown, socket.SHUT_RDWR)
    return _address(listening)


def _address(listening: socket.socket) -> str:
    return f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that has the topology's topics."""
    with Broker(tmp_path_factory.mktemp("kafka")) as running:
        asyncio.run(create_missing(running.connection, outputs_of(WORD_COUNT)))
        yield running


@pytest.fixture(scope="module")
def warm(spark: Spark, broker: Broker) -> Spark:
    """Spark, with what it loads for its first query loaded."""
    spark.settings = replace(spark.settings, kafka=broker.connection)
    read(spark)
    write(spark)
    return spark


@pytest.fixture
def impatient(warm: Spark, monkeypatch: pytest.MonkeyPatch) -> Spark:
    """Spark with limits that a test can wait for."""
    for name, value in LIMITS_MS.items():
        monkeypatch.setattr(kafka_clients, name, value)
    monkeypatch.setattr(kafka_clients, "_CONNECT_MS", CONNECT_MS)
    monkeypatch.setattr(warm, "settings", warm.settings)
    return warm


def read(spark: Spark) -> None:
    """Read all results."""
    with translated():
        spark.published("counts").count()


def write(spark: Spark) -> None:
    """Write a record."""
    options = kafka_clients.write_options(spark.settings.kafka)
    with translated():
        record = spark.session.sql("SELECT 'word' AS key, 'no result' AS value")
        record.write.format("kafka").options(**options).option("topic", "counts").save()


SERVERS = [silent, *(pytest.param(server, marks=pytest.mark.faults) for server in (refusing, unresponsive, hanging_up))]


@contextmanager
def within_s(limit_s: float) -> Iterator[None]:
    """Fail when the block takes longer."""
    began_s = time.monotonic()
    yield
    took_s = time.monotonic() - began_s
    assert took_s < limit_s, f"it took {took_s:.1f} s"


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("use", [read, write])
def test_a_server_of_the_list_that_does_not_answer_is_passed_over(
    impatient: Spark, broker: Broker, server: Server, use: Callable[[Spark], None]
) -> None:
    with ExitStack() as opened:
        servers = [server(opened), server(opened), broker.bootstrap_servers]
        impatient.settings = replace(impatient.settings, kafka=KafkaConnection(",".join(servers)))
        with within_s(BOUND_S):
            use(impatient)


@pytest.mark.parametrize("protocol", ["PLAINTEXT", pytest.param("SSL", marks=pytest.mark.faults)])
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("use", [read, write])
def test_when_no_server_answers_spark_gives_up_in_time(
    impatient: Spark, server: Server, protocol: str, use: Callable[[Spark], None]
) -> None:
    with ExitStack() as opened:
        impatient.settings = replace(impatient.settings, kafka=KafkaConnection(server(opened), protocol))
        with within_s(BOUND_S), pytest.raises(QueryFailed):
            use(impatient)

"""What Spark's Kafka clients are told: how to connect, and when to give up."""

from __future__ import annotations

import pytest

from runtime.kafka.connection import KafkaConnection
from runtime.spark.kafka_clients import read_options, write_options

KAFKA = KafkaConnection("a:1,b:2,c:3", "SASL_PLAINTEXT", "PLAIN", "boards", "hunter2")


@pytest.mark.parametrize("options", [read_options(KAFKA), write_options(KAFKA)], ids=["source", "sink"])
def test_both_connect_as_every_client_does(options: dict[str, str]) -> None:
    assert {name: options[f"kafka.{name}"] for name in KAFKA.for_java()} == KAFKA.for_java()


@pytest.mark.parametrize("options", [read_options(KAFKA), write_options(KAFKA)], ids=["source", "sink"])
def test_a_call_lasts_until_each_server_of_the_list_may_have_been_silent(options: dict[str, str]) -> None:
    one_ms = int(options["kafka.request.timeout.ms"])
    assert int(options["kafka.default.api.timeout.ms"]) == 4 * one_ms
    assert int(options["kafka.socket.connection.setup.timeout.max.ms"]) <= one_ms <= 10_000


def test_a_source_lets_go_of_a_server_that_says_nothing_for_the_time_of_a_request() -> None:
    options = read_options(KAFKA)
    assert options["kafka.connections.max.idle.ms"] == options["kafka.request.timeout.ms"]


def test_a_sink_gives_up_what_no_server_takes() -> None:
    options = write_options(KAFKA)
    assert options["kafka.max.block.ms"] == options["kafka.default.api.timeout.ms"]
    # Kafka refuses less than this for a record that may be sent again.
    assert int(options["kafka.delivery.timeout.ms"]) >= int(options["kafka.request.timeout.ms"])
